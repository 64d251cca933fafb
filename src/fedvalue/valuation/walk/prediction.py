"""What an exact walk will cost, before it starts.

The distinct blocks of a table form a tree, of which a part is sampled (`walk/tree.py`). Several independent
rounds give the standard error. A tree that never has to be thinned out is counted exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.valuation.walk.regions import REGION_BLOCKS
from fedvalue.valuation.walk.table import block_table
from fedvalue.valuation.walk.tree import sample_tree

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.table import BlockTable

# Measured on one core of a 2.4 GHz EPYC (Breast, Credit, Music; see benchmarks/bench_engine.py): what a
# distinct block costs, with its visits in several regions and with their choice, and what one item in one
# column of it costs.
SECONDS_PER_BLOCK = 3.7e-6
SECONDS_PER_WORK = 1.2e-9
# Regions are walked apart from each other; only the first steps, to find them, are one worker's.
SERIAL_SHARE = 0.02
# Bytes per block of a region, with its hash slots and some awaited parties.
BYTES_PER_BLOCK = 120


@dataclass(frozen=True, slots=True)
class WalkPrediction:
    """Predicted cost of an exact walk.

    Args:
        seconds: Predicted time.
        seconds_se: Standard error of that, from the sampling. The distribution has a long upper tail.
        n_blocks: Predicted number of distinct impure blocks.
        n_blocks_se: Its standard error.
        work: Predicted items times free columns, for `exact_values(predicted_work=...)`.
        memory_bytes: Predicted memory for the blocks of the regions that are walked at a time.
        exact: Whether the tree was counted rather than sampled; the standard errors are then 0.
    """

    seconds: float
    seconds_se: float
    n_blocks: float
    n_blocks_se: float
    work: float
    memory_bytes: float
    exact: bool


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
        sample = sample_tree(table, table.n_columns, keep, rng)
        found.append((sample.n_blocks, sample.work))
        if exact := sample.exact:
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
        memory_bytes=min(float(blocks.mean()), float(workers * REGION_BLOCKS)) * BYTES_PER_BLOCK,
        exact=exact,
    )


def expected_work(table: BlockTable, *, seed: int = 0, keep: int = 400, rounds: int = 3) -> float:
    """A quick estimate of the work of a walk, for the progress of one that has already started."""
    rng = np.random.default_rng(seed)
    return float(np.mean([sample_tree(table, table.n_columns, keep, rng).work for _ in range(rounds)]))


def _se(sample: Floats) -> float:
    return float(sample.std(ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else 0.0
