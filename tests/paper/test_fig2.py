"""A cut-down Fig. 2 and Table 2 for real, on Wine and Breast, which scikit-learn ships."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedvalue.datasets import load
from fedvalue.paper.experiments import correlations, paper_tables
from fedvalue.paper.experiments.correlation_figures import Fig2, Fig3
from fedvalue.paper.experiments.experiment import Numbers
from fedvalue.paper.experiments.setting import discretised, uneven_groups
from fedvalue.paper.reference_models import MODELS, ShapSize, draw_rows
from tests import naive


@pytest.fixture(scope="module")
def results() -> dict[str, Numbers]:
    """Two draws of Wine with four assignments and few SHAP rows."""
    small = correlations.Size(4, 1, 1, 1500, 2000, ShapSize(explained=25, background=8, coalitions=200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(correlations.SIZES, "quick", small)
        return {
            unit.key: unit.call(**unit.settings) for unit in correlations.units("quick", 0, ("wine",))[:2]
        }


@pytest.mark.parametrize("name", ["wine", "breast"])
def test_accuracies_of_deterministic_models_are_the_papers_to_three_decimals(name: str) -> None:
    """Mean and population deviation over the five hold-outs, as printed."""
    for model in ("SVM", "LR"):
        scores = [paper_tables.accuracy(name, model, draw)["accuracy"] for draw in range(5)]
        printed = paper_tables.ACCURACIES[name][model]
        assert (round(float(np.mean(scores)), 3), round(float(np.std(scores)), 3)) == printed


def test_codes_are_those_of_pandas_cut() -> None:
    data = discretised("wine")
    for k, values in enumerate(load("wine").X.values()):
        assert data.codes[:, k].tolist() == pd.cut(np.asarray(values, float), 5, labels=False).tolist()


def test_shapley_cmi_and_shap_ensemble_agree(results: dict[str, Numbers]) -> None:
    """The paper: almost all above 0.8. Eight repeats with sd 0.1 and coarse SHAP values leave 0.65."""
    fig2 = Fig2()
    numbers = fig2.summarise(results)
    assert len(numbers["cells"]) == 3 * 2
    for cell in numbers["cells"]:
        assert cell["value"]["n"] == (2 if cell["features"] == 1 else 8)
        assert cell["value"]["mean"] > 0.65, cell
        assert cell["learnable"]["n"] == 1
    assert fig2.judge(numbers).measured.startswith(f"{fig2.above(numbers, 'value')} of 6 ")
    assert {c["features"] for c in Fig3().summarise(results)["cells"]} == {1, 2, 3}


def test_the_values_behind_the_figure_are_shapley_cmi(results: dict[str, Numbers]) -> None:
    """Wine with three features per party, by the definition, over all coalitions."""
    whole = discretised("wine")
    data = whole.rows(draw_rows(178, 1)[0])
    assert len(data.label) == 142
    for reading in correlations.READINGS:
        task, groups = correlations.dealt(13, reading, 3, 0)

        def joint(columns: list[int]) -> list[int]:
            rows = [tuple(row) for row in data.codes[:, columns].tolist()]
            return [sorted(set(rows)).index(row) for row in rows]

        expected = naive.shapley_cmi(
            [joint(list(group)) for group in groups],
            data.label.tolist(),
            joint(task) if task else [0] * len(data.label),
        )
        assert results["draw/wine/1"][reading]["3"][0]["value"] == pytest.approx(expected, abs=1e-9)


def test_who_holds_what() -> None:
    """ceil(m / k) groups: all at data parties, or one at the task party; every feature in one place."""
    for reading, n_parties in (("label-only", 5), ("with-features", 4), ("uneven", 5)):
        task, groups = correlations.dealt(13, reading, 3, 7)
        assert len(groups) == n_parties
        assert bool(task) == (reading == "with-features")
        assert sorted([*task, *(k for group in groups for k in group)]) == list(range(13))
    sizes = {len(group) for group in correlations.dealt(13, "label-only", 3, 7)[1]}
    assert sizes == {2, 3}
    rng = np.random.default_rng(0)
    assert all(uneven_groups(13, 5, rng)[0] for _ in range(20))


def test_models_are_normalised_before_they_are_averaged(results: dict[str, Numbers]) -> None:
    one = results["draw/wine/0"]["label-only"]["2"][0]
    assert set(one["shap"]) == set(MODELS)
    for values in one["shap"].values():
        assert sum(values) == pytest.approx(1.0)
    assert correlations.correlation([one], "value", "no such")["n"] == 0
    assert replace(correlations.SIZES["paper"]).shap == ShapSize(500, 50, 2048)
