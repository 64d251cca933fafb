"""Codes of columns: by hand, and for rows that come after the fit."""

from __future__ import annotations

import msgspec
import numpy as np
import pandas as pd
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.column_coder import ColumnCoder, fit_column
from fedvalue.tables.columns import column_of
from fedvalue.tables.party_table import summary_of


def fitted(data, bins=5, binning="width", **how):
    return fit_column(summary_of(column_of(data, name="x", **how)), bins=bins, binning=binning)


def codes_of(data, **how):
    return fitted(data, **how).codes(column_of(data, name="x")).tolist()


def extended(coder, column):
    return coder.extended(summary_of(column))


def test_equal_width_bins_by_hand():
    """[0, 10] in 5 bins has edges 2, 4, 6, 8, closed on the right; the minimum is in the first."""
    assert codes_of([0, 1, 2, 2.1, 4, 5, 6, 7.9, 8.1, 10]) == [0, 0, 0, 1, 1, 2, 2, 3, 4, 4]


def test_quantile_bins_by_hand():
    """Two quantile bins split at the median, which belongs to the lower one."""
    assert codes_of([1, 2, 3, 100, 1000], bins=2, binning="quantile") == [0, 0, 0, 1, 1]


def test_heavy_zeros_have_a_quantile_bin_of_their_own():
    """95 zeros of 100: the five other numbers share the four bins that are left; nothing joins the zeros."""
    values = [0] * 95 + [1, 2, 3, 4, 5]
    assert codes_of(values, binning="quantile") == [0] * 95 + [1, 1, 2, 3, 4]
    both_sides = [-2, -1] + [0] * 95 + [1, 2, 3]
    assert codes_of(both_sides, binning="quantile") == [0, 1] + [2] * 95 + [3, 3, 4]


def test_a_value_of_exactly_a_fifth_of_the_rows_is_not_heavy():
    """Two of ten rows fill one of five bins as any two numbers would."""
    assert codes_of([1, 2, 3, 3, 4, 5, 6, 7, 8, 9], binning="quantile") == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_two_heavy_values_have_a_bin_each():
    """40 rows of 7 and 40 of 9; of three bins for the rest, each side and the middle get one."""
    values = [1, 2, 3] + [7] * 40 + [8] + [9] * 40 + [10, 11]
    assert codes_of(values, binning="quantile") == [0] * 3 + [1] * 40 + [2] + [3] * 40 + [4, 4]


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
    assert len(set(codes_of(pd.Series(pd.Categorical(range(10)))))) == 10


LEVELS = [f"level-{k:02}" for k in range(30)]


def test_rare_categories_of_a_long_list_are_merged():
    """Below 5 of 10,000 rows is rare by rows, below 10 by share: 10 rows are kept, 9 are merged."""
    rows = [LEVELS[k] for k in range(30) for _ in range(9 if k < 3 else 10)]
    rows += ["common"] * (10_000 - len(rows))
    coder = fitted(rows, binning="quantile")
    assert coder.categories == ("common", *LEVELS[3:])
    assert coder.n_codes == 29
    codes = coder.codes(column_of([LEVELS[0], LEVELS[2], LEVELS[3], "common"], name="x")).tolist()
    assert codes == [28, 28, 1, 0]


def test_short_lists_of_categories_single_rare_ones_and_the_papers_bins_are_kept():
    """20 categories are no long list; one rare category needs no other name; "width" keeps all."""
    assert fitted(LEVELS[:20], binning="quantile").n_codes == 20
    assert fitted([LEVELS[0], *(LEVELS[1:] * 5)], binning="quantile").n_codes == 30
    assert fitted(LEVELS, binning="width").n_codes == 30
    assert fitted(LEVELS, binning="quantile").n_codes == 1


def test_a_later_category_is_other_where_rare_ones_were_merged():
    """It gets no code of its own, so that a stream of ids does not grow the code range."""
    coder = fitted([*LEVELS[:2], *(LEVELS[2:] * 5), None], binning="quantile")
    later = column_of(["new", LEVELS[0], None], name="x")
    assert extended(coder, later) is coder
    assert coder.codes(later).tolist() == [28, 28, 29]


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
    coder = fitted(range(11))
    assert coder.codes(column_of([-100, 3, 100], name="x")).tolist() == [0, 1, 4]


def test_new_categories_get_codes_after_the_known_ones():
    """Extending keeps every old code, that of missing values included."""
    coder = fitted(["b", "c", None])
    more = column_of(["a", "b", "d", None], name="x")
    with pytest.raises(InputError, match="column 'x': 2 values are not among the 3 known"):
        coder.codes(more)
    wider = extended(coder, more)
    assert wider.codes(more).tolist() == [3, 0, 4, 2]
    assert extended(wider, more) is wider


def test_the_first_missing_value_gets_a_code_after_the_known_ones():
    """A coder that has seen no missing value refuses one until it is extended."""
    gone = column_of([3.0, None], name="x")
    for data in (range(11), [3, 4]):
        coder = fitted(data)
        with pytest.raises(InputError, match="column 'x' had no missing values"):
            coder.codes(gone)
        assert extended(coder, gone).codes(gone)[1] == coder.n_codes


def test_kept_numbers_grow_no_further_than_they_were_allowed():
    """A column that no longer has few distinct numbers must be coded from the start."""
    coder = fitted([1, 2, 3, 4])
    assert extended(coder, column_of([9], name="x")).values == (1, 2, 3, 4, 9)
    with pytest.raises(InputError, match=r"column 'x' had at most 5 distinct numbers .* now has 6"):
        extended(coder, column_of([9, 10], name="x"))


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        (["a"], [1], "column 'x' held text when it was coded, got numbers"),
        ([1], ["a"], "held numbers when it was coded, got text"),
        ([1], np.array(["2020-01-01"], dtype="datetime64[D]"), "held numbers when it was coded, got dates"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), [1], "held dates when it was coded, got numbers"),
        ([None], [1], "had no values when it was coded"),
    ],
)
def test_a_column_of_another_type_is_refused(first, later, message):
    """Codes have a meaning only for the type they were fitted on."""
    coder = fitted(first)
    column = column_of(later, name="x")
    with pytest.raises(InputError, match=message):
        coder.codes(column)
    with pytest.raises(InputError, match=message):
        extended(coder, column)


@pytest.mark.parametrize("first", [["a"], [1], list(range(11)), [None]])
def test_a_chunk_without_values_fits_every_coder(first):
    """All missing says nothing about the type: it is extended and coded."""
    nothing = column_of([None, None], name="x")
    coder = extended(fitted(first), nothing)
    assert coder.codes(nothing).tolist() == [coder.n_codes - 1] * 2


def test_json_keeps_text_numbers_and_missing():
    """A coder comes back from JSON as it was, to the last bit."""
    for data in (["ü", None], [1, 2.5, None], [*np.linspace(0, 0.1, 30), None], LEVELS * 2):
        for binning in ("width", "quantile"):
            coder = fitted(data, binning=binning)
            assert msgspec.json.decode(msgspec.json.encode(coder), type=ColumnCoder) == coder
