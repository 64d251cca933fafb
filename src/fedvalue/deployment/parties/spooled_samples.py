"""A party's samples on disk: a setting bounds their memory, not the number of rows.

1. While the table is read, ids and codes go to a scratch file, batch by batch (`Spool`).
2. When the run's key is known, hashes replace the ids (`SpooledSamples.hashed`).
3. For each server, rows are split into buckets by the leading bits of AES_key(h), the server's secret
   order, and the buckets are processed one by one (`SpooledHashed.parts`): each fits into memory, is
   sorted and masked, and its chunks stay on disk until they are sent (`keep`).

The uploads are those of `MemorySamples`, byte by byte.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes
from fedvalue.crypto.hashing import hash_ids
from fedvalue.crypto.ids import PackedIds
from fedvalue.crypto.sorting import n_repeated
from fedvalue.deployment.parties.row_files import Deal, Extent, RowFile
from fedvalue.deployment.parties.scratch import Scratch
from fedvalue.errors import LocalProtocolError
from fedvalue.protocol.messages import Chunk, StoredChunk
from fedvalue.protocol.samples import DataDigest, RowBlock

if TYPE_CHECKING:
    from fedvalue.information.contingency import Codebook
    from fedvalue.typing import Codes, Counts


@dataclass(frozen=True, slots=True)
class Space:
    """Where rows may be kept: in a folder, and in memory up to a number of bytes."""

    folder: Path
    memory: int


class Spool:
    """Takes a party's rows batch by batch, and makes samples of them.

    Args:
        space: Where rows may lie.
        n_rows: Expected number of rows.
    """

    def __init__(self, space: Space, n_rows: int) -> None:
        self._space = space
        self._scratch = Scratch(space.folder)
        self._batches: list[_Batch] = []
        self._digest = DataDigest()
        # Equal ids have equal tags under any key; this key never leaves the process.
        self._tag_key = secrets.token_bytes(16)
        self._tags = Deal(space.folder, n_rows, 0, space.memory)

    def add(self, ids: PackedIds, numbers: Sequence[NDArray[np.int64]]) -> None:
        """Add rows: their ids, and a number per column that `samples` turns into a code."""
        self._digest.add_ids(ids)
        tags = hash_ids(self._tag_key, ids)
        self._tags.add(tags, tags)
        self._batches.append(_Batch.put(self._scratch, ids, numbers))

    def n_repeated(self) -> int:
        """How many rows repeat the id of an earlier row. No rows can be added afterwards."""
        found = sum(n_repeated(part.hashes) for part in self._tags.buckets())
        self._tags.close()
        return found

    def samples(
        self,
        ranks: Sequence[Codes],
        marginals: Sequence[Counts],
        codebooks: Sequence[Codebook | None] = (),
    ) -> SpooledSamples:
        """The samples.

        Args:
            ranks: Per column, the code that each number stands for.
            marginals: Per column, how many samples have each code.
            codebooks: Per column, the features behind its codes; none of them when empty.
        """
        for k, rank in enumerate(ranks):
            codes = (rank[batch.numbers(self._scratch, k)] for batch in self._batches)
            self._digest.add_column(len(rank), codes)
        self._digest.add_codebooks(codebooks or [None] * len(ranks))
        digest = self._digest.digest()
        return SpooledSamples(self._space, self._scratch, self._batches, ranks, marginals, digest, codebooks)


class SpooledSamples:
    """Samples on disk. Made by `Spool`; their ids can be hashed once."""

    def __init__(
        self,
        space: Space,
        scratch: Scratch,
        batches: Sequence[_Batch],
        ranks: Sequence[Codes],
        marginals: Sequence[Counts],
        digest: bytes,
        codebooks: Sequence[Codebook | None] = (),
    ) -> None:
        self._space, self._scratch = space, scratch
        self._batches, self._ranks = batches, ranks
        self.n_samples = sum(batch.n for batch in batches)
        self.sizes = tuple(map(len, ranks))
        self.marginals = tuple(marginals)
        self.codebooks = tuple(codebooks) or (None,) * len(ranks)
        self.digest = digest

    def ids_in_batches(self) -> Iterator[PackedIds]:
        """All ids, batch by batch; before they are hashed."""
        for batch in self._batches:
            yield batch.ids(self._scratch)

    def select(self, rows: NDArray[np.int64]) -> SpooledSamples:
        """Not possible: a table that is reduced to some rows is read into memory."""
        raise LocalProtocolError("a table on disk cannot be reduced to some rows")

    def hashed(self, key: bytes) -> SpooledHashed:
        """The samples with h_i = AES-CMAC(key, id_i) instead of their ids, whose space is freed."""
        rows = RowFile(self._space.folder, len(self._ranks))
        extents = []
        for batch in self._batches:
            codes = [
                rank.astype(np.uint32)[batch.numbers(self._scratch, k)] for k, rank in enumerate(self._ranks)
            ]
            extents.append(rows.put(hash_ids(key, batch.ids(self._scratch)), codes))
        self._scratch.close()
        return SpooledHashed(self._space, rows, extents, len(self._ranks))


class SpooledHashed:
    """Hashed samples on disk, and the chunks made from them."""

    def __init__(self, space: Space, rows: RowFile, extents: Sequence[Extent], n_columns: int) -> None:
        self._space, self._rows, self._extents, self._n_columns = space, rows, extents, n_columns
        self._chunks = Scratch(space.folder)

    def blocks(self) -> Iterator[aes.Blocks]:
        """All hashes, batch by batch."""
        for extent in self._extents:
            yield self._rows.get([extent]).hashes

    def parts(self, key: bytes, row_bytes: int = 0) -> Iterator[RowBlock]:
        """All rows, in buckets by the leading bits of AES_key(h)."""
        n_rows = sum(size for _, size in self._extents)
        deal = Deal(self._space.folder, n_rows, self._n_columns, self._space.memory, row_bytes)
        for extent in self._extents:
            part = self._rows.get([extent])
            codes = [column.astype(np.uint32) for column in part.codes]
            deal.add(aes.encrypt(key, part.hashes), part.hashes, codes)
        yield from deal.buckets()
        deal.close()

    def keep(self, chunk: Chunk) -> Chunk:
        """Move a chunk's bytes to disk; they are read when it is encoded."""
        chunks, size = self._chunks, len(chunk.data)
        start = chunks.append(np.frombuffer(chunk.data, dtype=np.uint8))
        place = (chunk.index, chunk.total, chunk.digest, chunk.salt)
        return StoredChunk(*place, memoryview(b""), lambda: chunks.read(start, size).data)

    def forget(self) -> None:
        """Free the rows' disk space; the chunks stay."""
        self._rows.close()


class _Batch:
    """Where rows are: lengths and bytes of their ids together, then the numbers of each column."""

    def __init__(self, start: int, n: int, n_bytes: int, columns: tuple[int, ...]) -> None:
        self._start, self.n, self._n_bytes, self._columns = start, n, n_bytes, columns

    @classmethod
    def put(cls, scratch: Scratch, ids: PackedIds, numbers: Sequence[NDArray[np.int64]]) -> _Batch:
        lengths = np.diff(ids.offsets).astype(np.uint16)
        data = ids.data[ids.offsets[0] : ids.offsets[-1]]
        start = scratch.append(np.concatenate([lengths.view(np.uint8), data]))
        columns = tuple(scratch.append(column.astype(np.uint32)) for column in numbers)
        return cls(start, len(ids), len(data), columns)

    def ids(self, scratch: Scratch) -> PackedIds:
        found = scratch.read(self._start, 2 * self.n + self._n_bytes)
        offsets = np.zeros(self.n + 1, dtype=np.int64)
        np.cumsum(found[: 2 * self.n].view(np.uint16), out=offsets[1:])
        return PackedIds(found[2 * self.n :], offsets)

    def numbers(self, scratch: Scratch, column: int) -> NDArray[np.uint32]:
        return scratch.read(self._columns[column], 4 * self.n).view(np.uint32)
