"""`fedvalue.value` against brute-force Eq. 8 and the paper's properties, whatever the tables look like."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedvalue
from fedvalue.errors import InputError
from fedvalue.information.cmi import cmi
from tests import naive


@st.composite
def tables(draw: st.DrawFn, *, max_parties: int = 5) -> dict[str, list[list[int]] | list[int]]:
    """A small table with ties: few codes, repeated rows, some parties, a task column or none."""
    n = draw(st.integers(2, 30))
    p = draw(st.integers(1, max_parties))
    column = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    label = draw(column.filter(lambda y: len(set(y)) > 1))
    return {
        "label": label,
        "task": draw(st.one_of(st.just([0] * n), column)),
        "parties": [draw(column) for _ in range(p)],
    }


def value(table: dict[str, list], **options: object) -> fedvalue.Valuation:
    return fedvalue.value(
        task={"t": table["task"]},
        label=table["label"],
        parties={f"d{k}": {"x": column} for k, column in enumerate(table["parties"])},
        statistics=False,
        **options,
    )


@given(tables())
@settings(max_examples=60)
def test_values_are_those_of_eq_8(table: dict[str, list]) -> None:
    expected = naive.shapley_cmi(table["parties"], table["label"], table["task"])
    result = value(table, method="exact")
    assert list(result.values.values()) == pytest.approx(expected, abs=1e-12)
    assert result.total == pytest.approx(math.fsum(expected), abs=1e-12)


@given(tables())
@settings(max_examples=40)
def test_alone_and_last_are_the_ends_of_the_order(table: dict[str, list]) -> None:
    p = len(table["parties"])
    games = naive.coalition_values(table["parties"], table["label"], table["task"], [1] * len(table["label"]))
    everybody = frozenset(range(p))
    result = value(table, method="exact")
    for d, party in enumerate(result.parties):
        assert party.alone == pytest.approx(games[frozenset({d})], abs=1e-12)
        assert party.last == pytest.approx(games[everybody] - games[everybody - {d}], abs=1e-12)


@given(tables(max_parties=1))
def test_one_data_party_has_the_conditional_mutual_information(table: dict[str, list]) -> None:
    (party,) = value(table).parties
    x, y, z = (np.array(c) for c in (table["parties"][0], table["label"], table["task"]))
    assert party.value == pytest.approx(cmi(x, y, z), abs=1e-12)


@given(tables(max_parties=3), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_values_do_not_depend_on_row_order_or_on_the_names_of_codes(table: dict[str, list], random) -> None:
    order = list(range(len(table["label"])))
    random.shuffle(order)
    renamed = {0: "red", 1: "green", 2: "blue"}
    other = {
        "label": [f"y{table['label'][i]}" for i in order],
        "task": [table["task"][i] for i in order],
        "parties": [[renamed[column[i]] for i in order] for column in table["parties"]],
    }
    before, after = (list(value(t, method="exact").values.values()) for t in (table, other))
    assert before == pytest.approx(after, abs=1e-12)


FORMS = {
    "dict": lambda columns: columns,
    "numpy": lambda columns: np.column_stack([np.asarray(c) for c in columns.values()]),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_table_gives_the_same_values(form: str) -> None:
    rng = np.random.default_rng(5)
    columns = {name: rng.normal(size=200) for name in "abcd"}
    y = (columns["a"] + columns["c"] > 0).astype(int)
    expected = fedvalue.value(
        task={"d": columns["d"]},
        label=y,
        parties={"one": {k: columns[k] for k in "ab"}, "two": {"c": columns["c"]}},
        statistics=False,
    )
    make = FORMS[form]
    got = fedvalue.value(
        task=make({"d": columns["d"]}),
        label=y,
        parties={"one": make({k: columns[k] for k in "ab"}), "two": make({"c": columns["c"]})},
        statistics=False,
    )
    assert got.values == pytest.approx(expected.values, abs=0)


def test_a_regression_label_is_binned_and_says_so() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=300)
    result = fedvalue.value(label=x + rng.normal(size=300) / 9, parties={"a": x}, statistics=False)
    assert "label" in " ".join(result.details["notes"])
    assert result["a"].value > 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parties": {}}, "at least one data party"),
        ({"parties": {"a": [1, 2, 3]}}, "party 'a': expected 4 samples as the label has, got 3"),
        ({"task": {"t": [1, 2]}}, "expected 4 samples"),
        ({"label": [1, 1, 1, 1]}, "all rows have the same label"),
        ({"label": []}, "at least one row is needed"),
        ({"parties": {"a": [1.0, 2.0, float("inf"), 0.5]}}, "infinite"),
        ({"bins": 1}, "bins must be a whole number from 2 to 65536, got 1"),
        ({"bins": 2.5}, "bins"),
        ({"method": "fast"}, "auto, exact, sampled"),
        ({"n_permutations": 1}, "at least 2, got 1"),
        ({"pca": 0}, "pca must be a whole number from 1 to 65536, got 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    good = {"label": [0, 1, 0, 1], "parties": {"a": [0, 1, 1, 1]}}
    with pytest.raises(InputError, match=message):
        fedvalue.value(**{**good, **arguments})  # type: ignore[arg-type]


def test_an_option_of_a_protocol_is_no_argument() -> None:
    """It belongs to the protocol's own object, such as Paper(q=3)."""
    with pytest.raises(TypeError, match="value has no argument 'q'"):
        fedvalue.value(label=[0, 1, 0, 1], parties={"a": [0, 1, 1, 1]}, q=3)  # type: ignore[call-arg]
