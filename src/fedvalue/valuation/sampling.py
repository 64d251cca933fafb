"""Shapley-CMI by sampled permutations, with exact truncation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.information.entropy import conditional_entropy

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats, Progress


@dataclass(frozen=True, slots=True, eq=False)
class PermutationSums:
    """Running mean and sum of squared deviations of antithetic pair means; merges with `+`."""

    n_pairs: int
    mean: Floats
    m2: Floats

    @classmethod
    def of(cls, samples: Floats) -> PermutationSums:
        """Sums of pair means, shape (n_pairs, n_parties)."""
        mean = samples.mean(axis=0)
        return cls(len(samples), mean, ((samples - mean) ** 2).sum(axis=0))

    def __add__(self, other: PermutationSums) -> PermutationSums:
        """Both samples together (Chan's update)."""
        n = self.n_pairs + other.n_pairs
        delta = other.mean - self.mean
        return PermutationSums(
            n,
            self.mean + delta * (other.n_pairs / n),
            self.m2 + other.m2 + delta**2 * (self.n_pairs * other.n_pairs / n),
        )

    @property
    def se(self) -> Floats:
        """Standard error of the mean; infinite for fewer than two pairs."""
        if self.n_pairs < 2:
            return np.full_like(self.mean, np.inf)
        return np.sqrt(self.m2 / (self.n_pairs - 1) / self.n_pairs)


@dataclass(frozen=True, slots=True, eq=False)
class PermutationValues:
    """Sampled values with their standard errors, in nats."""

    values: Floats
    se: Floats
    n_permutations: int
    total: float
    label_entropy: float


def sampled_values(
    counts: JointCounts,
    *,
    n_permutations: int = 5000,
    seed: int = 0,
    precision: float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> PermutationValues:
    """Shapley-CMI of every data party from random orders of the parties."""
    del executor, precision
    rng = np.random.default_rng(seed)
    p = counts.n_parties
    columns = list(counts.parties.T)
    known: dict[frozenset[int], float] = {}

    def h(coalition: list[int]) -> float:
        key = frozenset(coalition)
        if key not in known:
            known[key] = conditional_entropy(
                counts.label, [counts.task, *(columns[d] for d in coalition)], counts.count
            )
        return known[key]

    n_pairs = (n_permutations + 1) // 2
    samples = np.zeros((n_pairs, p))
    for i in range(n_pairs):
        order = rng.permutation(p)
        for one in (order, order[::-1]):
            before = h([])
            for k, d in enumerate(one):
                if before == 0:
                    break
                after = h(list(one[: k + 1]))
                samples[i, d] += (before - after) / 2
                before = after
        if progress is not None:
            progress(float(i + 1), float(n_pairs))
    sums = PermutationSums.of(samples)
    total = h([]) - h(list(range(p)))
    return PermutationValues(sums.mean, sums.se, 2 * n_pairs, total, h([]))
