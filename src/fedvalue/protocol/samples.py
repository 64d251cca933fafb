"""A party's samples, their ids and codes: in memory here, or on disk at a shell.

`mirror` and `gram` need a digest, a keyed hash of every id, and the rows in the order of a secret key, part
after part. None of it needs all rows at once, so a shell may keep them on disk
(`fedvalue.deployment.parties.spooled_samples`); the uploads are the same bytes. `single` and `paper` cut sets
out of all rows and need samples in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.crypto.hashing import hash_ids
from fedvalue.errors import InputError
from fedvalue.information.contingency import Codebook
from fedvalue.protocol import messages as m

if TYPE_CHECKING:
    from fedvalue.crypto.ids import PackedIds
    from fedvalue.typing import Codes, Counts


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """One column of a party: X_t, Y, or a data party's joint code, with the features behind it."""

    name: str
    codes: Codes = field(repr=False)
    n_codes: int
    codebook: Codebook | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """Hashes and codes of a block of rows, one array of codes per column."""

    hashes: aes.Blocks = field(repr=False)
    codes: tuple[Codes, ...] = field(repr=False)


class HashedSamples(Protocol):
    """Samples whose ids have been hashed under the run's key."""

    def blocks(self) -> Iterator[aes.Blocks]:
        """All hashes, in batches."""

    def parts(self, key: bytes, row_bytes: int = 0) -> Iterator[RowBlock]:
        """All rows, cut by AES_key(h): every row of a part comes before every row of the next one.

        Within a part the rows are in any order; the caller sorts them.

        Args:
            key: Key of the order.
            row_bytes: Memory that the caller needs per row of a part, besides that for sorting.
        """

    def keep(self, chunk: m.Chunk) -> m.Chunk:
        """Keep a chunk until it is sent: returns the same, or one whose bytes are stored elsewhere."""

    def forget(self) -> None:
        """Free the rows, but not the chunks."""


class Samples(Protocol):
    """The input of a party."""

    @property
    def n_samples(self) -> int:
        """Number of rows."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Size of each column's code range."""

    @property
    def marginals(self) -> tuple[Counts, ...]:
        """Number of samples with each code, per column."""

    @property
    def codebooks(self) -> tuple[Codebook | None, ...]:
        """The features behind each column's codes; None where the code is the only feature."""

    @property
    def digest(self) -> bytes:
        """Digest of all ids, codes and codebooks (`DataDigest`)."""

    def ids_in_batches(self) -> Iterator[PackedIds]:
        """All ids, in batches; before they are hashed."""

    def select(self, rows: NDArray[np.int64]) -> Samples:
        """The samples reduced to some rows."""

    def hashed(self, key: bytes) -> HashedSamples:
        """The samples with h_i = AES-CMAC(key, id_i) in place of their ids."""


class MemorySamples:
    """Samples in memory.

    Args:
        ids: Sample ids.
        columns: Their codes. They are copied: a run's keys are bound to them, so they must not change.
        reduce: Selects rows; by default they keep their codes. A table whose bins depend on its rows is
            coded again.

    Raises:
        InputError: Codes that are not whole numbers, outside their range, or not one per id.
    """

    def __init__(
        self,
        ids: PackedIds,
        columns: Sequence[CodedColumn],
        *,
        reduce: Callable[[NDArray[np.int64]], MemorySamples] | None = None,
    ) -> None:
        self.ids = ids
        self._names = [column.name for column in columns]
        self._reduce = reduce
        self.codes = tuple(_checked_codes(column, len(ids)) for column in columns)
        self.sizes = tuple(column.n_codes for column in columns)
        self.codebooks = tuple(_checked_book(column) for column in columns)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.ids)

    @cached_property
    def marginals(self) -> tuple[Counts, ...]:
        """Number of samples with each code, per column."""
        return tuple(
            np.bincount(codes, minlength=size) for codes, size in zip(self.codes, self.sizes, strict=True)
        )

    @cached_property
    def digest(self) -> bytes:
        """Digest of all ids, codes and codebooks."""
        state = DataDigest()
        state.add_ids(self.ids)
        for codes, size in zip(self.codes, self.sizes, strict=True):
            state.add_column(size, [codes])
        state.add_codebooks(self.codebooks)
        return state.digest()

    def ids_in_batches(self) -> Iterator[PackedIds]:
        """All ids at once."""
        yield self.ids

    def select(self, rows: NDArray[np.int64]) -> MemorySamples:
        """The samples reduced to some rows."""
        if self._reduce is not None:
            return self._reduce(rows)
        codes = (column[rows] for column in self.codes)
        columns = zip(self._names, codes, self.sizes, self.codebooks, strict=True)
        return MemorySamples(self.ids.take(rows), [CodedColumn(*column) for column in columns])

    def hashed(self, key: bytes) -> MemoryHashed:
        """The samples with h_i = AES-CMAC(key, id_i) in place of their ids."""
        return MemoryHashed(RowBlock(hash_ids(key, self.ids), self.codes))


class MemoryHashed:
    """Hashed samples in memory: one part that has all rows."""

    def __init__(self, whole: RowBlock) -> None:
        self.whole: RowBlock | None = whole

    def blocks(self) -> Iterator[aes.Blocks]:
        """All hashes at once."""
        assert self.whole is not None
        yield self.whole.hashes

    def parts(self, key: bytes, row_bytes: int = 0) -> Iterator[RowBlock]:
        """All rows as one part."""
        assert self.whole is not None
        yield self.whole

    def keep(self, chunk: m.Chunk) -> m.Chunk:
        """The chunk as it is."""
        return chunk

    def forget(self) -> None:
        """Free hashes and codes."""
        self.whole = None


class DataDigest:
    """Digest of ids and codes in their order, the same however they are cut into batches.

    SHA-256 over the number of rows and the SHA-256 of each of these: the ids' lengths (16 bits each), the
    concatenated ids, per column its size and its codes in the smallest type that holds them, and per codebook
    its shape and its codes. It does not cover names of features: they do not leave.
    """

    def __init__(self) -> None:
        self._n = 0
        self._lengths, self._bytes = sha256(), sha256()
        self._columns: list[bytes] = []

    def add_ids(self, ids: PackedIds) -> None:
        """Add the ids of the next rows."""
        self._n += len(ids)
        self._lengths.update(np.diff(ids.offsets).astype("<u2").data)
        self._bytes.update(np.ascontiguousarray(ids.data[ids.offsets[0] : ids.offsets[-1]]).data)

    def add_column(self, n_codes: int, batches: Iterable[Codes]) -> None:
        """Add the next column, all of its rows."""
        state = sha256(struct.pack("<Q", n_codes))
        kind = code_type(n_codes)
        for codes in batches:
            state.update(codes.astype(kind).data)
        self._columns.append(state.digest())

    def add_codebooks(self, codebooks: Iterable[Codebook | None]) -> None:
        """Add the codebooks of all columns."""
        for book in codebooks:
            shape = (0, 0) if book is None else book.codes.shape
            state = sha256(struct.pack("<QQ", *shape))
            if book is not None:
                state.update(np.ascontiguousarray(book.codes, dtype="<i8").data)
            self._columns.append(state.digest())

    def digest(self) -> bytes:
        """The digest of everything so far."""
        parts = (self._lengths.digest(), self._bytes.digest(), *self._columns)
        return keys.digest(struct.pack("<Q", self._n), *parts)


def code_type(n_codes: int) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds codes 0 .. n_codes-1."""
    return np.min_scalar_type(max(n_codes - 1, 0))


def _checked_codes(column: CodedColumn, n_samples: int) -> Codes:
    """A copy of the codes: whole numbers in their range, or refused before any byte is sent."""
    codes = np.asarray(column.codes)
    name = column.name.replace("\0", " ")
    if codes.ndim != 1:
        raise InputError(f"{name!r}: expected one code per sample, got shape {codes.shape}")
    if len(codes) != n_samples:
        raise InputError(f"{name!r}: expected {len(codes)} sample ids, got {n_samples}")
    if codes.dtype.kind not in "iu":
        raise InputError(f"{name!r}: codes must be whole numbers, got {codes.dtype}")
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if low < 0 or high >= column.n_codes:
        raise InputError(f"{name!r}: codes must be 0 to {column.n_codes - 1}, got {low} to {high}")
    copy: NDArray[np.int64] = codes.astype(np.int64)
    return copy


def _checked_book(column: CodedColumn) -> Codebook | None:
    """A copy of the codebook: one line per code, whole numbers from 0 on."""
    book, name = column.codebook, column.name.replace("\0", " ")
    if book is None or not book.n_features:
        return None
    if book.n_codes != column.n_codes or book.codes.dtype.kind not in "iu" or book.codes.min(initial=0) < 0:
        raise InputError(
            f"{name!r}: expected a codebook of {column.n_codes} codes, whole numbers from 0 on, got "
            f"{book.n_codes} lines of {book.codes.dtype}"
        )
    return Codebook(book.features, book.codes.astype(np.int64))


def feature_sizes(book: Codebook | None, n_codes: int) -> tuple[int, ...]:
    """Sizes of the features' code ranges behind a column; of the column's own without a codebook."""
    return (n_codes,) if book is None else tuple(int(size) for size in book.codes.max(axis=0) + 1)


def feature_codes(book: Codebook | None, n_codes: int) -> NDArray[np.int64]:
    """The codebook's codes, shape (n_codes, n_features); without a codebook, the codes themselves."""
    return np.arange(n_codes, dtype=np.int64)[:, None] if book is None else book.codes


def opaque_codebook(codes: NDArray[np.int64]) -> Codebook:
    """A codebook whose features have numbers instead of names."""
    return Codebook(tuple(f"feature {k}" for k in range(codes.shape[1])), codes)
