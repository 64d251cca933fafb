"""The sampler against the distributions of SciPy. Keys are fixed, so a test passes always or never."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedvalue.crypto.discrete_laplace import discrete_laplace
from fedvalue.errors import InputError

KEY = bytes(range(32))


def test_on_a_fine_grid_it_is_the_laplace_distribution():
    """Kolmogorov-Smirnov; the grid of 1/50,000 of the scale is far below the test's resolution of 1/141."""
    from scipy import stats

    scale = Fraction(100_001, 2)
    found = np.array(discrete_laplace(KEY, 20_000, scale)) / float(scale)
    assert stats.kstest(found, "laplace").pvalue > 0.001


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(3, 2), Fraction(7)])
def test_on_a_coarse_grid_it_is_the_discrete_one(scale):
    """Chi-square against P(k) = tanh(1/2s) exp(-|k|/s), outer cells joined to at least 5 expected."""
    from scipy import stats

    n = 20_000
    found = np.array(discrete_laplace(KEY, n, scale))
    expected = stats.dlaplace(float(1 / scale))
    top = int(expected.ppf(1 - 10 / n))
    cells = np.arange(-top, top + 1)
    observed = np.array([(found == k).sum() for k in cells])
    observed[0], observed[-1] = (found <= -top).sum(), (found >= top).sum()
    chances = expected.pmf(cells)
    chances[0] = chances[-1] = expected.cdf(-top)
    assert stats.chisquare(observed, n * chances / chances.sum()).pvalue > 0.001


def test_the_key_alone_decides():
    first = discrete_laplace(KEY, 50, Fraction(1000))
    assert discrete_laplace(KEY, 50, Fraction(1000)) == first
    assert discrete_laplace(bytes(32), 50, Fraction(1000)) != first
    assert discrete_laplace(KEY, 10, Fraction(1000)) == first[:10]


def test_numbers_beyond_the_precision_of_floating_point_are_whole():
    found = discrete_laplace(KEY, 20, Fraction(10**30))
    assert max(abs(k) for k in found) > 2**64
    assert any(k % 2 for k in found)


@pytest.mark.parametrize(
    ("key", "scale"), [(bytes(31), Fraction(1)), (KEY, Fraction(0)), (KEY, Fraction(-1))]
)
def test_a_wrong_key_or_scale_is_refused(key, scale):
    with pytest.raises(InputError):
        discrete_laplace(key, 1, scale)
