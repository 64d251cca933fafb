"""Whole numbers as half of a weighted sum of random signs, with public weights.

Such noise is nearly Gaussian, and every sign may be a product of two, each of them drawn by somebody else
(decision 0326).

Signs come in levels of growing weight. A level is fine enough for the next one: half sums of 64 signs of
weight w have a standard deviation of 4 w, and the next weight is at most that, so no comb shows. Numbers of
signs are even, so the half sum is a whole number; with weight 1 among them, all whole numbers between the
extremes occur.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Levels: TypeAlias = tuple[tuple[int, int], ...]
"""Weight and number of the signs of each level."""

_BELOW = 64
"""Signs of every level but the last."""
_LAST, _MOST_LAST = 96, 192
"""Signs that the last level is to have, at least about, and at most."""


def sign_levels(variance: Fraction) -> Levels:
    """Levels whose half sum has at least this variance, with few signs: a few hundred for any variance."""
    rest, weight = 4 * variance, 1
    levels = []
    while rest > _MOST_LAST * weight**2:
        levels.append((weight, _BELOW))
        rest -= _BELOW * weight**2
        weight = max(weight, min(4 * weight, math.isqrt(math.floor(rest / _LAST))))
    count = max(1, math.ceil(rest / weight**2))
    return (*levels, (weight, count + count % 2))


def n_signs(levels: Levels) -> int:
    """Signs of one number."""
    return sum(count for _, count in levels)


def sign_weights(levels: Levels) -> NDArray[np.int64]:
    """The weight of every sign."""
    return np.repeat([w for w, _ in levels], [count for _, count in levels]).astype(np.int64)


def sign_variance(levels: Levels) -> Fraction:
    """Variance of half of the weighted sum."""
    return Fraction(sum(count * weight**2 for weight, count in levels), 4)


def sign_distribution(levels: Levels, draws: int = 1) -> NDArray[np.float64]:
    """Probabilities of all values of the sum of several draws, from the lowest to the highest."""
    total = np.ones(1)
    for weight, one in levels:
        count = draws * one
        spread = np.zeros(len(total) + weight * count)
        for k in range(count + 1):
            spread[k * weight : k * weight + len(total)] += math.comb(count, k) / 2**count * total
        total = spread
    return total
