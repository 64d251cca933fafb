"""Exact Shapley-CMI of a joint table.

Theory. A block B is a set of items that some coalition cannot tell apart. Its own game is the one
in which a coalition T splits B: the cost c(B) = ξ(N_B) − Σ_y ξ(N_{B,y}), ξ(k) = k ln k, falls to the
sum of c over the parts. Blocks are independent games and the Shapley value is linear, so the values
of the table are the sum of the values of its blocks. Parties on which B is constant are dummies of
B's game; let R_B be the others. Whoever of R_B comes first, all equally likely, splits B into parts,
which again are independent games. Hence, with q(B) the probability that a random order of the
parties passes through the block B,

    n · φ_d = Σ_B q(B) / |R_B| · [c(B) − Σ_{parts B' of B by d} c(B')],
    q(B')  += q(B) / |R_B|   for every d of R_B and every part B' of B by d.

Why this is fast. Many coalitions share a block, and the game of a block depends on the block alone,
not on the coalition that made it. So instead of 2^p coalitions only the *distinct* blocks are
visited, each once: for Breast with 30 parties 1.4 million blocks instead of 10^9 coalitions. A block
pure in Y costs nothing, nor do its parts: dropped. Every term is non-negative: nothing cancels.

Order. A part is constant on more columns than its block, so blocks are split level by level of that
number (`rank`), and have all their mass when their turn comes. The blocks of a level are cut into
chunks of about equal work; chunks are independent and run wherever the executor runs them. Cuts and
the order of merging depend on the table alone, so the values are bit-equal on any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.walk_blocks import Blocks, BlockSet, SplitResult, split
from fedvalue.valuation.walk_table import BlockTable, block_table

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats, Progress


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How to walk. The values do not depend on it beyond rounding.

    Args:
        merge_duplicates: Keep columns that split the items alike only once.
        bitset_share: Cells with fewer than 1/bitset_share of the items are kept as lists only.
        chunk_work: Items times columns in one chunk: about a tenth of a second.
    """

    merge_duplicates: bool = True
    bitset_share: int = 256
    chunk_work: int = 40_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ExactValues:
    """Exact values, in nats.

    Args:
        values: Shapley-CMI of each party.
        total: val(all) = I(X_all; Y | X_t).
        label_entropy: H(Y | X_t).
        n_nodes: Number of distinct impure blocks.
    """

    values: Floats
    total: float
    label_entropy: float
    n_nodes: int
    work: int = 0


def exact_values(
    counts: JointCounts,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    options: WalkOptions = WalkOptions(),
) -> ExactValues:
    """Shapley-CMI of every data party, exact up to rounding."""
    table = block_table(counts, merge_duplicates=options.merge_duplicates, bitset_share=options.bitset_share)
    roots, entropy = root_blocks(table)
    levels: list[BlockSet | None] = [None] * (table.n_columns + 1)
    spread(levels, roots)
    gains = np.zeros(table.n_columns)
    n_nodes = work = 0
    for rank in range(table.n_columns):
        level = levels[rank]
        if level is None:
            continue
        levels[rank] = None
        blocks = level.blocks()
        del level
        for chunk in chunks(blocks, table.n_columns - rank, options.chunk_work):
            result = split(table, chunk)
            gains += result.gains
            n_nodes += result.n_blocks
            work += result.work
            spread(levels, result.parts)
    values = gains[table.column_of] / table.n_samples
    return ExactValues(values, float(values.sum()), entropy / table.n_samples, n_nodes, work)


def chunks(blocks: Blocks, free, work):
    edges = np.floor(np.cumsum(blocks.size.astype(np.int64)) * free / work)
    cut = np.flatnonzero(np.diff(edges)) + 1
    lo = 0
    for hi in [*cut, len(blocks)]:
        if hi > lo:
            yield blocks[lo:hi]
        lo = hi


def spread(levels, parts: Blocks) -> None:
    """Add parts to the level of their rank."""
    bounds = np.searchsorted(parts.rank, np.arange(len(levels) + 1))
    for rank in range(len(levels)):
        lo, hi = bounds[rank], bounds[rank + 1]
        if hi > lo:
            if levels[rank] is None:
                levels[rank] = BlockSet(parts.generator.shape[1])
            levels[rank].add(parts[lo:hi])


def root_blocks(table: BlockTable) -> tuple[Blocks, float]:
    """The impure blocks of the task party's codes, and n·H(Y | X_t)."""
    task = table.cells[:, -1]
    column = table.n_columns
    found = []
    entropy = 0.0
    for cell in np.unique(task):
        items = np.flatnonzero(task == cell)
        n_y = np.bincount(table.label[items], weights=table.weight[items])
        n_y = n_y[n_y > 0]
        if len(n_y) < 2:
            continue
        entropy += n_y.sum() * np.log(n_y.sum()) - (n_y * np.log(n_y)).sum()
        same = (table.cells[items, :-1] == table.cells[items[0], :-1]).all(axis=0)
        if not same.all():
            found.append((table.hashes[items].sum(), items[0], len(items), same.sum()))
    generator = np.zeros((len(found), column // 64 + 1), dtype=np.uint64)
    generator[:, column >> 6] = np.uint64(1) << np.uint64(column & 63)
    blocks = Blocks(
        np.array([f[0] for f in found], dtype=np.uint64),
        np.ones(len(found)),
        generator,
        np.array([f[1] for f in found], dtype=np.uint32),
        np.array([f[2] for f in found], dtype=np.int32),
        np.array([f[3] for f in found], dtype=np.int16),
    )
    return blocks[np.argsort(blocks.rank, kind="stable")], float(entropy)
