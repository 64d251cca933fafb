"""Walk one region to its end: the unit of work of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.walk import kernel
from fedvalue.valuation.walk.tree import roots

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.regions import RegionTable


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """What came of walking a region.

    Args:
        gains: What each column of the region's table explained, times the number of samples.
        n_blocks: How many blocks were split.
        work: Items times free columns, summed over them.
    """

    gains: Floats
    n_blocks: int
    work: int


class BlockSet:
    """The blocks of a region, each once, found by key.

    Args:
        n_masses: Masses per block.
        n_words: 64-bit words of a generator.
        room: Blocks to make room for at first.
    """

    def __init__(self, n_masses: int, n_words: int, room: int) -> None:
        self.count = 0
        self.stride = n_masses + 1
        self._allocate(room, n_words)

    def _allocate(self, room: int, n_words: int) -> None:
        self.entries = np.empty((room, kernel.GENERATOR + n_words), dtype=np.uint64)
        # At most 0.6 full.
        n_slots = 1 << int(room * 5 // 3).bit_length()
        self.slots = np.zeros(n_slots * self.stride, dtype=np.uint64)
        self.masses = self.slots.view(np.float64)

    def make_room(self, room: int) -> None:
        """Make room for `room` blocks in all."""
        entries, slots = self.entries, self.slots
        self._allocate(room, entries.shape[1] - kernel.GENERATOR)
        self.entries[: self.count] = entries[: self.count]
        kernel.rehash(slots, self.entries, self.count, self.stride, self.slots)


def walk_region(region: RegionTable, most_blocks: float, first_room: int = 1000) -> Walked | None:
    """Split every block of a region by every column; None when it has more than `most_blocks`.

    Args:
        region: The region's table.
        most_blocks: Blocks after which to give up.
        first_room: Blocks to make room for at first.
    """
    table = region.table
    n_cells = int(table.first_cell[-1])
    n_labels = int(table.label.max()) + 1
    gains, carry = np.zeros(table.n_columns), np.zeros(table.n_columns)
    counters = np.zeros(kernel.N_COUNTERS, dtype=np.int64)
    parts_at_most = min(n_cells, table.n_columns * (table.n_items // 2)) + 1
    first = roots(table)
    room = parts_at_most + len(first.witness) + int(min(most_blocks, first_room))
    found = BlockSet(region.awaited + 1, table.n_columns // 64 + 1, room)
    heads = np.zeros(region.n_walked + 1, dtype=np.int64)
    counters[kernel.COUNT] = kernel.enter_roots(
        table.cells, table.members, table.members_start, table.bitset_row, table.bitsets, table.hashes,
        region.n_walked, first.generator, first.witness,
        np.zeros(table.bitsets.shape[1], dtype=np.uint64), np.zeros(table.n_items, dtype=np.uint32),
        found.slots, found.masses, found.stride, found.entries, heads,
    )  # fmt: skip
    stride = 1 + _words_needed(table.n_samples, n_labels)
    scratch = (
        np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.n_items, dtype=np.uint32),
        np.zeros(table.rows.shape[1], dtype=np.uint64),
        np.zeros(n_labels, dtype=np.int64),
        # Hash and packed counts: of each cell, of the whole block, and of the modal cell.
        np.zeros(n_cells * stride, dtype=np.uint64),
        np.zeros(stride, dtype=np.uint64),
        np.zeros(stride, dtype=np.uint64),
        np.zeros(table.n_columns),
        np.zeros(region.awaited + 1),
        np.zeros(parts_at_most, dtype=np.uint64),
        np.zeros(parts_at_most, dtype=np.uint64),
        np.zeros(parts_at_most, dtype=np.uint32),
    )
    while not kernel.walk_blocks(
        table.cells, table.rows, table.lane_bits, table.first_cell, table.label, table.weight, table.listed,
        table.listed_start, table.modal, table.members, table.members_start, table.bitset_row, table.bitsets,
        table.hashes, table.xi, table.multiplicity, region.n_walked, region.awaited, region.exits,
        found.slots, found.masses, found.entries, heads, counters, gains, carry, *scratch,
    ):  # fmt: skip
        found.count = int(counters[kernel.COUNT])
        if found.count >= most_blocks:
            return None
        found.make_room(2 * len(found.entries))
    return Walked(gains, int(counters[kernel.DONE]), int(counters[kernel.WORK]))


def _words_needed(n_samples: int, n_labels: int) -> int:
    """The most words that the packed label counts of a block can take."""
    return -(-n_labels // (64 // n_samples.bit_length()))
