"""What an exact walk will cost, before it starts.

The distinct blocks of a table form a tree (`walk_tree_kernel.py`). It is sampled depth by depth: all
children of the nodes at hand are listed, and when there are more than a few hundred, some are kept,
large ones more likely, with weights that make every sum over the kept nodes an unbiased estimate of the
sum over all (stochastic enumeration). Several independent rounds give the standard error. A tree
that never has to be thinned out is counted exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.valuation import walk_tree_kernel
from fedvalue.valuation.walk_levels import root_blocks
from fedvalue.valuation.walk_table import block_table

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.walk_table import BlockTable

# Measured on one core of a 2.4 GHz EPYC (Breast, Spect, Credit; see benchmarks/bench_engine.py): what a block
# costs, and what one item in one column of it costs.
SECONDS_PER_BLOCK = 3e-6
SECONDS_PER_WORK = 2.5e-9
# Merging the parts is done by one thread while the others split.
SERIAL_SHARE = 0.1
# Bytes per waiting block with its hash slots, and the share of all blocks that wait at the worst time.
BYTES_PER_BLOCK = 64
WAITING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class WalkPrediction:
    """Predicted cost of an exact walk.

    Args:
        seconds: Predicted time.
        seconds_se: Standard error of that, from the sampling. The distribution has a long upper tail.
        n_blocks: Predicted number of distinct impure blocks.
        n_blocks_se: Its standard error.
        work: Predicted items times free columns, for `exact_values(predicted_work=...)`.
        memory_bytes: Predicted memory for the waiting blocks.
        exact: Whether the tree was counted rather than sampled; the standard errors are then 0.
    """

    seconds: float
    seconds_se: float
    n_blocks: float
    n_blocks_se: float
    work: float
    memory_bytes: float
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    generator: NDArray[np.uint64]
    witness: NDArray[np.uint32]
    core: NDArray[np.int64]
    weight: Floats
    work: Floats

    def keep(self, which: NDArray[np.int64], weight: Floats) -> _Nodes:
        return _Nodes(self.generator[which], self.witness[which], self.core[which], weight, self.work[which])


def predict_walk(
    counts: JointCounts,
    *,
    executor: Executor | None = None,
    n_workers: int | None = None,
    seed: int = 0,
    keep: int = 800,
    rounds: int = 6,
    time_limit: float = 2.0,
) -> WalkPrediction:
    """Predict the cost of `exact_values`, in well under a second for most tables.

    Args:
        counts: The joint table.
        executor: Where the walk would run.
        n_workers: On how many workers; as many as the executor has when None.
        seed: Of the sampling.
        keep: Nodes kept per depth.
        rounds: Independent rounds; at least 2 are made, the others while there is time.
        time_limit: Seconds after which no further round starts.
    """
    table = block_table(counts)
    workers = n_workers or engines.n_workers(executor)
    rng = np.random.default_rng(seed)
    start = monotonic()
    found: list[tuple[float, float]] = []
    exact = False
    while len(found) < max(2, rounds) and (len(found) < 2 or monotonic() - start < time_limit):
        n_blocks, work, exact = _round(table, keep, rng)
        found.append((n_blocks, work))
        if exact:
            break
    blocks, works = np.array(found).T
    seconds = (SECONDS_PER_BLOCK * blocks + SECONDS_PER_WORK * works) * (
        SERIAL_SHARE + (1 - SERIAL_SHARE) / workers
    )
    return WalkPrediction(
        seconds=float(seconds.mean()),
        seconds_se=_se(seconds),
        n_blocks=float(blocks.mean()),
        n_blocks_se=_se(blocks),
        work=float(works.mean()),
        memory_bytes=float(blocks.mean()) * BYTES_PER_BLOCK * WAITING_SHARE,
        exact=exact,
    )


def expected_work(table: BlockTable, *, seed: int = 0, keep: int = 400, rounds: int = 3) -> float:
    """A quick estimate of the work of a walk, for the progress of one that has already started."""
    rng = np.random.default_rng(seed)
    return float(np.mean([_round(table, keep, rng)[1] for _ in range(rounds)]))


def _se(sample: Floats) -> float:
    return float(sample.std(ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else 0.0


def _round(table: BlockTable, keep: int, rng: np.random.Generator) -> tuple[float, float, bool]:
    """One estimate of the number of blocks and of the work, and whether it is a count."""
    roots = root_blocks(table)
    n_free = table.n_columns - roots.rank.astype(np.float64)
    nodes = _Nodes(
        roots.generator,
        roots.witness,
        np.full(len(roots), -1, dtype=np.int64),
        np.ones(len(roots)),
        roots.size * n_free,
    )
    n_blocks = work = 0.0
    exact = True
    while len(nodes.witness):
        n_blocks += float(nodes.weight.sum())
        work += float(nodes.weight @ nodes.work)
        if len(nodes.witness) > keep:
            exact = False
            nodes = _thin(nodes, keep, rng)
        nodes = _children(table, nodes)
    return n_blocks, work, exact


def _thin(nodes: _Nodes, keep: int, rng: np.random.Generator) -> _Nodes:
    """About `keep` of the nodes, by systematic sampling; weights make up for the others."""
    # What lies below a node grows with what it has: items and free columns not yet used.
    chance = nodes.weight * nodes.work
    chance = np.minimum(1.0, keep * chance / chance.sum())
    ticks = np.floor(np.cumsum(chance) + rng.random())
    which = np.flatnonzero(np.diff(ticks, prepend=0.0) > 0)
    return nodes.keep(which, nodes.weight[which] / chance[which])


def _children(table: BlockTable, nodes: _Nodes) -> _Nodes:
    n_cells = int(table.first_cell[-1])
    needed = min(n_cells, table.n_columns * (table.n_items // 2) + 1)
    room = max(needed, 1 << 14)
    scratch = (
        np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.n_items, dtype=np.uint32),
        np.zeros(table.n_items, dtype=np.uint32),
        np.zeros(table.n_columns, dtype=np.uint32),
    )
    parts: list[_Nodes] = []
    position = 0
    while position < len(nodes.witness):
        out = _Nodes(
            np.empty((room, nodes.generator.shape[1]), dtype=np.uint64),
            np.empty(room, dtype=np.uint32),
            np.empty(room, dtype=np.int64),
            np.empty(room),
            np.empty(room),
        )
        position, count = walk_tree_kernel.tree_children(
            table.cells, table.first_cell, table.label, table.members,
            table.members_start, table.bitset_row, table.bitsets, table.multiplicity,
            nodes.generator, nodes.witness, nodes.core, nodes.weight, position, *scratch,
            out.generator, out.witness, out.core, out.weight, out.work, needed,
        )  # fmt: skip
        parts.append(out.keep(np.arange(count), out.weight[:count]))
    return _Nodes(
        np.concatenate([part.generator for part in parts]),
        np.concatenate([part.witness for part in parts]),
        np.concatenate([part.core for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.work for part in parts]),
    )
