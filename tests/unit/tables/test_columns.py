"""Every kind of table becomes the same columns; what cannot be valued is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.columns import NumberColumn, TextColumn, column_of, columns_of

NUMBERS = [1.5, None, -2.0]
WORDS = ["b", None, "a"]


def in_plain_words(column):
    """A column as Python values, None where missing."""
    if isinstance(column, TextColumn):
        words = column.categories.to_pylist()
        return [None if k < 0 else words[k] for k in column.index.tolist()]
    return [
        None if gone else value
        for value, gone in zip(column.values.tolist(), column.missing.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    "X",
    [
        {"x": NUMBERS, "w": WORDS},
        {"x": np.array([1.5, np.nan, -2.0]), "w": np.array(WORDS, dtype=object)},
        pd.DataFrame({"x": NUMBERS, "w": WORDS}),
        pd.DataFrame({"x": NUMBERS, "w": WORDS}).convert_dtypes(),
        pd.DataFrame({"x": NUMBERS, "w": pd.Categorical(WORDS)}, index=[9, 9, 9]),
        pl.DataFrame({"x": NUMBERS, "w": WORDS}),
        pl.DataFrame({"x": NUMBERS, "w": WORDS}).with_columns(pl.col("w").cast(pl.Categorical)),
        pa.table({"x": NUMBERS, "w": WORDS}),
        pa.concat_tables(
            [pa.table({"x": NUMBERS[:1], "w": WORDS[:1]}), pa.table({"x": NUMBERS[1:], "w": WORDS[1:]})]
        ),
        pa.table({"x": NUMBERS, "w": pa.array(WORDS).dictionary_encode()}),
        pa.record_batch({"x": NUMBERS, "w": WORDS}),
        {"x": pl.Series(NUMBERS), "w": pa.chunked_array([WORDS[:2], WORDS[2:]])},
        {"x": pd.Series(NUMBERS, dtype="Float64"), "w": pd.Series(WORDS, dtype="str")},
    ],
    ids=lambda X: type(X).__module__.partition(".")[0],
)
def test_all_table_types_give_the_same_columns(X):
    """NumPy, pandas, Polars, Arrow and dicts of columns with the same content are the same table."""
    columns = columns_of(X, name="shop")
    assert list(columns) == ["x", "w"]
    assert isinstance(columns["x"], NumberColumn)
    assert isinstance(columns["w"], TextColumn)
    assert in_plain_words(columns["x"]) == NUMBERS
    assert in_plain_words(columns["w"]) == WORDS
    assert columns["w"].categories.to_pylist() == ["a", "b"]


def test_numpy_arrays_name_their_columns():
    """One dimension is one column of the table's name, two are numbered, a structured one has fields."""
    assert list(columns_of(np.arange(3), name="telco")) == ["telco"]
    assert list(columns_of(np.zeros((3, 2)), name="telco")) == ["0", "1"]
    records = np.array([(1, "x"), (2, "y")], dtype=[("age", "i4"), ("city", "U4")])
    assert list(columns_of(records, name="telco")) == ["age", "city"]
    assert list(columns_of(pd.Series([1, 2], name="age"), name="telco")) == ["age"]
    assert list(columns_of(pl.Series("age", [1, 2]), name="telco")) == ["age"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.array([True, False]), [1, 0]),
        ([True, None], [1, None]),
        (pd.array([True, None], dtype="boolean"), [1, None]),
        (np.array([1, 2], dtype=np.uint8), [1, 2]),
        (np.array([1.5, 2.5], dtype=np.float16), [1.5, 2.5]),
        (np.ma.masked_array([1, 2], mask=[True, False]), [None, 2]),
        ([Decimal("1.25"), None], [1.25, None]),
        (pa.array([2**63], pa.uint64()), [2**63]),
        (pa.array([dt.date(1970, 1, 2), None]), [86_400_000_000, None]),
        (np.array(["1970-01-02", "NaT"], dtype="datetime64[D]"), [86_400_000_000, None]),
        (pd.Series(pd.to_datetime(["1970-01-02", None])), [86_400_000_000, None]),
        (pd.Series(pd.to_datetime(["1970-01-01T01:00+01:00", None])), [0, None]),
        (pl.Series([dt.datetime(1970, 1, 2)]), [86_400_000_000]),
        (pa.array([dt.timedelta(seconds=2)]), [2_000_000]),
        (np.array([2], dtype="timedelta64[s]"), [2_000_000]),
        (pa.array([dt.time(0, 0, 2)], pa.time32("s")), [2_000_000]),
        (pa.array([dt.time(0, 0, 2)], pa.time64("ns")), [2_000_000]),
    ],
)
def test_what_lies_on_a_scale_is_a_number(data, expected):
    """Booleans, decimals, dates and times are numbers; missing values are marked."""
    column = column_of(data, name="x")
    assert isinstance(column, NumberColumn)
    assert in_plain_words(column) == expected


def test_a_dictionary_of_numbers_is_a_set_of_names():
    """A pandas Categorical of numbers says that they are categories; it is never binned."""
    column = column_of(pd.Series(pd.Categorical([30, 10, None])), name="x")
    assert isinstance(column, TextColumn)
    assert in_plain_words(column) == ["30", "10", None]


@pytest.mark.parametrize(
    "data",
    [
        [2139, 94110, None],
        np.array([2139.0, 94110.0, np.nan]),
        np.ma.masked_array([2139, 94110, 0], mask=[False, False, True]),
        pd.Series([2139, 94110, None], dtype="Int64"),
        pl.Series([2139, 94110, None]),
        pa.array([Decimal("2139"), Decimal("94110"), None]),
        ["2139", "94110", None],
    ],
)
def test_numbers_that_are_named_as_categorical_are_names(data):
    """Whole numbers are one name whatever the type that stores them."""
    column = column_of(data, name="zip", categorical=True)
    assert in_plain_words(column) == ["2139", "94110", None]


def test_large_whole_numbers_stay_distinct_as_names():
    """As numbers they are compared as floats; as names not a digit is lost."""
    column = column_of(np.array([2**60, 2**60 + 1]), name="id", categorical=True)
    assert in_plain_words(column) == [str(2**60), str(2**60 + 1)]


def test_text_in_a_frame_is_categories_whatever_it_spells():
    """`astype(str)` is how people say that numbers are names; only files are read by their values."""
    text = ["1.5", "NA", "-2"]
    for X in (text, np.array(text), pd.Series(text), pd.Categorical(text), pl.Series(text), pa.array(text)):
        assert in_plain_words(column_of(X, name="x")) == text


def test_single_columns_of_every_library_are_tables():
    """An Arrow array, a pandas index and a Polars series without a name take the party's name."""
    for X in (pa.array([1, 2]), pa.chunked_array([[1], [2]]), pd.Index([1, 2]), pl.Series([1, 2]), [1, 2]):
        columns = columns_of(X, name="shop")
        assert list(columns) == ["shop"]
        assert in_plain_words(columns["shop"]) == [1, 2]


def test_pandas_arrays_are_columns_too():
    """Without a series around them, sparse, or cut into intervals by the user."""
    for X in (pd.array([1, 2]), pd.arrays.SparseArray([1, 2])):
        assert in_plain_words(columns_of(X, name="shop")["shop"]) == [1, 2]
    assert in_plain_words(column_of(pd.Categorical(["b", None, "a"]), name="x")) == WORDS
    for cut in (pd.cut([1, 9, 2], 2), pd.Series(pd.cut([1, 9, 2], 2))):
        assert in_plain_words(column_of(cut, name="x")) == ["(0.992, 5.0]", "(5.0, 9.0]", "(0.992, 5.0]"]


def test_decimals_are_the_nearest_floats():
    """Not one bit off: 0.3 from a database falls into the bin of 0.3 from a CSV."""
    tenths = [Decimal(k) / 10 for k in range(20)]
    assert in_plain_words(column_of(tenths, name="x")) == [k / 10 for k in range(20)]
    small = pa.array([Decimal("1E-9"), None], pa.decimal128(20, 10))
    assert in_plain_words(column_of(small, name="x")) == [1e-9, None]


def test_extension_types_are_their_storage():
    """A UUID column of Arrow is a category per UUID."""
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, None, b"b" * 16], pa.binary(16)))
    expected = ["0x" + "61" * 16, None, "0x" + "62" * 16]
    assert in_plain_words(column_of(array, name="x")) == expected
    assert in_plain_words(column_of(pa.chunked_array([array]), name="x")) == expected


def test_numpy_text_may_be_masked_or_of_variable_width():
    """Masked text is missing; NumPy's own text type is text."""
    masked = np.ma.masked_array(np.array(["a", "b"]), mask=[False, True])
    assert in_plain_words(column_of(masked, name="x")) == ["a", None]
    wide = np.array(["a", "b"], dtype=np.dtypes.StringDType())
    assert in_plain_words(column_of(wide, name="x")) == ["a", "b"]
    assert in_plain_words(column_of(np.array([1.5], dtype=np.longdouble), name="x")) == [1.5]


def test_arrow_columns_may_be_empty_and_sliced():
    """No chunk at all, and values that start in the middle of a buffer."""
    for kind in (pa.float64(), pa.string(), pa.dictionary(pa.int32(), pa.string())):
        assert len(column_of(pa.chunked_array([], type=kind), name="x")) == 0
    sliced = pa.array([1, 2, None, 4])[1:]
    assert in_plain_words(column_of(sliced, name="x")) == [2, None, 4]
    assert in_plain_words(column_of(pa.array(["a", "b", None])[1:], name="x")) == ["b", None]


def test_dates_beyond_microseconds_are_refused():
    """Arrow's seconds reach further than its microseconds."""
    for data in (
        pa.array([2**62], pa.timestamp("s")),
        pa.array([2**62], pa.duration("s")),
        np.array([2**62], dtype="datetime64[s]"),
        np.array([2**40], dtype="datetime64[Y]"),
        np.array([2**62], dtype="timedelta64[ms]"),
    ):
        with pytest.raises(InputError, match=r"column 'x': dates of type .* are out of the range"):
            column_of(data, name="x")


def test_nanoseconds_are_cut_to_microseconds():
    """In Arrow and NumPy alike, so that both have the same codes."""
    for data in (pa.array([1_999], pa.timestamp("ns")), np.array([1_999], dtype="datetime64[ns]")):
        assert in_plain_words(column_of(data, name="x")) == [1]


def test_bytes_are_categories():
    """Bytes that are no text are categories all the same."""
    column = column_of(pa.array([b"\xff\x00", None, b"a"]), name="x")
    assert in_plain_words(column) == ["0xff00", None, "0x61"]


def test_a_column_without_values_is_all_missing():
    """None everywhere is a column of missing values, not an error."""
    assert column_of([None, None], name="x").missing.tolist() == [True, True]
    assert column_of(np.array([np.nan, np.nan]), name="x").missing.tolist() == [True, True]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"x": [1.0, float("inf")]}, "column 'x': 1 values are infinite"),
        ({"x": np.array([-np.inf, np.inf, 1.0])}, "2 values are infinite"),
        ({"x": [[1], [2]]}, "column 'x': columns must hold numbers, text or dates, got the type list"),
        ({"x": [{"a": 1}]}, "got the type struct"),
        (pa.table({"x": pa.array([[1]])}), "column 'x'.*list"),
        ({"x": [1, "a"]}, "column 'x': values must be of one type .* got int and str"),
        ({"x": [object()]}, "column 'x': values must be of one type .* got object"),
        ({"x": [2**70]}, r"column 'x': whole numbers must be from -2\^63 to 2\^63 - 1"),
        ({"x": np.array([1j])}, "column 'x'.*complex"),
        ({"x": np.zeros((2, 2))}, "column 'x': expected one dimension, got 2"),
        ({"x": [1, 2], "y": [1]}, "shop: columns must have the same number of rows: 'x' has 2, 'y' has 1"),
        ({}, "shop: at least one column is needed, got none"),
        (np.zeros((2, 0)), "shop: at least one column is needed, got none"),
        (np.zeros((2, 2, 2)), "shop: expected an array of one or two dimensions, got 3"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "shop: column names must be distinct, got 'x' twice"),
        ("text", "shop: a table must be a NumPy array, .* got str"),
        (None, "shop: a table must be a NumPy array, .* got NoneType"),
        (7, "shop: a table must be a NumPy array, .* got int"),
    ],
)
def test_what_is_no_table_is_refused_by_name(X, message):
    """The message names the column or the party, what was expected and what came."""
    with pytest.raises(InputError, match=message):
        columns_of(X, name="shop")
