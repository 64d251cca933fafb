"""The exact privacy loss of independent noise in many cells, computed on a grid.

P and Q are the distributions of a result for two neighbouring tables. The loss of a result is
L = ln(P / Q), and delta(epsilon) = E_P[max(0, 1 - exp(epsilon - L))]. Losses of independent cells add up, so
their distributions are convolved (Koskela, Jälkö and Honkela 2020). Nothing here is below the truth:

- A loss between two points of the grid is divided between them so that P and Q both keep their mass
  (Doroshenko et al. 2022): whoever forgets which half it was has the exact pair again.
- A loss above the grid counts as infinite, one below as its lowest point.
- What a convolution carries over the top of the grid is bounded by its moment generating function, and added.
- `SLACK` covers rounding errors of the transforms, `INEXACT` the approximations of `gaussian_loss`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SLACK = 1e-12
"""Added to delta: transforms of probabilities are right to about 1e-16 per point."""

INEXACT = 1e-5
"""Relative, added to delta: see `gaussian_loss`."""

_POINTS = 1 << 14
_DEVIATIONS = 12.0
"""Half the width of the grid in standard deviations of the whole loss."""

_FINE = 1 << 10
"""Points per standard deviation of a Gaussian loss, at most."""

_SMOOTH = 4.0
"""Variance from which on sums of discrete Gaussians are discrete Gaussians but for a factor of 1 + 1e-15."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A distribution of losses under P, for a number of independent cells each.

    Args:
        losses: Finite losses.
        masses: Their probabilities.
        infinite: Probability of results that Q cannot give.
        times: Number of cells.
    """

    losses: Vector
    masses: Vector
    infinite: float = 0.0
    times: int = 1

    @property
    def mean(self) -> float:
        """Of all cells together."""
        return self.times * _sum(self.losses, self.masses)

    @property
    def variance(self) -> float:
        """Of all cells together."""
        return self.times * (_sum(self.losses**2, self.masses) - _sum(self.losses, self.masses) ** 2)


def _sum(values: Vector, masses: Vector) -> float:
    """Not by BLAS: it would use all cores for sums of a millisecond, and each its own order of adding up."""
    return float((values * masses).sum())


def gaussian_loss(variance: float, n_cells: int) -> Loss:
    """Of `n_cells` cells with discrete Gaussian noise, each moved by one.

    The loss is (n - 2 S) / (2 variance), linear in the sum S of the n cells' noise. S is a discrete Gaussian
    of n times the variance, but for a factor 1 + 4 exp(-pi^2 variance) per cell; below `_SMOOTH` it is
    convolved. Where S has many values per standard deviation, blocks of b values get the largest loss of the
    block and the density at its middle: right to a relative 6 (b / deviation)^2 within 12 deviations.
    """
    if variance < _SMOOTH:
        reach = math.ceil(_DEVIATIONS * math.sqrt(variance)) + 2
        cell = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
        masses: Vector = np.ones(1)
        for _ in range(n_cells):
            masses = np.asarray(np.convolve(masses, cell / cell.sum()), dtype=np.float64)
        sums = np.arange(len(masses), dtype=np.float64) - n_cells * reach
        return Loss((n_cells - 2 * sums) / (2 * variance), masses)
    deviation = math.sqrt(n_cells * variance)
    block = max(1, math.floor(deviation / _FINE))
    reach = math.ceil(_DEVIATIONS * deviation / block)
    sums = block * np.arange(-reach, reach + 1, dtype=np.float64)
    masses = np.exp(-(sums**2) / (2 * n_cells * variance))
    return Loss((n_cells - 2 * sums + block - 1) / (2 * variance), masses / masses.sum())


def shift_loss(distribution: Vector, n_cells: int) -> Loss:
    """Of `n_cells` cells moved by one, each with noise of this distribution over consecutive numbers."""
    here, there = distribution[1:], distribution[:-1]
    finite = (here > 0) & (there > 0)
    infinite = float(distribution[0] + here[~finite].sum())
    return Loss(np.log(here[finite]) - np.log(there[finite]), here[finite], infinite, n_cells)


def delta_of(epsilon: float, groups: Sequence[Loss]) -> float:
    """The smallest delta for which (epsilon, delta) holds, never below the truth.

    Args:
        epsilon: Of the promise.
        groups: Independent cells, by kind of noise.
    """
    mean, deviation = sum(g.mean for g in groups), math.sqrt(sum(g.variance for g in groups))
    top = abs(mean) + _DEVIATIONS * deviation
    step = 2 * top / _POINTS
    # Half of what is best for Gaussian losses: tails of signs are heavier.
    tilt = (top - mean) / (2 * deviation**2)
    whole = np.ones(_POINTS // 2 + 1, dtype=np.complex128)
    log_moment, log_finite = 0.0, 0.0
    for group in groups:
        masses, infinite = _on_grid(group, step)
        whole *= np.fft.rfft(masses) ** group.times
        log_moment += group.times * math.log(_sum(np.exp(tilt * _points(step)), masses))
        log_finite += group.times * math.log1p(-infinite)
    found = np.maximum(np.fft.irfft(whole, _POINTS), 0.0)
    beyond = np.maximum(0.0, -np.expm1(epsilon - _points(step)))
    carried = math.exp(min(0.0, log_moment - tilt * top))
    return _sum(beyond, found) * (1 + INEXACT) - math.expm1(log_finite) + carried + SLACK


def _points(step: float) -> Vector:
    """The losses of the grid, in the order of a circular transform."""
    return np.asarray(step * np.fft.fftfreq(_POINTS, 1 / _POINTS), dtype=np.float64)


def _on_grid(group: Loss, step: float) -> tuple[Vector, float]:
    """The masses of one cell on the grid, and what is infinite."""
    at = np.maximum(group.losses / step, -_POINTS // 2)
    below = np.floor(at).astype(np.int64)
    inside = below + 1 < _POINTS // 2
    infinite = group.infinite + float(group.masses[~inside].sum())
    at, below, masses = at[inside], below[inside], group.masses[inside]
    upper = masses * np.expm1(-(at - below) * step) / math.expm1(-step)
    grid = np.bincount(below % _POINTS, masses - upper, _POINTS)
    return np.asarray(grid + np.bincount((below + 1) % _POINTS, upper, _POINTS), dtype=np.float64), infinite
