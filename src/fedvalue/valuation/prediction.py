"""What an exact walk will cost, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts


@dataclass(frozen=True, slots=True)
class WalkPrediction:
    """Predicted cost of an exact walk.

    Args:
        seconds: Predicted time on `n_workers` cores.
        seconds_se: Its standard error.
        n_blocks: Predicted number of distinct blocks.
    """

    seconds: float
    seconds_se: float
    n_blocks: float


def predict_walk(counts: JointCounts, *, n_workers: int | None = None, seed: int = 0) -> WalkPrediction:
    """Predict the cost of `exact_values`."""
    del n_workers, seed
    n_blocks = float(min(2.0 ** min(counts.n_parties, 60), 1e18))
    return WalkPrediction(seconds=n_blocks * 1e-4, seconds_se=n_blocks * 1e-4, n_blocks=n_blocks)
