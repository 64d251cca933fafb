"""Rows (a hash and some codes) in scratch files, in sequence or split into buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes
from fedvalue.deployment.parties.scratch import Scratch
from fedvalue.protocol.samples import RowBlock

Extent: TypeAlias = tuple[int, int]
"""Where rows begin, and how many they are."""

SORT_BYTES = 112
"""Memory per row while a bucket is sorted: hashes as stored and as used, keys (16 bytes each), their order
(8), and part of the same again for temporary arrays."""

COLUMN_BYTES = 12
"""And per column: a code as stored (4 bytes) and as used (8)."""

MAX_BITS = 12
"""At most 4096 buckets: with 64 MiB for each, two billion rows."""


class RowFile:
    """Rows that are written and read in pieces.

    Args:
        folder: Folder of the scratch file.
        n_columns: Number of codes per row.
    """

    def __init__(self, folder: Path, n_columns: int) -> None:
        self._scratch = Scratch(folder)
        self._width = 4 + n_columns

    def put(self, hashes: aes.Blocks, codes: Sequence[NDArray[np.uint32]]) -> Extent:
        """Write rows; returns where they are."""
        n = len(hashes)
        record = np.empty((self._width, n), dtype=np.uint32)
        record[:4] = np.ascontiguousarray(hashes).view(np.uint32).reshape(4, n)
        for k, column in enumerate(codes):
            record[4 + k] = column
        return self._scratch.append(record), n

    def get(self, extents: Sequence[Extent]) -> RowBlock:
        """The rows of several pieces."""
        n = sum(size for _, size in extents)
        hashes = np.empty((n, 2), dtype=np.uint64)
        codes = tuple(np.empty(n, dtype=np.int64) for _ in range(self._width - 4))
        done = 0
        for start, size in extents:
            record = self._scratch.read(start, 4 * size * self._width).view(np.uint32)
            rows = slice(done, done + size)
            hashes[rows] = record[: 4 * size].view(np.uint64).reshape(size, 2)
            for k, column in enumerate(codes):
                column[rows] = record[(4 + k) * size : (5 + k) * size]
            done += size
        return RowBlock(hashes, codes)

    def close(self) -> None:
        """Free the disk space."""
        self._scratch.close()


class Deal:
    """Rows split into buckets by the leading bits of a pseudo-random key.

    Args:
        folder: Folder of the scratch file.
        n_rows: Expected number of rows.
        n_columns: Number of codes per row.
        memory: Bytes that one bucket may take while it is sorted.
        row_bytes: Other memory per row meanwhile.
    """

    def __init__(self, folder: Path, n_rows: int, n_columns: int, memory: int, row_bytes: int = 0) -> None:
        self._rows = RowFile(folder, n_columns)
        room = max(1, memory // (SORT_BYTES + COLUMN_BYTES * n_columns + row_bytes))
        # Keys are uniform, so buckets differ by a few per cent: a twentieth more is enough.
        wanted = max(1, -(-21 * n_rows // (20 * room)))
        self._bits = min(MAX_BITS, (wanted - 1).bit_length())
        self._buckets: list[list[Extent]] = [[] for _ in range(1 << self._bits)]

    def add(self, keys: aes.Blocks, hashes: aes.Blocks, codes: Sequence[NDArray[np.uint32]] = ()) -> None:
        """Put rows into buckets by their keys."""
        if self._bits == 0:
            self._buckets[0].append(self._rows.put(hashes, codes))
            return
        bucket = (keys[:, 0] >> np.uint64(64 - self._bits)).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")  # a radix sort for numbers of 16 bits
        hashes, codes = hashes[order], [column[order] for column in codes]
        ends = np.cumsum(np.bincount(bucket, minlength=len(self._buckets)))
        for k, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            if end > start:
                piece = self._rows.put(hashes[start:end], [column[start:end] for column in codes])
                self._buckets[k].append(piece)

    def buckets(self) -> Iterator[RowBlock]:
        """The buckets in the order of their bits; rows keep the order in which they were added."""
        for extents in self._buckets:
            if extents:
                yield self._rows.get(extents)

    def close(self) -> None:
        """Free the disk space."""
        self._rows.close()
