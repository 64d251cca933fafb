"""How far a method's values are from the truth, for one problem.

A *share* is a party's part of the money: its value, or 0 where that is negative, over the sum; equal shares
where no value is positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.valuation.shapley_indices import shapley_of

if TYPE_CHECKING:
    from fedvalue.benchmark.methods.method import Estimate, Method
    from fedvalue.benchmark.problem import Problem
    from fedvalue.benchmark.truth import Truth
    from fedvalue.typing import Floats

LEAST_TOTAL = 0.01
"""True total, in nats, below which a problem has nothing to share and is left out of the averages."""


@dataclass(frozen=True, slots=True)
class Scores:
    """One method on one problem.

    Args:
        tv: Total variation, ½ Σ |share − true share|: the part of the money that goes to the wrong party.
        pearson: Correlation of values with true values; None where one of them is constant.
        spearman: Correlation of their ranks, likewise.
        noise: Share of the noise party; None where there is none.
        lost: What the method's best pair brings less than the truly best pair, as a part of v(all).
        total: Total of the values over the true total; None for values that are not in nats.
        seconds: CPU time of the valuation.
    """

    tv: float
    pearson: float | None
    spearman: float | None
    noise: float | None
    lost: float
    total: float | None
    seconds: float

    def to_dict(self) -> dict[str, float | None]:
        """The scores by name."""
        return asdict(self)


def score(problem: Problem, truth: Truth, method: Method, estimate: Estimate, seconds: float) -> Scores:
    """Compare an estimate with the truth.

    Raises:
        InputError: The method left a party out, or gave a value that is no finite number.
    """
    names = problem.table.names
    absent = [name for name in names if name not in estimate.values]
    if absent:
        raise InputError(f"{method.name} gave no value to {', '.join(absent)}")
    values = np.array([estimate.values[name] for name in names], dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"{method.name} gave a value that is not finite: {values.tolist()}")
    true = shapley_of(truth.game)
    shares = shares_of(values)
    return Scores(
        tv=total_variation(shares, shares_of(true)),
        pearson=correlation(values, true),
        spearman=correlation(ranks(values), ranks(true)),
        noise=None if problem.noise is None else float(shares[names.index(problem.noise)]),
        lost=lost_value(truth.game, best_pair(values, estimate.game)),
        total=float(values.sum() / truth.game[-1]) if method.in_nats and truth.game[-1] > 0 else None,
        seconds=seconds,
    )


def shares_of(values: Floats) -> Floats:
    """Each party's part of the money."""
    positive = np.maximum(values, 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full(len(values), 1.0 / len(values))


def total_variation(shares: Floats, others: Floats) -> float:
    """½ Σ |a − b|."""
    return float(np.abs(shares - others).sum() / 2)


def correlation(a: Floats, b: Floats) -> float | None:
    """Pearson's correlation; None where one side is constant."""
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(np.clip(a @ b / norm, -1.0, 1.0)) if norm > 0 else None


def ranks(values: Floats) -> Floats:
    """Ranks from 1, ties sharing their mean."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], dtype=np.float64)


def best_pair(values: Floats, game: Floats | None) -> int:
    """Mask of the two parties that a method would buy; all parties where there are fewer than three."""
    if len(values) < 3:
        return (1 << len(values)) - 1
    pairs: Sequence[int] = [1 << a | 1 << b for a, b in combinations(range(len(values)), 2)]
    if game is None:
        return max(pairs, key=lambda mask: sum(values[k] for k in range(len(values)) if mask >> k & 1))
    return max(pairs, key=lambda mask: game[mask])


def lost_value(game: Floats, pair: int) -> float:
    """What the best pair brings beyond the pair that was bought, as a part of what all bring."""
    p = len(game).bit_length() - 1
    best = max((game[1 << a | 1 << b] for a, b in combinations(range(p), 2)), default=game[-1])
    return float((best - game[pair]) / game[-1]) if game[-1] > 0 else 0.0


def truth_against_itself(truth: Truth) -> float | None:
    """Total variation between the shares on two halves of the tested rows; None for a known game."""
    if truth.halves is None:
        return None
    first, second = (shares_of(shapley_of(half)) for half in truth.halves)
    return total_variation(first, second)
