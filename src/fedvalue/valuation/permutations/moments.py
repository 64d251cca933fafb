"""Running moments of samples: partial results of workers merge with `+`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    def of(cls, samples: Floats) -> RunningMoments:
        """The moments of some samples, one per row."""
        mean = samples.mean(axis=0)
        return cls(len(samples), mean, ((samples - mean) ** 2).sum(axis=0))

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
