"""Compiled: partitions of the items into blocks, and their refinement by one party's codes.

The statistics walk over coalitions of parties. A coalition S splits the items into blocks that agree on X_t
and X_S; adding a party splits each block further. This module holds the step that their walks share. The
items of a block are sorted by label: `by_task` of an item table is, and a refinement is stable, so the
samples of one label in a block are one run.

Walks go through the coalitions by their largest member, the *top*: the coalitions of one top are a subtree,
depth first, each child adding a party below all others. Subtrees are independent tasks.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.items import ItemTable


class PartitionScratch(NamedTuple):
    """Buffers for the partitions along one path of coalitions, one row per depth.

    Args:
        items: Items in block order, shape (n_depths, n_items).
        starts: Borders of the blocks, shape (n_depths, n_items + 1).
        n_blocks: Number of blocks at each depth.
        member: The party that each depth adds.
        following: The next party to add below each depth.
        gain: A number per item.
        size: One zero per code; zero between steps.
        seen: Codes met in a block.
    """

    items: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    n_blocks: NDArray[np.int64]
    member: NDArray[np.int64]
    following: NDArray[np.int64]
    gain: Floats
    size: NDArray[np.int64]
    seen: NDArray[np.uint32]


def partition_scratch(table: ItemTable, n_depths: int, *, gain: bool = False) -> PartitionScratch:
    """Buffers for partitions of a table, the first one being that by X_t; `gain` where a walk needs it."""
    n_items, most_codes = table.n_items, int(table.widths.max())
    scratch = PartitionScratch(
        items=np.zeros((n_depths, n_items), dtype=np.uint32),
        starts=np.zeros((n_depths, n_items + 1), dtype=np.uint32),
        n_blocks=np.zeros(n_depths, dtype=np.int64),
        member=np.zeros(n_depths, dtype=np.int64),
        following=np.zeros(n_depths, dtype=np.int64),
        gain=np.zeros(n_items if gain else 0),
        size=np.zeros(most_codes, dtype=np.int64),
        seen=np.zeros(min(n_items, most_codes), dtype=np.uint32),
    )
    scratch.items[0] = table.by_task
    scratch.starts[0, : len(table.task_start)] = table.task_start
    scratch.n_blocks[0] = len(table.task_start) - 1
    return scratch


@kernel
def refine_blocks(codes, scratch, source, target):
    """Split each block at one depth by a party's codes; write the blocks to another depth.

    A stable counting sort per block: codes are laid out in the order in which they first appear.

    Args:
        codes: The party's code per item.
        scratch: A `PartitionScratch`.
        source: Depth of the blocks to split.
        target: Depth that receives the new blocks.
    """
    items, starts, size, seen = scratch.items[source], scratch.starts[source], scratch.size, scratch.seen
    out_items, out_starts = scratch.items[target], scratch.starts[target]
    out_blocks = 0
    place = 0
    out_starts[0] = 0
    for block in range(scratch.n_blocks[source]):
        lo = np.int64(starts[block])
        hi = np.int64(starts[block + 1])
        if hi - lo == 2:  # deep in a walk most blocks are pairs
            out_items[place] = items[lo]
            out_items[place + 1] = items[lo + 1]
            if codes[items[lo]] != codes[items[lo + 1]]:
                out_blocks += 1
                out_starts[out_blocks] = place + 1
            place += 2
            out_blocks += 1
            out_starts[out_blocks] = place
            continue
        n_seen = 0
        for j in range(lo, hi):
            code = codes[items[j]]
            if size[code] == 0:
                seen[n_seen] = code
                n_seen += 1
            size[code] += 1
        for u in range(n_seen):
            code = seen[u]
            width = size[code]
            size[code] = place
            place += width
            out_blocks += 1
            out_starts[out_blocks] = place
        for j in range(lo, hi):
            item = items[j]
            code = codes[item]
            out_items[size[code]] = item
            size[code] += 1
        for u in range(n_seen):
            size[seen[u]] = 0
    scratch.n_blocks[target] = out_blocks
