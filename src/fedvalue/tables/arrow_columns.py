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
        # Not through pa.table where there is no need: it loads pandas, which takes a second.
        table = X if isinstance(X, pa.Table | pa.RecordBatch) else pa.table(X)
    except (pa.ArrowException, TypeError, ValueError) as error:
        return [(_series_name(X, name), _as_series(X, name, error))]
    return [(key, table.column(k)) for k, key in enumerate(table.schema.names)]


def _as_series(X: Any, name: str, error: Exception) -> Any:
    """A stream whose items are single values, not rows: a Polars series."""
    try:
        return pa.chunked_array(X)
    except (pa.ArrowException, TypeError, ValueError):
        raise InputError(
            f"{name}: expected an Arrow table or column, got {type(X).__name__}: {error}"
        ) from error


def _series_name(X: Any, name: str) -> str:
    own = getattr(X, "name", None)
    return own if isinstance(own, str) and own else name


def as_arrow_array(data: Any, name: str) -> Any:
    """Any one-dimensional data as an Arrow array or chunked array.

    Raises:
        InputError: The values have no single type that Arrow knows.
    """
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
    """The Python types found, by name; never a value."""
    try:
        names = sorted({type(item).__name__ for item in data})
    except TypeError:
        return type(data).__name__
    return " and ".join(names) if names else "nothing"


def arrow_column(array: Any, name: str, *, categorical: bool = False) -> Column:
    """An Arrow array or chunked array as a number or text column.

    Decimals become floats: a difference beyond 15 digits is not seen. The values of a dictionary are names,
    as are the numbers of a categorical column.

    Raises:
        InputError: A nested type, an infinite value, or a date out of range.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return arrow_column(_storage(array), name, categorical=categorical)
    if pa.types.is_dictionary(kind):
        return arrow_column(_undictionaried(array), name, categorical=True)
    if not (is_scalar(kind) or is_text(kind) or is_bytes(kind) or pa.types.is_null(kind)):
        raise InputError(f"column {name!r}: columns must hold numbers, text or dates, got the type {kind}")
    if categorical or not is_scalar(kind):
        return _text_column(as_names(array), name)
    if pa.types.is_temporal(kind):
        dates = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        return _number_column(_microseconds(array, name), name, scale="date" if dates else "time")
    return _number_column(_plain_numbers(array), name)


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: Any) -> bool:
    """Whether an Arrow type is bytes."""
    tests = ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary")
    return any(getattr(pa.types, test)(kind) for test in tests)


def is_scalar(kind: Any) -> bool:
    """Whether an Arrow type lies on a scale: numbers, booleans, dates and times."""
    tests = ("is_integer", "is_floating", "is_boolean", "is_decimal", "is_temporal")
    return any(getattr(pa.types, test)(kind) for test in tests) and not pa.types.is_interval(kind)


def one_array(array: Any) -> Any:
    """The array, with its chunks put together."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)


def _storage(array: Any) -> Any:
    """The plain values below an extension type (a UUID's bytes, a database's own type)."""
    if isinstance(array, pa.ChunkedArray):
        chunks = [chunk.storage for chunk in array.chunks]
        return pa.chunked_array(chunks, type=array.type.storage_type)
    return array.storage


def _plain_numbers(array: Any) -> Any:
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int64())
    return _floats(array) if pa.types.is_decimal(array.type) else array


def _floats(decimals: Any) -> Any:
    """The float nearest to each decimal.

    By way of text: Arrow's own cast makes 0.30000000000000004 of 0.3, which may be another bin.
    """
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
    """The numbers of an Arrow array without a copy, and which are missing (anything stands there).

    Arrow's own `to_numpy` would load pandas first.
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
    """Dates, times and durations as whole microseconds, so that every chunk has the same scale.

    Nanoseconds lose their last three digits; any other unit that does not fit is refused.
    """
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


def _undictionaried(array: Any) -> Any:
    """The values of a dictionary array."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    values = [without_views(chunk.dictionary).take(chunk.indices) for chunk in chunks]
    return pa.chunked_array(values or [without_views(pa.nulls(0, array.type.value_type))])


def without_views(values: Any) -> Any:
    """Arrow cannot take from text views yet; Polars sends its categories as such."""
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def _text_column(array: Any, name: str) -> TextColumn:
    encoded = pc.dictionary_encode(array)
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[_buffers(order)[0]] = np.arange(len(order))
    rank[-1] = -1  # index -1, a missing value, stays -1
    categories = encoded.dictionary.take(order).cast(pa.large_string())
    return TextColumn(name, rank[_places(encoded.indices)], categories)


def _places(indices: Any) -> NDArray[np.int64]:
    values, missing = _buffers(indices)
    return np.where(missing, -1, values.astype(np.int64))
