"""Partitions of the items into blocks, and their refinement by one party's codes.

The statistics of a valuation (data errors, learnable values, interactions) all walk over coalitions
of parties. A coalition S splits the items into blocks that agree on X_t and X_S; adding a party
splits each block further. This module holds the one step they share. What a walk does with the
blocks is in the modules beside it.

The items are kept sorted by label inside each block: the sort is done once, and `refine` is stable,
so the labels of a block are runs that a walk reads off in one pass.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
# Compiled functions take their types from their arguments.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The items of a joint table, ordered for a walk.

    Args:
        codes: Dense code of each party per item, shape (n_parties, n_items); one row per party, so
            that a refinement reads along memory.
        label: Dense code of Y per item.
        count: Number of samples per item.
        start: Borders of the blocks of equal X_t, shape (n_blocks + 1,).
        n_labels: Number of distinct labels.
        source: Position of each item in the table it came from.
    """

    codes: NDArray[np.int64] = field(repr=False)
    label: NDArray[np.int64] = field(repr=False)
    count: NDArray[np.int64] = field(repr=False)
    start: NDArray[np.int64] = field(repr=False)
    n_labels: int
    source: NDArray[np.int64] = field(repr=False)

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return int(self.codes.shape[0])

    @property
    def n_items(self) -> int:
        """Number of distinct rows."""
        return int(self.codes.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of samples counted."""
        return int(self.count.sum())

    @property
    def width(self) -> int:
        """Largest number of codes of any party: the size of the scratch space of `refine`."""
        return int(self.codes.max()) + 1


def items_of(counts: JointCounts) -> Items:
    """Order the items of a table by X_t and then by label."""
    order = np.lexsort((counts.label, counts.task))
    task = counts.task[order]
    border = np.flatnonzero(np.r_[True, task[1:] != task[:-1], True])
    labels, label = np.unique(counts.label[order], return_inverse=True)
    codes = np.empty((counts.n_parties, len(order)), dtype=np.int64)
    for k in range(counts.n_parties):
        codes[k] = np.unique(counts.parties[order, k], return_inverse=True)[1]
    return Items(
        codes=codes,
        label=label.astype(np.int64),
        count=np.ascontiguousarray(counts.count[order]),
        start=border.astype(np.int64),
        n_labels=len(labels),
        source=order.astype(np.int64),
    )


def shapley_weights(n_parties: int) -> NDArray[np.float64]:
    """w(s) = s!(p-s-1)!/p! for s = 0..p-1, and w(p) = 0, shape (p + 1,)."""
    p = n_parties
    weight = np.zeros(p + 1)
    weight[0] = 1.0 / p
    for s in range(1, p):
        weight[s] = weight[s - 1] * s / (p - s)
    return weight


@njit(cache=True, nogil=True)
def refine(codes, items, starts, n_blocks, out_items, out_starts, size, seen):
    """Split each block by a party's codes; returns the new number of blocks.

    A stable counting sort per block: codes are laid out in the order in which they first appear.

    Args:
        codes: The party's code per item.
        items: Items in block order.
        starts: Borders of the blocks in `items`.
        n_blocks: Number of blocks.
        out_items: Receives the items in the new block order.
        out_starts: Receives the new borders.
        size: Scratch, one zero per code; zero again on return.
        seen: Scratch, as long as `items`.
    """
    out_blocks = 0
    place = 0
    out_starts[0] = 0
    for block in range(n_blocks):
        lo = starts[block]
        hi = starts[block + 1]
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
    return out_blocks
