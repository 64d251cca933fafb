"""Half sums of weighted signs: the variance asked for, all whole numbers, few signs, nearly Gaussian."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from fedvalue.crypto.sign_sums import n_signs, sign_distribution, sign_levels, sign_variance, sign_weights

VARIANCES = [
    Fraction(1, 10),
    Fraction(3),
    Fraction(48),
    Fraction(49),
    Fraction(1000),
    Fraction(10**6),
    Fraction(10**10),
]


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_variance_is_at_least_what_was_asked_and_signs_are_few(variance):
    """Even numbers of signs per level: at most two signs of the last weight, or one of 96, too many."""
    levels = sign_levels(variance)
    weight = levels[-1][0]
    assert 0 <= sign_variance(levels) - variance < Fraction(weight**2, 2)
    assert n_signs(levels) < 700
    assert all(count % 2 == 0 for _, count in levels)
    assert all(after[0] <= 4 * before[0] for before, after in pairwise(levels))
    assert levels[0][0] == 1


def test_probabilities_are_those_of_every_combination_of_signs():
    """Two levels of two and four signs, by enumeration: all whole numbers between the extremes occur."""
    levels = ((1, 4), (2, 2))
    halves = [int(np.dot(signs, sign_weights(levels))) for signs in product((-1, 1), repeat=6)]
    assert all(total % 2 == 0 for total in halves)
    counted = np.bincount([total // 2 + 4 for total in halves]) / 64
    assert np.allclose(sign_distribution(levels), counted, atol=1e-15)
    assert (counted > 0).all()


@pytest.mark.parametrize("variance", VARIANCES[1:-2])
def test_the_distribution_has_the_stated_variance_for_any_number_of_draws(variance):
    levels = sign_levels(variance)
    for draws in (1, 2):
        masses = sign_distribution(levels, draws)
        at = np.arange(len(masses)) - (len(masses) - 1) / 2
        assert masses.sum() == pytest.approx(1.0, abs=1e-12)
        assert masses @ at**2 == pytest.approx(draws * float(sign_variance(levels)), rel=1e-12)


def test_no_comb_shows_where_weights_grow():
    """Levels 1, 4 and 16: steps of the log density within four deviations, against those of a Gaussian."""
    levels = sign_levels(Fraction(10_000))
    masses = sign_distribution(levels, 2)
    variance = float(2 * sign_variance(levels))
    at = np.arange(len(masses)) - (len(masses) - 1) / 2
    near = np.abs(at) < 4 * np.sqrt(variance)
    steps = np.diff(np.log(masses))[near[1:] & near[:-1]]
    due = -(at[1:] + at[:-1])[near[1:] & near[:-1]] / (2 * variance)
    # A comb would add 2 exp(-2 pi^2 2) = 1e-17 at most; tails of signs are lighter, in steps by some percent.
    assert np.abs(steps - due).max() < 0.1 * np.abs(due).max()
