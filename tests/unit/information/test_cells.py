"""The compiled counter against a dictionary of tuples."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import InputError
from fedvalue.information.cells import CellCounter, Packing

PLAIN_ROWS = st.sampled_from([0, 15, 1000])
"""Always hash, sort the first chunks and hash the rest, always sort."""


@given(
    n_codes=st.lists(st.sampled_from([1, 2, 5, 1000, 2**31, 2**45, 2**62]), min_size=1, max_size=8),
    n_rows=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_packing_is_undone_by_unpacking(n_codes, n_rows, seed):
    """Codes of any ranges come back as they were, in as many words as needed."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, n_rows) for size in n_codes]
    packing = Packing(tuple(n_codes))
    keys = packing.pack(columns)
    assert keys.min() >= 0
    for got, expected in zip(packing.unpack(keys), columns, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_small_ranges_share_a_word():
    """63 binary columns fit one word, 64 need a second."""
    assert len(Packing((2,) * 63).words) == 1
    assert len(Packing((2,) * 64).words) == 2


@given(
    rows=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**62)), max_size=40), min_size=1, max_size=6
    ),
    weight=st.integers(1, 5),
    plain_rows=PLAIN_ROWS,
)
def test_counter_is_a_dictionary_of_rows(rows, weight, plain_rows):
    """Chunks of rows add up to the counts of a Python Counter, cells in lexicographic order."""
    counter = CellCounter(2, plain_rows)
    expected = Counter()
    for chunk in rows:
        counter.add(
            np.array(chunk, dtype=np.int64).reshape(-1, 2), np.full(len(chunk), weight, dtype=np.int64)
        )
        expected.update({row: weight * n for row, n in Counter(chunk).items()})
    keys, counts = counter.cells()
    assert [tuple(key) for key in keys.tolist()] == sorted(expected)
    assert counts.tolist() == [expected[key] for key in sorted(expected)]


def test_counter_grows_over_many_chunks():
    """More cells than any first table holds, each met in several chunks."""
    rng = np.random.default_rng(5)
    chunks = [rng.integers(0, 30_000, size=(7_000, 1)) for _ in range(20)]
    counter = CellCounter(1)
    for chunk in chunks:
        counter.add(chunk)
    keys, counts = counter.cells()
    expected, totals = np.unique(np.concatenate(chunks), return_counts=True)
    np.testing.assert_array_equal(keys[:, 0], expected)
    np.testing.assert_array_equal(counts, totals)


def test_weights_must_match_the_rows():
    """One weight per row."""
    with pytest.raises(InputError, match="expected 2 weights, got 3"):
        CellCounter(1).add(np.zeros((2, 1), dtype=np.int64), np.ones(3, dtype=np.int64))


@given(rows=st.lists(st.lists(st.integers(0, 5), max_size=20), min_size=1, max_size=5), plain_rows=PLAIN_ROWS)
def test_numbers_and_ranks_are_the_place_of_each_row_among_the_distinct_ones(rows, plain_rows):
    """Rows are numbered as they come; ranked in the end they stand in rising order."""
    counter = CellCounter(1, plain_rows)
    numbers = [counter.number(np.array(chunk, dtype=np.int64).reshape(-1, 1)) for chunk in rows]
    everything = [one for chunk in rows for one in chunk]
    met = list(dict.fromkeys(everything))
    assert np.concatenate(numbers).tolist() == [met.index(one) for one in everything]
    assert counter.ranks().tolist() == [sorted(met).index(one) for one in met]
