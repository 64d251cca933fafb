"""The cost of an exact walk, predicted before it starts.

The tree of blocks is sampled (`block_tree`) in several independent rounds. A tree of which nothing had to be
left out is counted exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.walk.block_tree import sample_tree

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.block_table import BlockTable

SECONDS_PER_BLOCK = 3.7e-6
"""Cost of a distinct block, including its visits in several regions and the choice of the regions. Measured
on one core of a 2.4 GHz EPYC (Breast, Credit, Music; see benchmarks/bench_engine.py)."""

SECONDS_PER_WORK = 1.2e-9
"""Cost of one item in one column of a block; measured likewise."""

SERIAL_SHARE = 0.02
"""Part of a walk that runs on one worker: the first steps, which find the regions."""


@dataclass(frozen=True, slots=True)
class WalkPrediction:
    """Predicted cost of an exact walk.

    Args:
        seconds: Predicted time.
        n_blocks: Predicted number of distinct impure blocks.
        work: Predicted items times free columns.
        exact: Whether the blocks were counted rather than sampled.
    """

    seconds: float
    n_blocks: float
    work: float
    exact: bool


def sample_walk(
    table: BlockTable,
    *,
    n_workers: int = 1,
    seed: int = 0,
    keep: int = 800,
    rounds: int = 6,
    time_limit: float = 2.0,
) -> WalkPrediction:
    """Predict the cost of a walk from a sample of its blocks, in well under a second for most tables.

    Args:
        table: The table.
        n_workers: Workers of the walk.
        seed: Of the sampling.
        keep: Nodes kept per depth.
        rounds: Independent rounds; at least 2 are made, the others while there is time.
        time_limit: Seconds after which no further round starts.
    """
    start = monotonic()
    sampled: list[tuple[float, float]] = []
    exact = False
    while len(sampled) < max(2, rounds) and (len(sampled) < 2 or monotonic() - start < time_limit):
        sample = sample_tree(table, table.n_columns, keep, seed=seed, stream=len(sampled))
        sampled.append((sample.n_blocks, sample.work))
        if exact := sample.exact:
            break
    return predicted_walk(np.array(sampled), n_workers, exact=exact)


def predicted_walk(sampled: Floats, n_workers: int, *, exact: bool) -> WalkPrediction:
    """The cost of a walk from estimates of its blocks and its work, one row per estimate."""
    blocks, works = sampled.T.astype(np.float64)
    seconds = (SECONDS_PER_BLOCK * blocks + SECONDS_PER_WORK * works) * (
        SERIAL_SHARE + (1 - SERIAL_SHARE) / n_workers
    )
    return WalkPrediction(
        seconds=float(seconds.mean()),
        n_blocks=float(blocks.mean()),
        work=float(works.mean()),
        exact=exact,
    )
