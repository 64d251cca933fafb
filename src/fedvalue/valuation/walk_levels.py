"""Pending blocks by rank, and how a level is cut into chunks of work."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.walk_blocks import Blocks, BlockSet, concatenate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedvalue.valuation.walk_table import BlockTable


class Levels:
    """Blocks waiting to be split, one set per rank.

    A part has a larger rank than its block, so once all blocks of smaller rank are split, a level
    has received all its mass.
    """

    def __init__(self, n_ranks: int, n_generator_words: int) -> None:
        self._n_words = n_generator_words
        self._sets: list[BlockSet | None] = [None] * n_ranks

    def add(self, blocks: Blocks) -> None:
        """Add blocks, which come by rising rank."""
        bounds = np.searchsorted(blocks.rank, np.arange(len(self._sets) + 1))
        for rank, (low, high) in enumerate(pairwise(bounds)):
            if high > low:
                level = self._sets[rank] or BlockSet(self._n_words)
                self._sets[rank] = level
                level.add(blocks[low:high])

    def take(self, rank: int) -> Blocks | None:
        """The blocks of one rank, which are then no longer waiting."""
        level, self._sets[rank] = self._sets[rank], None
        return None if level is None else level.blocks()

    def waiting_work(self) -> float:
        """Items times free columns of all blocks that wait here."""
        n_columns = len(self._sets)
        return float(
            sum(
                float(level.size[: level.count].sum(dtype=np.int64)) * (n_columns - rank)
                for rank, level in enumerate(self._sets)
                if level is not None
            )
        )

    @property
    def n_bytes(self) -> int:
        """Memory of all sets."""
        return sum(level.n_bytes for level in self._sets if level is not None)

    def rest(self) -> Blocks | None:
        """All blocks that wait here, together."""
        left = [level.blocks() for level in self._sets if level is not None]
        return concatenate(left) if left else None


def cut(blocks: Blocks, n_free: int, chunk_work: int) -> Iterator[Blocks]:
    """Cut a level into chunks of about `chunk_work` items times columns each.

    The cuts depend on the blocks alone, never on who will do the work.
    """
    chunk = np.cumsum(blocks.size, dtype=np.int64) * n_free // chunk_work
    edges = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(blocks)]
    for low, high in pairwise(edges):
        yield blocks[low:high]


def root_blocks(table: BlockTable) -> Blocks:
    """The impure blocks of the task party's codes that some party can split, with mass 1 each."""
    task = table.cells[:, -1]
    column = table.n_columns
    found = []
    for cell in np.unique(task):
        items = np.flatnonzero(task == cell)
        constant = (table.cells[items, :-1] == table.cells[items[0], :-1]).all(axis=0)
        if table.label[items[0]] != table.label[items[-1]] and not constant.all():
            found.append((table.hashes[items].sum(), items[0], len(items), constant.sum()))
    found.sort(key=lambda block: int(block[3]))
    generator = np.zeros((len(found), column // 64 + 1), dtype=np.uint64)
    generator[:, column >> 6] = np.uint64(1) << np.uint64(column & 63)
    return Blocks(
        key=np.array([block[0] for block in found], dtype=np.uint64),
        mass=np.ones(len(found)),
        generator=generator,
        witness=np.array([block[1] for block in found], dtype=np.uint32),
        size=np.array([block[2] for block in found], dtype=np.int32),
        rank=np.array([block[3] for block in found], dtype=np.int16),
    )
