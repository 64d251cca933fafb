"""A sample of the tree of a table's blocks (see `tree_kernels`), to estimate their number and sizes.

The tree is sampled depth by depth (stochastic enumeration): all children of the current nodes are listed, and
when there are more than a few hundred, some are kept, large ones with a higher probability. Their weights
make every sum over the kept nodes an unbiased estimate of the sum over all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.valuation.frozen_random import random_fractions
from fedvalue.valuation.walk.block_kernels import block_scratch
from fedvalue.valuation.walk.tree_kernels import Nodes, tree_children

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.valuation.walk.block_table import BlockTable


@dataclass(frozen=True, slots=True, eq=False)
class Roots:
    """The impure blocks of the task party's codes that some party can split.

    Args:
        nodes: The blocks.
        key: Sum of the hashes of each block's items.
        free: Whether each column splits each block, shape (n_roots, n_columns).
    """

    nodes: Nodes
    key: NDArray[np.uint64]
    free: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TreeSample:
    """One round of sampling.

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


def find_roots(table: BlockTable) -> Roots:
    """The blocks from which a walk starts."""
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
    nodes = Nodes(
        generator=generator,
        witness=order[start[which]].astype(np.uint64),
        core=np.full(len(which), -1, dtype=np.int64),
        weight=np.ones(len(which)),
        work=(size * free.sum(axis=1))[which].astype(np.float64),
    )
    return Roots(nodes, np.add.reduceat(table.hashes[order], start)[which], free[which])


def sample_tree(table: BlockTable, n_walked: int, keep: int, *, seed: int, stream: int = 0) -> TreeSample:
    """One round over the blocks that the first `n_walked` columns of a table make of its roots.

    Args:
        table: The blocks of its task column are the roots.
        n_walked: How many of its columns split.
        keep: Nodes kept per depth.
        seed: Of the sampling.
        stream: Number of the round: rounds with different numbers are independent.
    """
    nodes = find_roots(table).nodes
    n_blocks = work = 0.0
    exact = True
    kept: list[Nodes] = []
    # A block has at most one column more than its parent that it is constant on.
    fractions = random_fractions(n_walked + 1, seed=seed, stream=stream)
    while len(nodes.witness):
        n_blocks += float(nodes.weight.sum())
        work += float(nodes.weight @ nodes.work)
        if len(nodes.witness) > keep:
            exact = False
            nodes = _thin(nodes, keep, float(fractions[len(kept)]))
        kept.append(nodes)
        nodes = _children(table, n_walked, nodes)
    return TreeSample(n_blocks, work, exact, _concatenate([*kept, nodes]))


def _thin(nodes: Nodes, keep: int, offset: float) -> Nodes:
    """About `keep` of the nodes, by systematic sampling; weights make up for the others."""
    # What lies below a node grows with what it has: items and free columns not yet used.
    chance = nodes.weight * nodes.work
    chance = np.minimum(1.0, keep * chance / chance.sum())
    ticks = np.floor(np.cumsum(chance) + offset)
    which = np.flatnonzero(np.diff(ticks, prepend=0.0) > 0)
    return _select(nodes, which)._replace(weight=nodes.weight[which] / chance[which])


def _children(table: BlockTable, n_walked: int, nodes: Nodes) -> Nodes:
    scratch = block_scratch(table)
    size = max(len(scratch.part_key), 1 << 14)
    parts: list[Nodes] = []
    position = 0
    while position < len(nodes.witness):
        out = Nodes(
            generator=np.empty((size, nodes.generator.shape[1]), dtype=np.uint64),
            witness=np.empty(size, dtype=np.uint64),
            core=np.empty(size, dtype=np.int64),
            weight=np.empty(size),
            work=np.empty(size),
        )
        position, count = tree_children(table, scratch, n_walked, nodes, position, out)
        parts.append(_select(out, np.arange(count)))
    return _concatenate(parts)


def _select(nodes: Nodes, which: NDArray[np.int64]) -> Nodes:
    arrays: Any = (array[which] for array in nodes)
    return Nodes(*arrays)


def _concatenate(parts: Sequence[Nodes]) -> Nodes:
    arrays: Any = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Nodes(*arrays)
