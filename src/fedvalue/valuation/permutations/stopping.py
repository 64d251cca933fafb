"""Running moments of samples, and rules that say when they are enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from fedvalue.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class RunningMoments:
    """Number, mean and sum of squared deviations of sample vectors; merges with `+`."""

    n: int
    mean: Floats
    m2: Floats

    @classmethod
    def empty(cls, length: int) -> RunningMoments:
        """No samples yet."""
        return cls(0, np.zeros(length), np.zeros(length))

    @classmethod
    def of(cls, sample: Floats) -> RunningMoments:
        """One sample."""
        return cls(1, np.asarray(sample, dtype=np.float64), np.zeros(len(sample)))

    def __add__(self, other: RunningMoments) -> RunningMoments:
        """Both together (Chan, Golub and LeVeque's update)."""
        n = self.n + other.n
        if n == 0:
            return self
        delta = other.mean - self.mean
        return RunningMoments(
            n,
            self.mean + delta * (other.n / n),
            self.m2 + other.m2 + delta**2 * (self.n * other.n / n),
        )

    @property
    def se(self) -> Floats:
        """Standard error of the mean; infinite for fewer than two samples."""
        if self.n < 2:
            return np.full_like(self.mean, np.inf)
        return np.sqrt(self.m2 / (self.n - 1) / self.n)


class StopRule(Protocol):
    """Says whether the samples so far are enough."""

    def satisfied(self, moments: RunningMoments) -> bool:
        """True to stop."""


@dataclass(frozen=True, slots=True)
class FixedNumber:
    """Stop after a number of samples."""

    n: int

    def satisfied(self, moments: RunningMoments) -> bool:
        """True when as many samples are there."""
        return moments.n >= self.n


@dataclass(frozen=True, slots=True)
class Precision:
    """Stop when every standard error is at most a fraction of the total value.

    Args:
        fraction: Of the sum of the means.
        at_least: Samples before which no variance is trusted.
    """

    fraction: float
    at_least: int = 100

    def satisfied(self, moments: RunningMoments) -> bool:
        """True when the largest standard error is small enough."""
        if moments.n < self.at_least:
            return False
        return bool(moments.se.max() <= self.fraction * abs(moments.mean.sum()))
