"""Codes of numbers are those of pandas, for every column that hypothesis can think of."""

from __future__ import annotations

import itertools
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.columns import column_of
from fedvalue.tables.discretise import fit, fit_summary
from fedvalue.tables.party_table import joint_code, label_table, party_table
from fedvalue.tables.summary import Summary

BINS = st.integers(2, 9)


def floats(width: int = 64) -> st.SearchStrategy[np.ndarray]:
    """Columns with ties, negative, huge and tiny numbers, and ranges narrow against their size."""
    finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
    elements = st.one_of(
        finite,
        st.floats(-4, 4, width=width),
        st.integers(-5, 20).map(float),
        st.integers(0, 40).map(lambda k: float(np.float32(1 + k * 2.0**-18))),
    )
    return hnp.arrays(np.float32 if width == 32 else np.float64, st.integers(1, 60), elements=elements)


def integers() -> st.SearchStrategy[np.ndarray]:
    kinds = st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64])
    return kinds.flatmap(lambda kind: hnp.arrays(kind, st.integers(1, 60)))


def pandas_codes(x: np.ndarray, answer: object) -> np.ndarray | None:
    """pandas' codes, or None where it refuses or loses a value (its widening by 0.1% rounds away)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            codes = answer(pd.Series(x))
        except (ValueError, OverflowError):
            return None
    return None if codes.isna().any() else codes.to_numpy(dtype=np.int64)


@given(x=st.one_of(floats(), floats(32), integers()), bins=BINS)
def test_width_bins_are_those_of_pandas_cut(x, bins):
    """Numbers with many distinct values get exactly the codes of pandas.cut(x, bins)."""
    assume(len(np.unique(x)) > bins)
    expected = pandas_codes(x, lambda s: pd.cut(s, bins, labels=False))
    assume(expected is not None)
    column = column_of(x, name="x")
    np.testing.assert_array_equal(fit(column, bins=bins).codes(column), expected)


@given(
    scale=st.floats(-300, 300),
    shift=st.sampled_from([0.0, -0.5, 1.0, 1e3, -1e6]),
    steps=st.lists(st.integers(0, 100), min_size=12, max_size=40, unique=True),
    bins=BINS,
)
def test_ties_at_the_edges_fall_as_in_pandas(scale, shift, steps, bins):
    """Values that lie on a bin's edge, or one rounding beside it, fall on the same side."""
    x = (np.array([*steps, 0, 100]) / 100 + shift) * 10.0**scale
    assume(len(np.unique(x)) > bins)
    expected = pandas_codes(x, lambda s: pd.cut(s, bins, labels=False))
    assume(expected is not None)
    column = column_of(x, name="x")
    np.testing.assert_array_equal(fit(column, bins=bins).codes(column), expected)


@given(x=st.one_of(floats(), floats(32), integers()), bins=BINS)
def test_quantile_bins_are_those_of_pandas_qcut(x, bins):
    """Quantile bins have exactly the codes of pandas.qcut(x, bins, duplicates="drop")."""
    assume(len(np.unique(x)) > bins)
    expected = pandas_codes(x, lambda s: pd.qcut(s, bins, labels=False, duplicates="drop"))
    assume(expected is not None)
    column = column_of(x, name="x")
    np.testing.assert_array_equal(fit(column, bins=bins, binning="quantile").codes(column), expected)


@given(
    x=st.one_of(floats(), floats(32), integers()), bins=BINS, binning=st.sampled_from(["width", "quantile"])
)
def test_every_number_has_a_bin_also_where_pandas_refuses(x, bins, binning):
    """Codes rise with the number, start at 0 with the minimum and stay below the number of codes."""
    column = column_of(x, name="x")
    coding = fit(column, bins=bins, binning=binning)
    codes = coding.codes(column)
    order = np.argsort(x, kind="stable")
    assert (np.diff(codes[order]) >= 0).all()
    assert codes.min() == 0
    assert codes.max() < coding.n_codes <= bins


@given(
    values=st.lists(st.one_of(st.none(), st.integers(-3, 9), st.floats(-1, 1)), min_size=1, max_size=50),
    cuts=st.lists(st.integers(0, 50), max_size=4),
    bins=BINS,
)
def test_a_coding_does_not_depend_on_the_chunks(values, cuts, bins):
    """Summaries of chunks, merged or added one by one, give the coding of the whole column."""
    whole = column_of(pa.array(values, pa.float64()), name="x")
    edges = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    chunks = [values[a:b] for a, b in itertools.pairwise(edges)]
    one_by_one = Summary("x", limit=bins)
    merged = Summary("x", limit=bins)
    for chunk in chunks:
        column = column_of(pa.array(chunk, pa.float64()), name="x")
        one_by_one.add(column)
        alone = Summary("x", limit=bins)
        alone.add(column)
        merged.merge(alone)
    expected = fit(whole, bins=bins)
    assert fit_summary(one_by_one, bins=bins) == expected
    assert fit_summary(merged, bins=bins) == expected


@given(x=st.one_of(floats(), floats(32), integers()), bins=BINS)
def test_a_coding_survives_json(x, bins):
    """A coding read back from JSON is the same to the last bit and gives the same codes."""
    column = column_of(x, name="x")
    coding = fit(column, bins=bins)
    again = ColumnCoding.from_dict(json.loads(json.dumps(coding.to_dict())))
    assert again == coding
    np.testing.assert_array_equal(again.codes(column), coding.codes(column))


@given(
    rows=hnp.arrays(np.int64, st.tuples(st.integers(1, 40), st.integers(1, 6)), elements=st.integers(0, 4))
)
def test_a_joint_code_numbers_distinct_rows_in_order(rows):
    """Joint codes are the ranks of the distinct rows in lexicographic order."""
    expected = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    codes, n_codes = joint_code(list(rows.T))
    np.testing.assert_array_equal(codes, expected)
    assert n_codes == expected.max() + 1


def test_a_joint_code_of_many_wide_columns_does_not_overflow():
    """Columns whose ranges multiply far beyond 64 bits still get dense codes of distinct rows."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 10**6, size=(200, 12))
    rows[100:] = rows[:100]
    expected = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    np.testing.assert_array_equal(joint_code(list(rows.T))[0], expected)


@pytest.mark.parametrize("permuted", [False, True])
@given(data=st.data())
def test_codes_describe_rows_not_their_order(permuted, data):
    """Equal rows have equal codes, and a row keeps its code when the rows change places."""
    n = data.draw(st.integers(2, 30))
    X = {
        "a": data.draw(st.lists(st.one_of(st.none(), st.sampled_from("xyz")), min_size=n, max_size=n)),
        "b": data.draw(st.lists(st.integers(0, 12), min_size=n, max_size=n)),
    }
    order = data.draw(st.permutations(range(n))) if permuted else list(range(n))[::-1]
    table = party_table("p", X)
    moved = party_table("p", {key: [column[k] for k in order] for key, column in X.items()})
    np.testing.assert_array_equal(moved.codes, table.codes[np.array(order)])


@given(labels=st.lists(st.integers(-100, 100), min_size=2, max_size=60))
def test_whole_number_labels_are_classes(labels):
    """Whole numbers, also written as floats, are classes in rising order, however many."""
    assume(len(set(labels)) > 1)
    rank = {label: k for k, label in enumerate(sorted(set(labels)))}
    expected = [rank[label] for label in labels]
    assert label_table(labels).codes.tolist() == expected
    assert label_table(np.array(labels, dtype=float)).codes.tolist() == expected
