"""Arrow arrays as columns: the one place that knows Arrow's types.

Everything that is not already a NumPy array of numbers comes through here, because Arrow's
inference for Python objects and its dictionary encoding are exact and compiled.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.errors import InputError
from fedvalue.tables.columns import Column, NumberColumn, Scale, TextColumn, number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


def arrow_parts(X: Any, name: str) -> list[tuple[str, object]]:
    """A table, record batch, reader or series with the Arrow interface as (name, array) pairs."""
    if isinstance(X, pa.Array | pa.ChunkedArray):
        return [(name, X)]
    try:
        # pa.table loads pandas, which takes a second, so it is called only where necessary.
        table = X if isinstance(X, pa.Table | pa.RecordBatch) else pa.table(X)
    except (pa.ArrowException, TypeError, ValueError) as error:
        try:  # a stream of values instead of rows: a Polars series
            series = pa.chunked_array(X)
        except (pa.ArrowException, TypeError, ValueError):
            raise InputError(
                f"{name}: expected an Arrow table or column, got {type(X).__name__}: {error}"
            ) from error
        return [(str(getattr(X, "name", None) or name), series)]
    return [(key, table.column(k)) for k, key in enumerate(table.schema.names)]


def as_arrow_array(data: Any, name: str) -> Any:
    """One-dimensional data of a single type, as an Arrow array or chunked array."""
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return data
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.chunked_array(data)
        return pa.array(data, from_pandas=True)
    except OverflowError as error:
        raise InputError(
            f"column {name!r}: whole numbers must be from -2^63 to 2^63 - 1; list larger ones as text"
        ) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        kinds = _kinds(data)
        raise InputError(
            f"column {name!r}: values must be of one type (numbers, text, booleans or dates), got {kinds}"
        ) from error


def _kinds(data: Any) -> str:
    """The Python types of the values, by name; never a value."""
    try:
        names = sorted({type(item).__name__ for item in data})
    except TypeError:
        return type(data).__name__
    return " and ".join(names) if names else "nothing"


def arrow_column(array: Any, name: str, *, categorical: bool = False) -> Column:
    """An Arrow array or chunked array as a number or text column.

    Decimals become floats, so differences beyond 15 digits are lost. The values of a dictionary, and the
    numbers of a categorical column, are names.

    Raises:
        InputError: A nested type, an infinite value, or a date out of range.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):  # a UUID, a type of a database
        return arrow_column(array.cast(kind.storage_type), name, categorical=categorical)
    if pa.types.is_dictionary(kind):
        return arrow_column(_decoded(array), name, categorical=True)
    if not (is_scalar(kind) or is_text(kind) or is_bytes(kind) or pa.types.is_null(kind)):
        raise InputError(f"column {name!r}: columns must hold numbers, text or dates, got the type {kind}")
    if categorical or not is_scalar(kind):
        return _text_column(as_names(array), name)
    if pa.types.is_temporal(kind):
        dates = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        return _number_column(_microseconds(array, name), name, scale="date" if dates else "time")
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int64())
    return _number_column(_floats(array) if pa.types.is_decimal(kind) else array, name)


def is_text(kind: Any) -> bool:
    """Strings of any width, and views of them."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: Any) -> bool:
    """Binary types of any width, and views of them."""
    tests = ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary")
    return any(getattr(pa.types, test)(kind) for test in tests)


def is_scalar(kind: Any) -> bool:
    """Types on a scale: numbers, booleans, dates and times."""
    tests = ("is_integer", "is_floating", "is_boolean", "is_decimal", "is_temporal")
    return any(getattr(pa.types, test)(kind) for test in tests) and not pa.types.is_interval(kind)


def one_array(array: Any) -> Any:
    """The array with its chunks concatenated."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _floats(decimals: Any) -> Any:
    """The float nearest to each decimal, by way of text: Arrow's cast turns 0.3 into 0.30000000000000004."""
    return decimals.cast(pa.string()).cast(pa.float64())


def as_names(array: Any) -> Any:
    """Text as it is, bytes in hexadecimal, and numbers as names: 1234 and 1234.0 are one name."""
    array = one_array(array)
    if is_bytes(array.type):
        return pa.array([None if item is None else "0x" + item.hex() for item in array.to_pylist()])
    if not (pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)):
        return array.cast(pa.large_string())
    floats = array.cast(pa.float64()) if pa.types.is_floating(array.type) else _floats(array)
    names = [_name(number) for number in floats.to_pylist()]
    return pa.array(names, pa.large_string())


def _name(number: float | None) -> str | None:
    if number is None or math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _number_column(array: Any, name: str, *, scale: Scale = "") -> NumberColumn:
    values, missing = _buffers(one_array(array))
    return number_column(values, missing, name=name, scale=scale)


def _buffers(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The numbers of an Arrow array without a copy, and which of them are missing.

    Arrow's `to_numpy` would load pandas. Values at missing places mean nothing.
    """
    _, data = array.buffers()
    dtype = array.type.to_pandas_dtype()
    if data is None:
        values = np.zeros(len(array), dtype=dtype)
    else:
        values = np.frombuffer(data, dtype=dtype)[array.offset : array.offset + len(array)]
    if not array.null_count:
        return values, np.zeros(len(array), dtype=np.bool_)
    flags, _ = _buffers(pc.cast(pc.is_null(array), pa.uint8()))
    return values, flags.view(np.bool_)


def _microseconds(array: Any, name: str) -> Any:
    """Dates, times and durations as whole microseconds. Nanoseconds lose their last three digits."""
    kind = array.type
    try:
        if pa.types.is_date(kind):
            return array.cast(pa.timestamp("us")).cast(pa.int64())
        if pa.types.is_timestamp(kind):
            # A zone only changes how an instant is printed.
            return array.cast(pa.timestamp("us", tz=kind.tz), safe=kind.unit != "ns").cast(pa.int64())
        if pa.types.is_duration(kind):
            return array.cast(pa.duration("us"), safe=kind.unit != "ns").cast(pa.int64())
        if pa.types.is_time32(kind):
            ticks = array.cast(pa.int32()).cast(pa.int64())
            return pc.multiply(ticks, 1_000_000 if kind.unit == "s" else 1_000)
        return array.cast(pa.time64("us"), safe=False).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {name!r}: dates of type {kind} are out of the range of microseconds"
        ) from error


def _decoded(array: Any) -> Any:
    """The values of a dictionary array."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    values = [without_views(chunk.dictionary).take(chunk.indices) for chunk in chunks]
    return pa.chunked_array(values or [without_views(pa.nulls(0, array.type.value_type))])


def without_views(values: Any) -> Any:
    """The values with text views cast to text: Arrow cannot take from views, which Polars sends."""
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def _text_column(array: Any, name: str) -> TextColumn:
    encoded = pc.dictionary_encode(array)
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[_buffers(order)[0]] = np.arange(len(order))
    rank[-1] = -1  # index -1, a missing value, stays -1
    categories = encoded.dictionary.take(order).cast(pa.large_string())
    places, missing = _buffers(encoded.indices)
    return TextColumn(name, rank[np.where(missing, -1, places.astype(np.int64))], categories)
