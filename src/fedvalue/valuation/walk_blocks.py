"""Sets of blocks with their masses, and the work on them: split some, merge the parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation import walk_kernel as kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.walk_table import BlockTable


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks as plain arrays, fit to travel to a worker.

    Args:
        key: Sum of the hashes of the block's items.
        mass: q(B), the probability that a random order of the parties passes through B.
        generator: Columns on which the block's items agree with the witness, as bits of 64-bit words.
        witness: One item of the block.
        size: Number of items.
        rank: Number of columns on which the block is constant. Parts have a larger rank.
    """

    key: NDArray[np.uint64]
    mass: Floats
    generator: NDArray[np.uint64]
    witness: NDArray[np.uint32]
    size: NDArray[np.int32]
    rank: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.mass)

    def __getitem__(self, which: slice | NDArray[np.int64]) -> Blocks:
        """Some of the blocks."""
        return Blocks(
            self.key[which],
            self.mass[which],
            self.generator[which],
            self.witness[which],
            self.size[which],
            self.rank[which],
        )


def concatenate(parts: Sequence[Blocks]) -> Blocks:
    """Blocks of several lists, in order."""
    return Blocks(*(np.concatenate([getattr(part, name) for part in parts]) for name in Blocks.__slots__))


class BlockSet:
    """A growing set of blocks, each once, found by key."""

    def __init__(self, n_generator_words: int, room: int = 64) -> None:
        self.count = 0
        self._allocate(room, n_generator_words)

    def _allocate(self, room: int, n_words: int) -> None:
        self.slot_of = np.empty(room, dtype=np.uint32)
        self.generator = np.empty((room, n_words), dtype=np.uint64)
        self.witness = np.empty(room, dtype=np.uint32)
        self.size = np.empty(room, dtype=np.int32)
        self.rank = np.empty(room, dtype=np.int16)
        # At most 0.6 full. Key and mass of a slot lie side by side: one cache line per look-up.
        slots = 1 << int(room * 5 // 3).bit_length()
        self.slots = np.zeros(2 * slots, dtype=np.uint64)
        self.masses = self.slots.view(np.float64)

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays."""
        arrays = (self.slot_of, self.generator, self.witness, self.size, self.rank, self.slots)
        return sum(array.nbytes for array in arrays)

    def make_room(self, more: int) -> None:
        """Make room for `more` further blocks."""
        if self.count + more <= len(self.slot_of):
            return
        n = self.count
        old = {name: getattr(self, name) for name in ("slot_of", "generator", "witness", "size", "rank")}
        old_slots, old_masses = self.slots, self.masses
        self._allocate(max(2 * len(self.slot_of), n + more), self.generator.shape[1])
        for name, array in old.items():
            getattr(self, name)[:n] = array[:n]
        kernel.rehash(old_slots, old_masses, self.slot_of, n, self.slots, self.masses)

    def add(self, blocks: Blocks) -> None:
        """Add blocks; the mass of one that is there already grows."""
        self.make_room(len(blocks))
        self.count = kernel.merge_blocks(
            blocks.key, blocks.mass, blocks.generator, blocks.witness, blocks.size, blocks.rank,
            self.slots, self.masses, self.slot_of, self.generator, self.witness, self.size, self.rank,
            self.count,
        )  # fmt: skip

    def blocks(self) -> Blocks:
        """All blocks, in the order in which they came."""
        n = self.count
        slot = 2 * self.slot_of[:n].astype(np.int64)
        return Blocks(
            self.slots[slot],
            self.masses[slot + 1],
            self.generator[:n],
            self.witness[:n],
            self.size[:n],
            self.rank[:n],
        )


@dataclass(frozen=True, slots=True, eq=False)
class SplitResult:
    """What came of splitting some blocks.

    Args:
        gains: What each column explained of them, times the number of samples.
        parts: Their impure parts, each once, by rising rank.
        n_blocks: How many blocks were split.
        work: Items times free columns, summed over them.
        n_edges: How many impure parts there were, counting repeats.
    """

    gains: Floats
    parts: Blocks
    n_blocks: int
    work: int
    n_edges: int


def split(table: BlockTable, blocks: Blocks) -> SplitResult:
    """Split every block by every column; one unit of work for a worker."""
    n_cells = int(table.first_cell[-1])
    n_labels = int(table.label.max()) + 1
    gains, carry = np.zeros(table.n_columns), np.zeros(table.n_columns)
    counters = np.zeros(kernel.N_COUNTERS, dtype=np.int64)
    parts_at_most = min(n_cells, table.n_columns * (int(blocks.size.max()) // 2))
    found = BlockSet(blocks.generator.shape[1], room=2 * parts_at_most + 2 * len(blocks))
    stride = 1 + _words_needed(table, n_labels)
    scratch = (
        np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.n_items, dtype=np.uint32),
        np.zeros(table.rows.shape[1], dtype=np.uint64),
        np.zeros(table.n_columns, dtype=np.uint32),
        np.zeros(n_labels, dtype=np.int64),
        # Hash and packed counts: of each cell, of the whole block, and of the modal cell.
        np.zeros(n_cells * stride, dtype=np.uint64),
        np.zeros(stride, dtype=np.uint64),
        np.zeros(stride, dtype=np.uint64),
        np.zeros(parts_at_most, dtype=np.uint64),
        np.zeros(parts_at_most),
        np.zeros(parts_at_most, dtype=np.int32),
        np.zeros(parts_at_most, dtype=np.uint64),
        np.zeros(parts_at_most, dtype=np.uint32),
    )
    position = 0
    while True:
        position = kernel.split_blocks(
            table.cells, table.rows, table.lane_bits, table.first_cell, table.label, table.weight,
            table.weighted, table.listed, table.listed_start,
            table.modal, table.members, table.members_start, table.bitset_row, table.bitsets, table.hashes,
            table.xi,
            table.multiplicity,
            blocks.mass, blocks.generator, blocks.witness, position,
            found.slots, found.masses, found.slot_of, found.generator, found.witness, found.size, found.rank,
            counters, gains, carry, *scratch,
        )  # fmt: skip
        found.count = int(counters[kernel.COUNT])
        if position == len(blocks):
            break
        found.make_room(len(found.slot_of))
    parts = found.blocks()
    return SplitResult(
        gains=gains,
        parts=parts[np.argsort(parts.rank, kind="stable")],
        n_blocks=len(blocks),
        work=int(counters[kernel.WORK]),
        n_edges=int(counters[kernel.N_EDGES]),
    )


def _words_needed(table: BlockTable, n_labels: int) -> int:
    """The most words that the packed label counts of a block of this table can take."""
    bits = table.n_samples.bit_length()
    return -(-(n_labels + 1) // (64 // bits))
