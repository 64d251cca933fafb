"""The distance of a method's values from the truth: on one problem, and averaged over many.

A *share* is a party's part of the money: its value, or 0 where that is negative, over the sum; equal shares
where no value is positive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.paper.experiments.numbers import pearson
from fedvalue.valuation.shapley_indices import shapley_of

if TYPE_CHECKING:
    from fedvalue.benchmark.methods.method import Estimate, Method
    from fedvalue.benchmark.problem import Problem
    from fedvalue.benchmark.truth import Truth
    from fedvalue.typing import Floats

LEAST_TOTAL = 0.01
"""True total, in nats, below which a problem has nothing to share and is left out of the averages."""

N_BOOTSTRAP = 2000
SCORE_NAMES = ("tv", "pearson", "spearman", "noise", "lost", "total", "seconds")


@dataclass(frozen=True, slots=True)
class Scores:
    """One method on one problem.

    Args:
        tv: Total variation, ½ Σ |share − true share|: the part of the money that goes to the wrong party.
        pearson: Correlation of values with true values; None where one of them is constant.
        spearman: Correlation of their ranks, likewise.
        noise: Share of the noise party; None where there is none.
        lost: Shortfall of the method's best pair against the truly best pair, as a fraction of v(all).
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


def score(problem: Problem, truth: Truth, method: Method, estimate: Estimate, seconds: float) -> Scores:
    """Compare an estimate with the truth.

    Raises:
        InputError: The method left a party out, or gave a value that is no finite number.
    """
    from scipy.stats import rankdata

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
        pearson=pearson(values, true),
        spearman=pearson(rankdata(values), rankdata(true)),
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


def best_pair(values: Floats, game: Floats | None) -> int:
    """Mask of the two parties that a method would buy; all parties where there are fewer than three."""
    if len(values) < 3:
        return (1 << len(values)) - 1

    def worth(pair: tuple[int, int]) -> float:
        a, b = pair
        return float(values[a] + values[b] if game is None else game[1 << a | 1 << b])

    a, b = max(combinations(range(len(values)), 2), key=worth)
    return 1 << a | 1 << b


def lost_value(game: Floats, pair: int) -> float:
    """The gain of the best pair over the chosen pair, as a fraction of v(all)."""
    p = len(game).bit_length() - 1
    best = max((game[1 << a | 1 << b] for a, b in combinations(range(p), 2)), default=game[-1])
    return float((best - game[pair]) / game[-1]) if game[-1] > 0 else 0.0


def truth_against_itself(truth: Truth) -> float | None:
    """Total variation between the shares on two halves of the tested rows; None for a known game."""
    if truth.halves is None:
        return None
    first, second = (shares_of(shapley_of(half)) for half in truth.halves)
    return total_variation(first, second)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over problems with its standard error; None without data."""

    value: float | None
    se: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference of the total variation to the reference method, with a 95% interval.

    The interval is a bootstrap over data sets: their problems are drawn together, because splits of one data
    set resemble each other.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """One method over all problems that were scored.

    Args:
        name: The method.
        means: The mean of every score.
        by_source: Mean total variation on each data set.
        difference: Difference to the reference method on problems that both could value; None for the
            reference.
        failed: Problem -> why the method could not value it.
    """

    name: str
    means: Mapping[str, Mean]
    by_source: Mapping[str, float]
    difference: Difference | None
    failed: Mapping[str, str] = field(default_factory=dict)


def summarise(
    scores: Mapping[str, Mapping[str, Scores]],
    failed: Mapping[str, Mapping[str, str]],
    sources: Mapping[str, str],
    reference: str,
) -> tuple[MethodSummary, ...]:
    """One summary per method over some problems, the smallest total variation first.

    Args:
        scores: Method -> problem -> scores.
        failed: Method -> problem -> reason.
        sources: Problem -> data set, of the problems to summarise.
        reference: The method that the others are compared with.
    """
    if not sources:
        return ()
    base = scores.get(reference, {})
    summaries = []
    for name, every in scores.items():
        rows = {problem: row for problem, row in every.items() if problem in sources}
        reasons = {problem: why for problem, why in failed.get(name, {}).items() if problem in sources}
        means = {key: mean([getattr(row, key) for row in rows.values()]) for key in SCORE_NAMES}
        groups: dict[str, list[float]] = {}
        for problem, row in rows.items():
            groups.setdefault(sources[problem], []).append(row.tv)
        both = [problem for problem in rows if problem in base]
        difference = None
        if name != reference and both:
            difference = paired_difference(
                [rows[problem].tv - base[problem].tv for problem in both],
                [sources[problem] for problem in both],
            )
        by_source = {source: float(np.mean(tvs)) for source, tvs in groups.items()}
        summaries.append(MethodSummary(name, means, by_source, difference, reasons))
    summaries.sort(key=lambda row: np.inf if (tv := row.means["tv"].value) is None else tv)
    return tuple(summaries)


def mean(values: Sequence[float | None]) -> Mean:
    """Mean and standard error of the values that exist."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return Mean(None, None, 0)
    se = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
    return Mean(float(known.mean()), se, len(known))


def paired_difference(differences: Sequence[float], sources: Sequence[str]) -> Difference:
    """Mean difference, and its 95% interval by a bootstrap over data sets."""
    kinds, place = np.unique(sources, return_inverse=True)
    sums, counts = np.bincount(place, weights=differences), np.bincount(place)
    drawn = np.random.default_rng(0).integers(0, len(kinds), (N_BOOTSTRAP, len(kinds)))
    means: Floats = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Difference(float(np.mean(differences)), float(low), float(high))
