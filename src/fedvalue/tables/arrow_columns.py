"""Arrow arrays as columns: the one place that knows Arrow's types.

Everything that is not already a NumPy array of numbers comes through here, because Arrow's
inference for Python objects and its dictionary encoding are exact and compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.errors import InputError
from fedvalue.tables.columns import Column, NumberColumn, TextColumn, number_column

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
            f"column {name!r}: expected whole numbers from -2^63 to 2^63 - 1, got larger ones"
        ) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        kinds = _kinds(data)
        raise InputError(
            f"column {name!r}: expected values of one type (numbers, text, booleans or dates), got {kinds}"
        ) from error


def _kinds(data: Any) -> str:
    """The Python types found, by name; never a value."""
    try:
        names = sorted({type(item).__name__ for item in data})
    except TypeError:
        return type(data).__name__
    return " and ".join(names) if names else "nothing"


def arrow_column(array: Any, name: str) -> Column:
    """An Arrow array as a number or text column.

    Dictionaries of text are text, dictionaries of numbers are numbers that are never binned.
    Decimals become floats: a difference beyond 15 digits is not seen.

    Raises:
        InputError: A nested type, an infinite value, or a date out of range.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return arrow_column(_storage(array), name)
    if pa.types.is_dictionary(kind):
        return _dictionary(array, name)
    if pa.types.is_null(kind) or _is_text(kind):
        return _text(array, name)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(array, name)
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return _numbers(array.cast(pa.int64()) if pa.types.is_boolean(kind) else _floats(array), name)
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        raise InputError(f"column {name!r}: expected numbers or categories, got the type {kind}")
    return _numbers(_microseconds(array, name), name, unit="us")


def _is_text(kind: Any) -> bool:
    tests = (
        "is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary",
        "is_binary_view", "is_fixed_size_binary",
    )  # fmt: skip
    return any(getattr(pa.types, test)(kind) for test in tests)


def _storage(array: Any) -> Any:
    """The plain values below an extension type (a UUID's bytes, a database's own type)."""
    if isinstance(array, pa.ChunkedArray):
        chunks = [chunk.storage for chunk in array.chunks]
        return pa.chunked_array(chunks, type=array.type.storage_type)
    return array.storage


def _floats(decimals: Any) -> Any:
    """The float nearest to each decimal.

    By way of text: Arrow's own cast makes 0.30000000000000004 of 0.3, which may be another bin.
    """
    return decimals.cast(pa.string()).cast(pa.float64())


def _numbers(array: Any, name: str, *, categorical: bool = False, unit: str = "") -> NumberColumn:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    values, missing = _buffers(array)
    return number_column(values, missing, name=name, categorical=categorical, unit=unit)


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


def _dictionary(array: Any, name: str) -> Column:
    """Categories that come with their dictionary."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    values = [_viewless(chunk.dictionary).take(chunk.indices) for chunk in chunks]
    if not values:
        values = [_viewless(pa.nulls(0, array.type.value_type))]
    plain = arrow_column(pa.chunked_array(values), name)
    if isinstance(plain, TextColumn):
        return plain
    return NumberColumn(name, plain.values, plain.missing, categorical=True, unit=plain.unit)


def _viewless(values: Any) -> Any:
    """Arrow cannot take from text views yet; Polars sends its categories as such."""
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def _text(array: Any, name: str) -> TextColumn:
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = _as_utf8(array)
    encoded = pc.dictionary_encode(array)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries()
        chunks = encoded.chunks
        dictionary = chunks[0].dictionary if chunks else pa.nulls(0, pa.large_string())
        places = [_places(chunk.indices) for chunk in chunks]
        index = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
    else:
        dictionary = encoded.dictionary
        index = _places(encoded.indices)
    order = pc.sort_indices(dictionary)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[_buffers(order)[0]] = np.arange(len(order))
    rank[-1] = -1  # index -1, a missing value, stays -1
    return TextColumn(name, rank[index], dictionary.take(order).cast(pa.large_string()))


def _as_utf8(array: Any) -> Any:
    """Text of any layout as plain text; bytes in hexadecimal, so that any bytes are a category."""
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return array.cast(pa.large_string())
    values = [None if item is None else "0x" + item.hex() for item in array.to_pylist()]
    return pa.array(values, pa.large_string())


def _places(indices: Any) -> NDArray[np.int64]:
    values, missing = _buffers(indices)
    return np.where(missing, -1, values.astype(np.int64))
