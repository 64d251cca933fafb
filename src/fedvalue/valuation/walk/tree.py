"""Sample the tree of a table's blocks (`tree_kernel.py`): how many there are, and what they look like.

The tree is sampled depth by depth: all children of the nodes at hand are listed, and when there are more
than a few hundred, some are kept, large ones more likely, with weights that make every sum over the
kept nodes an unbiased estimate of the sum over all (stochastic enumeration).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.walk import tree_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.table import BlockTable


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Some blocks, each standing for `weight` of them.

    Args:
        generator: Columns on which the block's items agree with the witness, as bits of 64-bit words.
        witness: One item of the block.
        core: The column that made the block in the tree.
        weight: How many blocks it stands for.
        work: Items times columns that split the block.
    """

    generator: NDArray[np.uint64]
    witness: NDArray[np.uint32]
    core: NDArray[np.int64]
    weight: Floats
    work: Floats

    def keep(self, which: NDArray[np.int64], weight: Floats) -> Nodes:
        """Some of the nodes, with other weights."""
        return Nodes(self.generator[which], self.witness[which], self.core[which], weight, self.work[which])


@dataclass(frozen=True, slots=True, eq=False)
class TreeSample:
    """What one round of sampling found.

    Args:
        n_blocks: Estimated number of blocks.
        work: Estimated sum of items times free columns over them.
        exact: Whether nothing was left out, so that these are counts.
        nodes: The nodes that were kept, over all depths.
    """

    n_blocks: float
    work: float
    exact: bool
    nodes: Nodes


def sample_tree(table: BlockTable, n_walked: int, keep: int, rng: np.random.Generator) -> TreeSample:
    """One round over the blocks that the first `n_walked` columns of a table make of its roots.

    Args:
        table: The blocks of its task column are the roots.
        n_walked: How many of its columns split.
        keep: Nodes kept per depth.
        rng: Of the sampling.
    """
    nodes = roots(table)
    n_blocks = work = 0.0
    exact = True
    kept: list[Nodes] = []
    while len(nodes.witness):
        n_blocks += float(nodes.weight.sum())
        work += float(nodes.weight @ nodes.work)
        if len(nodes.witness) > keep:
            exact = False
            nodes = _thin(nodes, keep, rng)
        kept.append(nodes)
        nodes = _children(table, n_walked, nodes)
    return TreeSample(n_blocks, work, exact, _concatenate([*kept, nodes]))


def roots(table: BlockTable) -> Nodes:
    """The impure blocks of the task party's codes that some party can split."""
    task = table.cells[:, -1].astype(np.int64)
    # Stable: the items of a block stay sorted by label, and its first one is its witness.
    order = np.argsort(task, kind="stable")
    start = np.flatnonzero(np.diff(task[order], prepend=-1))
    size = np.diff(start, append=len(task))
    codes = table.cells[order, :-1]
    free = np.minimum.reduceat(codes, start) != np.maximum.reduceat(codes, start)
    impure = table.label[order[start]] != table.label[order[start + size - 1]]
    which = np.flatnonzero(impure & free.any(axis=1))
    column = table.n_columns
    generator = np.zeros((len(which), column // 64 + 1), dtype=np.uint64)
    generator[:, column >> 6] = np.uint64(1) << np.uint64(column & 63)
    return Nodes(
        generator,
        order[start[which]].astype(np.uint32),
        np.full(len(which), -1, dtype=np.int64),
        np.ones(len(which)),
        (size * free.sum(axis=1))[which].astype(np.float64),
    )


def _thin(nodes: Nodes, keep: int, rng: np.random.Generator) -> Nodes:
    """About `keep` of the nodes, by systematic sampling; weights make up for the others."""
    # What lies below a node grows with what it has: items and free columns not yet used.
    chance = nodes.weight * nodes.work
    chance = np.minimum(1.0, keep * chance / chance.sum())
    ticks = np.floor(np.cumsum(chance) + rng.random())
    which = np.flatnonzero(np.diff(ticks, prepend=0.0) > 0)
    return nodes.keep(which, nodes.weight[which] / chance[which])


def _children(table: BlockTable, n_walked: int, nodes: Nodes) -> Nodes:
    n_cells = int(table.first_cell[-1])
    needed = min(n_cells, table.n_columns * (table.n_items // 2) + 1)
    room = max(needed, 1 << 14)
    n_words = table.bitsets.shape[1]
    scratch = (
        np.zeros(n_words, dtype=np.uint64),
        np.zeros(n_words, dtype=np.uint64),
        np.zeros(table.n_items, dtype=np.uint32),
        np.zeros(table.n_items, dtype=np.uint32),
        np.zeros(table.n_columns, dtype=np.uint32),
    )
    parts: list[Nodes] = []
    position = 0
    while position < len(nodes.witness):
        out = Nodes(
            np.empty((room, nodes.generator.shape[1]), dtype=np.uint64),
            np.empty(room, dtype=np.uint32),
            np.empty(room, dtype=np.int64),
            np.empty(room),
            np.empty(room),
        )
        position, count = tree_kernel.tree_children(
            table.cells, table.first_cell, table.label, table.members, table.members_start,
            table.bitset_row, table.bitsets, n_walked,
            nodes.generator, nodes.witness, nodes.core, nodes.weight, position, *scratch,
            out.generator, out.witness, out.core, out.weight, out.work, needed,
        )  # fmt: skip
        parts.append(out.keep(np.arange(count), out.weight[:count]))
    return _concatenate(parts)


def _concatenate(parts: Sequence[Nodes]) -> Nodes:
    return Nodes(*(np.concatenate([getattr(part, name) for part in parts]) for name in Nodes.__slots__))
