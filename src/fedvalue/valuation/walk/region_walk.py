"""Walk one region to its end: the unit of work of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.walk import walk_kernels as kernels
from fedvalue.valuation.walk.block_kernels import block_room
from fedvalue.valuation.walk.block_tree import find_roots

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.block_tree import Roots
    from fedvalue.valuation.walk.regions import RegionTable
    from fedvalue.valuation.walk.walk_kernels import BlockSet

FIRST_ROOM = 1000
"""Blocks, besides the roots and the parts of one block, that a walk makes room for at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """A region after its walk.

    Args:
        gains: What each column of the region's table explained, times the number of samples.
        n_blocks: How many blocks were split.
        work: Items times free columns, summed over them.
    """

    gains: Floats
    n_blocks: int
    work: int


def walk_region(region: RegionTable, most_blocks: float, first_room: int = FIRST_ROOM) -> Walked | None:
    """Split every block of a region by every column; None when it has more than `most_blocks`.

    Args:
        region: The region's table.
        most_blocks: Blocks after which to give up.
        first_room: Blocks to make room for at first.
    """
    room = block_room(region.table)
    roots = find_roots(region.table)
    n_roots = len(roots.key)
    found = _empty(region, len(room.part_key) + n_roots + int(min(most_blocks, first_room)))
    _enter(roots, region.n_walked, found)
    while not kernels.walk_blocks(region, room, found):
        if found.counters[kernels.COUNT] >= most_blocks:
            return None
        found = _enlarged(found)
    return Walked(found.gains, int(found.counters[kernels.DONE]), int(found.counters[kernels.WORK]))


def _empty(region: RegionTable, room: int) -> BlockSet:
    p, stride = region.table.n_columns, region.awaited + 2
    # At most 0.6 full.
    slots = np.zeros((1 << int(room * 5 // 3).bit_length()) * stride, dtype=np.uint64)
    return kernels.BlockSet(
        slots=slots,
        masses=slots.view(np.float64),
        entries=np.empty((room, kernels.GENERATOR + p // 64 + 1), dtype=np.uint64),
        heads=np.zeros(region.n_walked + 1, dtype=np.int64),
        counters=np.zeros(4, dtype=np.int64),
        gains=np.zeros(p),
        carry=np.zeros(p),
        shares=np.zeros(region.awaited + 1),
    )


def _enter(roots: Roots, n_walked: int, found: BlockSet) -> None:
    """Enter the roots with mass 1 for nobody having arrived.

    They are spread over the slots: their keys are never looked up, since no part is a whole root.
    """
    n_roots, stride = len(roots.key), len(found.shares) + 1
    if n_roots == 0:
        return
    at = np.arange(n_roots) * (len(found.slots) // stride // n_roots) * stride
    found.slots[at] = roots.key
    found.masses[at + 1] = 1.0
    entries = found.entries[:n_roots]
    entries[:, kernels.WITNESS] = roots.nodes.witness
    entries[:, kernels.SLOT] = at
    entries[:, kernels.GENERATOR :] = roots.nodes.generator
    rank = n_walked - roots.free[:, :n_walked].sum(axis=1)
    for r in np.unique(rank):
        chain = np.flatnonzero(rank == r) + 1
        entries[chain - 1, kernels.NEXT] = np.concatenate([[0], chain[:-1]])
        found.heads[r] = chain[-1]
    found.counters[kernels.COUNT] = n_roots


def _enlarged(found: BlockSet) -> BlockSet:
    """The same blocks, with twice the room."""
    count, stride = int(found.counters[kernels.COUNT]), len(found.shares) + 1
    entries = np.empty((2 * len(found.entries), found.entries.shape[1]), dtype=np.uint64)
    entries[:count] = found.entries[:count]
    slots = np.zeros((1 << int(len(entries) * 5 // 3).bit_length()) * stride, dtype=np.uint64)
    kernels.rehash(found.slots, entries, count, stride, slots)
    return found._replace(slots=slots, masses=slots.view(np.float64), entries=entries)
