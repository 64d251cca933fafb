"""Codes of columns: by hand, and for rows that come after the fit."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.columns import column_of
from fedvalue.tables.discretise import check_bins, fit


def codes_of(data, **how):
    column = column_of(data, name="x")
    return fit(column, **how).codes(column).tolist()


def extended(coding, column):
    summary = coding.summary()
    summary.add(column)
    return coding.extended(summary)


def test_equal_width_bins_by_hand():
    """[0, 10] in 5 bins has edges 2, 4, 6, 8, closed on the right; the minimum is in the first."""
    assert codes_of([0, 1, 2, 2.1, 4, 5, 6, 7.9, 8.1, 10]) == [0, 0, 0, 1, 1, 2, 2, 3, 4, 4]


def test_quantile_bins_by_hand():
    """Two quantile bins split at the median, which belongs to the lower one."""
    assert codes_of([1, 2, 3, 100, 1000], bins=2, binning="quantile") == [0, 0, 0, 1, 1]


def test_few_distinct_numbers_are_kept():
    """At most `bins` distinct numbers stay as they are, however uneven."""
    assert codes_of([1, 2, 3, 4, 1000]) == [0, 1, 2, 3, 4]
    assert codes_of([1, 2, 3, 4, 1000], bins=4) == [0, 0, 0, 0, 3]


def test_missing_values_are_a_category_of_their_own():
    """None and NaN have one code, after all others."""
    assert codes_of(["b", None, "a"]) == [1, 2, 0]
    assert codes_of([5.0, None, float("nan"), 1.0]) == [1, 2, 2, 0]
    assert codes_of([*range(10), None])[-1] == 5


def test_numbers_that_are_names_are_never_binned():
    """Ten categories written as numbers have ten codes."""
    assert codes_of(pd.Series(pd.Categorical(range(10)))) == list(range(10))


def test_large_integers_do_not_merge():
    """Two kept integers that are one float apart keep two codes."""
    assert codes_of(np.array([2**60, 2**60 + 1])) == [0, 1]


@pytest.mark.parametrize("binning", ["width", "quantile"])
def test_a_range_beyond_the_largest_float_has_bins(binning):
    """The difference of largest and smallest overflows; the bins do not."""
    values = np.array([-1.7e308, -1e308, -1e307, 1e307, 1e308, 1.7e308])
    assert codes_of(values, bins=2, binning=binning) == [0, 0, 0, 1, 1, 1]


def test_a_range_lost_to_rounding_has_its_minimum_in_the_first_bin():
    """pandas.cut answers NaN for the smallest value here, whose bin's edge is widened by nothing."""
    values = 2.0**60 + np.arange(6) * 2.0**8
    assert pd.isna(pd.cut(values, 5, labels=False)[0])
    assert codes_of(values) == [0, 0, 1, 2, 3, 4]


def test_later_numbers_outside_the_range_fall_into_the_outer_bins():
    """The first and last bin are open to the outside for rows that come later."""
    coding = fit(column_of(range(11), name="x"))
    assert coding.codes(column_of([-100, 3, 100], name="x")).tolist() == [0, 1, 4]


def test_new_categories_get_codes_after_the_known_ones():
    """Extending keeps every old code."""
    coding = fit(column_of(["b", "c", None], name="x"))
    more = column_of(["a", "b", "d", None], name="x")
    with pytest.raises(InputError, match="column 'x': 2 values are not among the 3 known"):
        coding.codes(more)
    wider = extended(coding, more)
    assert wider.categories == ("b", "c", None, "a", "d")
    assert wider.codes(more).tolist() == [3, 0, 4, 2]
    assert extended(wider, more) is wider


def test_the_first_missing_value_gets_a_code_after_the_known_ones():
    """A coding that has seen no missing value refuses one until it is extended."""
    gone = column_of([3.0, None], name="x")
    for data in (range(11), [3, 4]):
        coding = fit(column_of(data, name="x"))
        with pytest.raises(InputError, match="column 'x'"):
            coding.codes(gone)
        assert extended(coding, gone).codes(gone)[1] == coding.n_codes


def test_kept_numbers_grow_no_further_than_they_were_allowed():
    """A column that no longer has few distinct numbers must be coded anew."""
    coding = fit(column_of([1, 2, 3, 4], name="x"))
    assert extended(coding, column_of([9], name="x")).categories == (1, 2, 3, 4, 9)
    with pytest.raises(InputError, match=r"column 'x': expected at most 5 distinct numbers.*got 6"):
        extended(coding, column_of([9, 10], name="x"))
    with pytest.raises(InputError, match=r"expected at most 5 distinct numbers.*got more than 5"):
        extended(coding, column_of(range(6), name="x"))


@pytest.mark.parametrize(
    ("fitted", "later", "message"),
    [
        (["a"], [1], "expected text, got numbers"),
        ([1], ["a"], "expected numbers, got text"),
        ([1], np.array(["2020-01-01"], dtype="datetime64[D]"), "expected numbers, got dates"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), [1], "expected dates, got numbers"),
        ([None], [1], "had no values when it was coded"),
    ],
)
def test_a_column_of_another_type_is_refused(fitted, later, message):
    """Codes have a meaning only for the type they were fitted on."""
    coding = fit(column_of(fitted, name="x"))
    column = column_of(later, name="x")
    with pytest.raises(InputError, match=message):
        coding.codes(column)
    with pytest.raises(InputError, match=message):
        extended(coding, column)


def test_a_chunk_without_values_fits_every_coding():
    """All missing says nothing about the type: it is extended and coded."""
    nothing = column_of([None, None], name="x")
    for data in (["a"], [1, 2], range(20)):
        coding = extended(fit(column_of(data, name="x")), nothing)
        assert coding.codes(nothing).tolist() == [coding.n_codes - 1] * 2


@pytest.mark.parametrize("bins", [1, 0, -3, 2.5, "5", None, True])
def test_bins_must_be_a_whole_number_of_at_least_two(bins):
    """Anything else is refused with what came."""
    with pytest.raises(InputError, match=f"bins must be a whole number of at least 2, got {bins!r}"):
        check_bins(bins)


def test_unknown_binning_is_refused():
    """Only width and quantile are known."""
    with pytest.raises(InputError, match="binning must be 'width' or 'quantile', got 'kmeans'"):
        fit(column_of([1], name="x"), binning="kmeans")


@pytest.mark.parametrize(
    "data", [{}, {"name": "x"}, {"categories": 1, "edges": []}, {"a": 1, "categories": [], "edges": []}]
)
def test_what_is_no_coding_is_refused(data):
    """A damaged coding is an input error, never a KeyError."""
    with pytest.raises(InputError, match="expected the coding of a column"):
        ColumnCoding.from_dict(data)


def test_json_keeps_text_and_missing():
    """None, text and numbers come back from JSON as they were."""
    for data in (["ü", None], [1, 2.5, None], [2**60, 2**60 + 1], [*np.linspace(0, 0.1, 30), None]):
        coding = fit(column_of(data, name="x"))
        assert ColumnCoding.from_dict(json.loads(json.dumps(coding.to_dict()))) == coding
