"""Codes of numbers are those of pandas, for every column that hypothesis can think of."""

from __future__ import annotations

import itertools
import warnings

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedvalue.information.contingency import pack
from fedvalue.tables import column_summary
from fedvalue.tables.column_coder import ColumnCoder, fit_column
from fedvalue.tables.column_summary import ColumnSummary, NumberCounts
from fedvalue.tables.columns import column_of
from fedvalue.tables.party_table import label_table, party_table, summary_of

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


def fit(column, *, bins, binning):
    return fit_column(summary_of(column), bins=bins, binning=binning)


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
    np.testing.assert_array_equal(fit(column, bins=bins, binning="width").codes(column), expected)


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
    np.testing.assert_array_equal(fit(column, bins=bins, binning="width").codes(column), expected)


@given(
    x=st.lists(st.integers(-50, 10**6), min_size=3, max_size=80).map(np.array),
    bins=BINS,
)
def test_quantile_bins_without_heavy_values_are_those_of_pandas_qcut(x, bins):
    """Where no value holds more than 1/bins of the rows; pandas rounds where a quantile falls on a row."""
    n = len(x)
    values, counts = np.unique(x, return_counts=True)
    assume(len(values) > bins and counts.max() * bins <= n)
    assume(all((n - 1) * k % bins for k in range(1, bins)))
    expected = pandas_codes(x, lambda s: pd.qcut(s, bins, labels=False, duplicates="drop"))
    column = column_of(x, name="x")
    np.testing.assert_array_equal(fit(column, bins=bins, binning="quantile").codes(column), expected)


@given(
    light=st.lists(st.floats(-9, 9).filter(lambda x: x != 0), max_size=30, unique=True),
    n_zeros=st.integers(1, 400),
    bins=st.integers(3, 9),
)
def test_a_heavy_value_is_alone_in_its_bin(light, n_zeros, bins):
    """Three bins suffice for it and both of its sides."""
    x = np.array([*light, *[0.0] * n_zeros])
    assume(n_zeros * bins > len(x))
    column = column_of(x, name="x")
    codes = fit(column, bins=bins, binning="quantile").codes(column)
    assert set(x[codes == codes[-1]]) == {0.0}


@given(x=st.one_of(floats(), floats(32), integers()), bins=BINS, data=st.data())
def test_quantile_bins_do_not_depend_on_the_order_of_rows(x, bins, data):
    order = np.array(data.draw(st.permutations(range(len(x)))))
    here, there = column_of(x, name="x"), column_of(x[order], name="x")
    codes = fit(here, bins=bins, binning="quantile").codes(here)
    moved = fit(there, bins=bins, binning="quantile").codes(there)
    np.testing.assert_array_equal(moved, codes[order])


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e12])
def test_pooled_numbers_do_not_depend_on_chunks_and_keep_bins_even(scale, monkeypatch):
    """With room for 64 numbers, 5,000 distinct ones are pooled; a pool holds at most 1/16 of the rows here.

    A normal sample has most of its numbers within two powers of two on each side of 0, so 64 pools
    leave about 10 for each: a bin may miss its fifth by one pool.
    """
    monkeypatch.setattr(column_summary, "MOST_NUMBERS", 64)
    rng = np.random.default_rng(5)
    x = rng.normal(size=5_000) * scale
    whole = NumberCounts()
    whole.add(x)
    assert not whole.exact
    for cuts in ([10], [2_500, 2_501], list(range(100, 5_000, 100))):
        parts = NumberCounts()
        for chunk in np.split(x[rng.permutation(5_000)], cuts):
            part = NumberCounts()
            part.add(chunk)
            parts.merge(part)
        np.testing.assert_array_equal(parts.numbers, whole.numbers)
        np.testing.assert_array_equal(parts.counts, whole.counts)
    column = column_of(x, name="x")
    coder = fit_column(summary_of(column), bins=5, binning="quantile")
    rows = np.bincount(coder.codes(column))
    assert (abs(rows - 1_000) <= whole.counts.max()).all()
    np.testing.assert_array_equal(coder.rows_per_code(summary_of(column)), rows)


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
    one_by_one, merged = ColumnSummary("x"), ColumnSummary("x")
    for chunk in chunks:
        column = column_of(pa.array(chunk, pa.float64()), name="x")
        one_by_one.add(column)
        merged.merge(summary_of(column))
    for binning in ("width", "quantile"):
        expected = fit(whole, bins=bins, binning=binning)
        assert fit_column(one_by_one, bins=bins, binning=binning) == expected
        assert fit_column(merged, bins=bins, binning=binning) == expected


@given(x=st.one_of(floats(), floats(32), integers()), bins=BINS)
def test_a_coding_survives_json(x, bins):
    """A coding read back from JSON is the same to the last bit and gives the same codes."""
    column = column_of(x, name="x")
    coding = fit(column, bins=bins, binning="width")
    again = msgspec.json.decode(msgspec.json.encode(coding), type=ColumnCoder)
    assert again == coding
    np.testing.assert_array_equal(again.codes(column), coding.codes(column))


@given(
    rows=hnp.arrays(np.int64, st.tuples(st.integers(1, 40), st.integers(1, 6)), elements=st.integers(0, 4))
)
def test_a_joint_code_numbers_distinct_rows_in_order(rows):
    """Joint codes are the ranks of the distinct rows in lexicographic order."""
    expected = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    np.testing.assert_array_equal(pack(list(rows.T)), expected)


def test_a_joint_code_of_many_wide_columns_does_not_overflow():
    """Columns whose ranges multiply far beyond 64 bits still get dense codes of distinct rows."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 10**6, size=(200, 12))
    rows[100:] = rows[:100]
    expected = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    np.testing.assert_array_equal(pack(list(rows.T)), expected)


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
def test_few_whole_number_labels_are_classes(labels):
    """Up to 20 whole numbers, also written as floats, are classes in rising order."""
    assume(1 < len(set(labels)) <= 20)
    rank = {label: k for k, label in enumerate(sorted(set(labels)))}
    expected = [rank[label] for label in labels]
    assert label_table(labels).codes.tolist() == expected
    assert label_table(np.array(labels, dtype=float)).codes.tolist() == expected
