"""Sample ids in one canonical form, packed end to end in one buffer.

Two parties mean the same person only if their ids become the same bytes. Text is normalised to Unicode NFC,
trimmed, and optionally case-folded; whole numbers are written in decimal; bytes are used as they are. A
missing or empty id is refused, never skipped.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

MAX_ID_BYTES = 1024

_ASCII_SPACE = "".join(chr(k) for k in range(128) if chr(k).isspace())
"""The characters that str.strip removes; Arrow's rule keeps the separators 0x1c to 0x1f."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedIds:
    """Ids as bytes: id k is data[offsets[k]:offsets[k + 1]]."""

    data: NDArray[np.uint8] = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)

    def __post_init__(self) -> None:
        lengths = np.diff(self.offsets)
        if len(lengths) and lengths.min() < 1:
            raise InputError(f"sample id {int(lengths.argmin())} is empty (counted from 0)")
        if len(lengths) and lengths.max() > MAX_ID_BYTES:
            raise InputError(f"sample ids may have {MAX_ID_BYTES} bytes, got {int(lengths.max())}")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: NDArray[np.int64]) -> PackedIds:
        """The ids of some rows, in the order of `rows`."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        place = np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return PackedIds(self.data[place], offsets)

    @classmethod
    def of_rows(cls, n: int) -> PackedIds:
        """Row numbers as ids: for tables that are known to be aligned."""
        numbers = np.arange(n, dtype="<i8")
        return cls(numbers.view(np.uint8), np.arange(n + 1, dtype=np.int64) * 8)


def canonical_ids(ids: Sequence[Any] | NDArray[Any] | pa.Array, *, fold_case: bool = False) -> PackedIds:
    """Bring ids into canonical form.

    Args:
        ids: Text, bytes or whole numbers: a list, a NumPy array, a pandas series, or an Arrow
            string, binary or integer array (used without a copy where no rule changes it).
        fold_case: "Ada" and "ada" are the same person.

    Raises:
        InputError: A missing or empty id, another type, or text and numbers mixed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _arrow(ids)
    if array.null_count:
        raise InputError(f"sample ids must not be missing, got {array.null_count} missing")
    if pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = _normal_text(array, fold_case)
    elif not (
        pa.types.is_binary(array.type)
        or pa.types.is_large_binary(array.type)
        or pa.types.is_fixed_size_binary(array.type)
    ):
        raise InputError(f"sample ids must be text, bytes or whole numbers, got {array.type}")
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    lengths = pc.binary_length(array)
    if len(array) and pc.min(lengths).as_py() == 0:
        raise InputError("sample ids must not be empty (after trimming)")
    return _packed(array)


def _arrow(ids: Any) -> Any:
    import pyarrow as pa

    if isinstance(ids, pa.ChunkedArray):
        return ids.combine_chunks() if ids.num_chunks != 1 else ids.chunk(0)
    if isinstance(ids, pa.Array):
        return ids
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "S":
        ids = ids.tolist()
    try:
        array = pa.array(ids)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        TypeError,
        OverflowError,
    ) as error:
        raise InputError("sample ids must be all text, all bytes or all whole numbers") from error
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _normal_text(array: Any, fold_case: bool) -> Any:
    """NFC, trim, fold. ASCII, the usual case, needs no loop in Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.string_is_ascii(array)).as_py() is not False:
        array = pc.ascii_trim(array, characters=_ASCII_SPACE)
        return pc.ascii_lower(array) if fold_case else array
    kind = array.type
    texts = [unicodedata.normalize("NFC", text).strip() for text in array.to_pylist()]
    if fold_case:
        texts = [unicodedata.normalize("NFC", text.casefold()) for text in texts]
    return pa.array(texts, type=kind)


def _packed(array: Any) -> PackedIds:
    import pyarrow as pa

    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets_buffer, data_buffer = array.buffers()
    if len(array) == 0:
        return PackedIds(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))
    narrow = np.frombuffer(offsets_buffer, dtype=np.int64 if wide else np.int32)
    offsets = narrow[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, dtype=np.uint8)
    return PackedIds(data, offsets)
