"""The sampler against the distributions of SciPy. Keys are fixed, so a test passes always or never."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedvalue.crypto.discrete_gaussian import discrete_gaussian
from fedvalue.errors import InputError

KEY = bytes(range(32))


def test_on_a_fine_grid_it_is_the_normal_distribution():
    """Kolmogorov-Smirnov; the grid of 1/50,000 of the deviation is far below a resolution of 1/141."""
    from scipy import stats

    variance = Fraction(100_001, 2) ** 2
    found = np.array(discrete_gaussian(KEY, 20_000, variance)) / float(variance) ** 0.5
    assert stats.kstest(found, "norm").pvalue > 0.001


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(3, 2), Fraction(49)])
def test_on_a_coarse_grid_it_is_the_discrete_one(variance):
    """Chi-square against P(k) proportional to exp(-k^2 / 2 variance), outer cells joined."""
    from scipy import stats

    n = 20_000
    found = np.array(discrete_gaussian(KEY, n, variance))
    top = max(1, int(2.5 * float(variance) ** 0.5))
    wide = np.arange(-40 * top, 40 * top + 1)
    chances = np.exp(-(wide**2) / (2 * float(variance)))
    chances /= chances.sum()
    clipped = np.clip(wide, -top, top)
    expected = np.bincount(clipped + top, weights=n * chances)
    observed = np.bincount(np.clip(found, -top, top) + top, minlength=len(expected))
    assert stats.chisquare(observed, expected).pvalue > 0.001


def test_the_key_alone_decides():
    first = discrete_gaussian(KEY, 50, Fraction(1000))
    assert discrete_gaussian(KEY, 50, Fraction(1000)) == first
    assert discrete_gaussian(bytes(32), 50, Fraction(1000)) != first
    assert discrete_gaussian(KEY, 10, Fraction(1000)) == first[:10]


def test_a_checkpoint_stops_it_between_numbers_and_changes_none():
    calls: list[int] = []
    drawn = discrete_gaussian(KEY, 10_000, Fraction(3), lambda: calls.append(1))
    assert drawn == discrete_gaussian(KEY, 10_000, Fraction(3))
    assert len(calls) >= 3

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        discrete_gaussian(KEY, 10, Fraction(3), stop)


def test_numbers_beyond_the_precision_of_floating_point_are_whole():
    found = discrete_gaussian(KEY, 20, Fraction(10**50))
    assert max(abs(k) for k in found) > 2**64
    assert any(k % 2 for k in found)


@pytest.mark.parametrize(
    ("key", "variance"), [(bytes(31), Fraction(1)), (KEY, Fraction(0)), (KEY, Fraction(-1))]
)
def test_a_wrong_key_or_variance_is_refused(key, variance):
    with pytest.raises(InputError):
        discrete_gaussian(key, 1, variance)
