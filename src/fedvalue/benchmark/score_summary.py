"""Scores over many problems: means with standard errors, and differences between methods with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedvalue.benchmark.scores import Scores
    from fedvalue.typing import Floats

N_BOOTSTRAP = 2000
SCORE_NAMES = ("tv", "pearson", "spearman", "noise", "lost", "total", "seconds")


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over problems with its standard error; None where nothing is known of it."""

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
        means: Of every score.
        by_source: Mean total variation on each data set.
        difference: To the reference method on the problems that both could value; None for the reference.
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
    reference: str | None,
) -> list[MethodSummary]:
    """One summary per method, the smallest total variation first.

    Args:
        scores: Method -> problem -> scores.
        failed: Method -> problem -> reason.
        sources: Problem -> data set.
        reference: The method that the others are compared with.
    """
    base = scores.get(reference or "", {})
    summaries = []
    for name, rows in scores.items():
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
        summaries.append(MethodSummary(name, means, by_source, difference, dict(failed.get(name, {}))))
    return sorted(summaries, key=lambda one: np.inf if (tv := one.means["tv"].value) is None else tv)


def mean(values: Sequence[float | None]) -> Mean:
    """Mean and standard error of what is known."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return Mean(None, None, 0)
    se = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
    return Mean(float(known.mean()), se, len(known))


def paired_difference(differences: Sequence[float], sources: Sequence[str], seed: int = 0) -> Difference:
    """Mean difference, and its 95% interval when data sets are drawn again with replacement."""
    kinds = sorted(set(sources))
    sums = np.array(
        [sum(d for d, s in zip(differences, sources, strict=True) if s == kind) for kind in kinds]
    )
    counts = np.array([sum(s == kind for s in sources) for kind in kinds])
    drawn = np.random.default_rng(seed).integers(0, len(kinds), (N_BOOTSTRAP, len(kinds)))
    means: Floats = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Difference(float(np.mean(differences)), float(low), float(high))
