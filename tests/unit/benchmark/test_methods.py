"""Every method, against other code where there is some, or by hand."""

from __future__ import annotations

import numpy as np
import pytest

import fedvalue
from fedvalue.benchmark.methods.information_methods import information_value, knn_information
from fedvalue.benchmark.methods.method import Estimate, GameMethod
from fedvalue.benchmark.methods.method_registry import METHODS
from fedvalue.benchmark.problem import VerticalTable
from tests.unit.benchmark.tables import small_table

TABLE = small_table(300, 7, task=True)


def values_of(name: str, table: VerticalTable = TABLE) -> dict[str, float]:
    estimate = METHODS[name]().value(table)
    return dict(estimate.values if isinstance(estimate, Estimate) else estimate)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_prefers_the_informative_party(name: str) -> None:
    values = values_of(name)
    assert list(values) == ["good", "text", "noise"]
    assert values["good"] > max(values["text"], values["noise"], 0)


@pytest.mark.parametrize(
    ("name", "binning"), [("shapley-cmi", "width"), ("shapley-cmi-quantile", "quantile")]
)
def test_shapley_cmi_is_that_of_the_package(name: str, binning: str) -> None:
    """Two ways to the same number: entropies per coalition here, the walk over blocks there."""
    label = np.array(["no", "yes"])[TABLE.label]
    result = fedvalue.value(
        label=label, task=dict(TABLE.task), parties=TABLE.parties, bins=5, binning=binning, statistics=False
    )
    assert values_of(name) == pytest.approx(result.values, abs=1e-12)


def test_miller_madow_by_hand() -> None:
    """With x = y on four rows, H(X), H(Y) and H(X, Y) have two cells: each is ln 2 + 1/8, so I is that."""
    x = np.array([0.0, 0.0, 1.0, 1.0])
    table = VerticalTable(np.array([0, 0, 1, 1]), {}, {"a": {"x": x}})
    assert values_of("miller-madow", table)["a"] == pytest.approx(np.log(2) + 1 / 8)


def test_information_value_by_hand() -> None:
    """Bins 0, 1 with 3 : 1 rows of label 1 and 1 : 3 of label 0, half a row added: p = 0.7, q = 0.3."""
    code = np.array([0, 0, 0, 1, 0, 1, 1, 1])
    label = np.array([1, 1, 1, 1, 0, 0, 0, 0])
    assert information_value(code, label) == pytest.approx(2 * 0.4 * np.log(0.7 / 0.3))


def test_knn_information_of_one_column_is_scikit_learns() -> None:
    """Both follow Ross (2014) with three neighbours; scikit-learn's jitter differs, by far below 1e-3."""
    from sklearn.feature_selection import mutual_info_classif

    rng = np.random.default_rng(2)
    label = rng.integers(0, 3, 400)
    x = label + rng.normal(size=400)
    oracle = mutual_info_classif(x[:, None], label, n_neighbors=3, random_state=0)[0]
    assert knn_information((x / x.std())[:, None], label) == pytest.approx(oracle, abs=1e-3)


def test_knn_information_of_two_columns_is_that_of_the_plane() -> None:
    """Classes on opposite sides of a far gap: the label is known, so I = H(Y) = ln 2, less ψ terms of 1/n."""
    rng = np.random.default_rng(3)
    label = np.arange(400) % 2
    X = rng.uniform(size=(400, 2)) + 100 * label[:, None]
    assert knn_information(X, label) == pytest.approx(np.log(2), abs=0.01)


def test_knn_leaves_out_labels_with_a_single_row() -> None:
    X = np.random.default_rng(0).normal(size=(21, 1))
    label = np.array([0, 1] * 10 + [2])
    assert knn_information(X, label) == knn_information(X[:20], label[:20])


def test_a_game_method_is_a_shapley_value() -> None:
    """v = number of members squared: by symmetry a third of nine each."""

    class Squares(GameMethod):
        name = "squares"

        def coalition(self, table: VerticalTable, mask: int) -> float:
            return float(mask.bit_count() ** 2)

    estimate = Squares().value(TABLE)
    assert estimate.values == pytest.approx({"good": 3.0, "text": 3.0, "noise": 3.0})
    assert estimate.game is not None
    assert estimate.game[-1] == 9


def test_leaving_out_the_only_party_leaves_nothing() -> None:
    alone = VerticalTable(TABLE.label, {}, {"good": TABLE.parties["good"]})
    with pytest.raises(fedvalue.errors.InputError, match="leaves no column to train on"):
        values_of("leave-one-party-out", alone)
