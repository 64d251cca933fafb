"""Tables of any library as two kinds of column.

- A `NumberColumn` holds numbers and other values on a scale: booleans, dates, times and decimals.
- A `TextColumn` holds categories. Text in an array or frame is categories even if every value is a number;
  the text of a file is read by its values (`text_readings`). Numbers with a few other texts are refused.
- Missing values (None, NaN, NaT, null) are marked. Infinite values and nested types are refused here, so that
  no later step meets them.

Rows are matched by position here; `fedvalue.local.inputs` aligns pandas inputs by their index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scale = Literal["", "date", "time"]


@dataclass(frozen=True, slots=True, eq=False)
class NumberColumn:
    """A column of finite numbers.

    Args:
        values: Integers or floats, shape (n_samples,). Entries at missing places mean nothing.
        missing: True where the value is missing, shape (n_samples,).
        scale: "date" for microseconds since 1970 (UTC where a zone is known), "time" for microseconds
            of a time of day or a duration, "" for plain numbers.
    """

    name: str
    values: NDArray[Any] = field(repr=False)
    missing: NDArray[np.bool_] = field(repr=False)
    scale: Scale = ""

    def __len__(self) -> int:
        return len(self.values)

    def present(self) -> NDArray[Any]:
        """The values that are not missing."""
        return self.values[~self.missing] if self.missing.any() else self.values


@dataclass(frozen=True, slots=True, eq=False)
class TextColumn:
    """A column of categories.

    Args:
        index: Place in `categories` per sample, -1 where missing, shape (n_samples,).
        categories: The distinct values as an Arrow array of text, in code point order.
    """

    name: str
    index: NDArray[np.int64] = field(repr=False)
    categories: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where the value is missing."""
        return np.asarray(self.index < 0)


Column: TypeAlias = NumberColumn | TextColumn


def with_one_spelling(column: Column) -> Column:
    """Text in lower case and without needless blanks, so that "Yes" and "yes " are the same category."""
    if isinstance(column, NumberColumn):
        return column
    import pyarrow as pa

    plain = [one_spelling(category) for category in column.categories.to_pylist()]
    kept = sorted(set(plain) - {""})
    place = {category: k for k, category in enumerate(kept)}
    index = np.array([*(place.get(category, -1) for category in plain), -1], dtype=np.int64)
    return TextColumn(column.name, index[column.index], pa.array(kept, pa.large_string()))


def one_spelling(text: str) -> str:
    """The text without differences of case and blanks."""
    return " ".join(text.casefold().split())


def columns_of(X: object, *, name: str, categorical: Collection[str] = ()) -> dict[str, Column]:
    """The columns of a table, in order.

    Args:
        X: A NumPy array (1-D: one column; 2-D: columns "0", "1", ...; structured: its fields), a
            pandas or Polars frame or series, an Arrow table or anything with the Arrow PyCapsule
            interface, a dict of columns, or a flat list.
        name: Whose table it is, for messages; also the name of a single unnamed column.
        categorical: Columns whose numbers are names.

    Raises:
        InputError: Not a table, no columns, columns of different lengths, two columns of one name,
            an infinite value, or a type that is neither number nor category.
    """
    columns: dict[str, Column] = {}
    for key, data in named_columns(X, name):
        if key in columns:
            raise InputError(f"{name}: column names must be distinct, got {key!r} twice")
        columns[key] = column_of(data, name=key, categorical=key in categorical)
    if not columns:
        raise InputError(f"{name}: at least one column is needed, got none")
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        sizes = ", ".join(f"{key!r} has {len(column)}" for key, column in columns.items())
        raise InputError(f"{name}: columns must have the same number of rows: {sizes}")
    return columns


def column_of(data: object, *, name: str, categorical: bool = False) -> Column:
    """One column from an array, series, Arrow array or flat list; see `columns_of`."""
    data = column_data(data)
    if isinstance(data, np.ndarray):
        if data.ndim != 1:
            raise InputError(f"column {name!r}: expected one dimension, got {data.ndim}")
        if not categorical:
            return _from_numpy(data, name)
        data = _with_nulls(data)
    return _from_arrow_like(data, name, categorical)


def column_data(data: object) -> object:
    """A column without the wrapping of pandas, where there is any."""
    return _pandas_values(data) if is_pandas(data) else data


def number_column(
    values: NDArray[Any], missing: NDArray[np.bool_], *, name: str, scale: Scale = ""
) -> NumberColumn:
    """A number column, with NaN counted as missing and infinite values refused."""
    if values.dtype.kind == "f":
        if values.dtype.itemsize < 4:
            values = values.astype(np.float32)
        finite = np.isfinite(values)
        if not finite.all():
            bad = ~finite & ~missing
            n_infinite = int(np.isinf(values[bad]).sum())
            if n_infinite:
                raise InputError(f"column {name!r}: {n_infinite} values are infinite; use finite numbers")
            missing = missing | bad
    return NumberColumn(name, values, missing, scale=scale)


def named_columns(X: object, name: str) -> list[tuple[str, object]]:
    """The table as (name, column data) pairs; see `columns_of`."""
    if isinstance(X, Mapping):
        return [(str(key), data) for key, data in X.items()]
    if is_pandas(X):
        return _pandas_parts(X, name)
    if isinstance(X, np.ndarray):
        return _numpy_parts(X, name)
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        from fedvalue.tables.arrow_columns import arrow_parts

        return arrow_parts(X, name)
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return [(name, X)]
    raise InputError(
        f"{name}: a table must be a NumPy array, a pandas or Polars frame, an Arrow table or a dict of "
        f"columns, got {type(X).__name__}"
    )


def _numpy_parts(X: NDArray[Any], name: str) -> list[tuple[str, object]]:
    if X.dtype.names is not None:
        return [(key, X[key]) for key in X.dtype.names]
    if X.ndim == 1:
        return [(name, X)]
    if X.ndim == 2:
        return [(str(k), X[:, k]) for k in range(X.shape[1])]
    raise InputError(f"{name}: expected an array of one or two dimensions, got {X.ndim}")


def is_pandas(data: object) -> bool:
    """Recognise objects of pandas without importing it."""
    return type(data).__module__.partition(".")[0] == "pandas"


def _pandas_parts(X: Any, name: str) -> list[tuple[str, object]]:
    if getattr(X, "ndim", 0) == 2:
        return [(str(key), X.iloc[:, k]) for k, key in enumerate(X.columns)]
    if getattr(X, "ndim", 0) == 1:
        series_name = getattr(X, "name", None)  # an extension array (pd.array, pd.Categorical) has none
        return [(name if series_name is None else str(series_name), X)]
    raise InputError(f"{name}: expected a pandas frame or series, got {type(X).__name__}")


def _pandas_values(series: Any) -> object:
    """A pandas series as a NumPy array if it is backed by one, or sparse; Arrow reads the others."""
    dtype = getattr(series, "dtype", None)
    if isinstance(dtype, np.dtype) or hasattr(dtype, "fill_value"):
        return np.asarray(series)
    if hasattr(getattr(dtype, "categories", None), "closed"):  # intervals, as pandas.cut returns them
        return getattr(series, "cat", series).rename_categories(str)
    return series


def _from_numpy(data: NDArray[Any], name: str) -> Column:
    missing = np.zeros(len(data), dtype=np.bool_)
    if isinstance(data, np.ma.MaskedArray):
        missing |= np.ma.getmaskarray(data)
        data = data.data
    kind = data.dtype.kind
    if kind == "b":
        return NumberColumn(name, data.astype(np.int64), missing)
    if kind in "iuf":
        if data.dtype.itemsize > 8:
            data = data.astype(np.float64)
        return number_column(data, missing, name=name)
    if kind in "Mm":
        scale: Scale = "date" if kind == "M" else "time"
        return NumberColumn(name, _microseconds(data, name), missing | np.isnat(data), scale=scale)
    if kind == "c":
        raise InputError(f"column {name!r}: expected numbers or categories, got complex numbers")
    return _from_arrow_like(_with_nulls(data, missing), name)


def _with_nulls(data: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """An array that Arrow can read, with None at its missing places."""
    if missing is None:
        missing = np.ma.getmaskarray(data)
        data = np.asarray(data)
    if missing.any():
        data = data.astype(object)
        data[missing] = None
    elif data.dtype.kind not in "OUSbiufMm":
        data = data.astype(object)
    return data


def _microseconds(data: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Dates or durations as whole microseconds; NumPy silently wraps values that do not fit."""
    try:
        scaled = data.astype(f"{data.dtype.kind}8[us]")
        back = scaled.astype(data.dtype)
    except OverflowError:
        back = None
    finer = np.datetime_data(data.dtype)[0] in ("ns", "ps", "fs", "as")
    if back is None or not (finer or ((back == data) | np.isnat(data)).all()):
        raise InputError(f"column {name!r}: dates of type {data.dtype} are out of the range of microseconds")
    return scaled.astype(np.int64)


def _from_arrow_like(data: object, name: str, categorical: bool = False) -> Column:
    from fedvalue.tables.arrow_columns import arrow_column, as_arrow_array, is_text, one_array

    array = as_arrow_array(data, name)
    if is_text(array.type) and not categorical:
        from fedvalue.tables.mixed_values import refuse_strays

        refuse_strays(one_array(array), name)
    return arrow_column(array, name, categorical=categorical)
