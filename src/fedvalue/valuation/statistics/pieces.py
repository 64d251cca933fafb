"""Subtrees of the lattice of coalitions, some blocks at a time.

The coalitions with one largest member, the *top*, all refine the blocks by X_t and the top's codes. What they
add up over blocks may be added up piece by piece, a piece being some of these blocks. A piece fits into the
processor's cache, where the whole table would miss it at every item, and scratch for its partitions is small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fedvalue.valuation.items import ItemTable
    from fedvalue.valuation.statistics.partition_kernels import PartitionScratch

PIECE_ITEMS = 2**15
"""Items of a piece, unless one block has more: a megabyte of codes, weights and partitions."""


class Piece(NamedTuple):
    """Some blocks by X_t and the top's codes.

    Args:
        members: Their items.
        table: These items alone, X_t having the top's codes in it; codes of the parties below the top.
        scratch: Buffers that begin with the blocks.
    """

    members: NDArray[np.uint32]
    table: ItemTable
    scratch: PartitionScratch


def pieces(items: ItemTable, top: int) -> Iterator[Piece]:
    """The blocks by X_t and the top's codes that have more than one label, some at a time."""
    from fedvalue.valuation.statistics.partition_kernels import partition_scratch

    order, starts = _impure_blocks(items, top)
    low = 0
    while low < len(starts) - 1:
        high = max(low + 1, int(np.searchsorted(starts, starts[low] + PIECE_ITEMS, side="right")) - 1)
        members = order[starts[low] : starts[high]]
        table = items._replace(
            codes=items.codes[:top].take(members, axis=1),
            label=items.label[members],
            weight=items.weight[members],
            by_task=np.arange(len(members), dtype=np.uint32),
            task_start=starts[low : high + 1] - starts[low],
        )
        yield Piece(members, table, partition_scratch(table, top + 1, gain=True))
        low = high


def _impure_blocks(items: ItemTable, top: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The items of blocks with more than one label, in block order, and the borders of the blocks."""
    from fedvalue.valuation.statistics.partition_kernels import partition_scratch, refine_blocks

    scratch = partition_scratch(items, 2)
    refine_blocks(items.codes[top], scratch, 0, 1)
    order, starts = scratch.items[1], scratch.starts[1, : scratch.n_blocks[1] + 1].astype(np.int64)
    del scratch
    # The items of a block are sorted by label.
    impure = items.label[order[starts[:-1]]] != items.label[order[starts[1:] - 1]]
    sizes = np.diff(starts)
    kept = order[np.repeat(impure, sizes)]
    return kept, np.concatenate([[0], np.cumsum(sizes[impure])])
