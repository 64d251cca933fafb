"""The exact privacy loss: never below the truth, and close to it."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fedvalue.crypto.sign_sums import sign_distribution, sign_levels
from fedvalue.protocol.privacy import Privacy
from fedvalue.protocol.privacy_loss import delta_of, gaussian_loss, shift_loss


def of_gaussian(epsilon: float, mu: float) -> float:
    """Of the Gaussian mechanism (Balle and Wang 2018, theorem 8)."""
    from scipy import stats

    upper, lower = stats.norm.logcdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
    return math.exp(upper) - math.exp(epsilon + lower)


def by_enumeration(epsilon: float, noises: list[np.ndarray]) -> float:
    """Every result of independent cells, the first table with P, the second with P moved by one."""
    total = 0.0
    for values in product(*(range(len(noise) + 1) for noise in noises)):
        p = math.prod(np.append(noise, 0.0)[v] for noise, v in zip(noises, values, strict=True))
        q = math.prod(np.insert(noise, 0, 0.0)[v] for noise, v in zip(noises, values, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


def discrete(variance: float, reach: int) -> np.ndarray:
    masses = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    return masses / masses.sum()


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.027), (1.0, 0.22), (3.0, 0.6), (10.0, 1.6)])
@pytest.mark.parametrize("n_columns", [10, 30, 500])
def test_many_cells_of_wide_noise_lose_what_a_gaussian_mechanism_does(epsilon, mu, n_columns):
    """Within a hundredth, two groups with different variances; not less where there are many cells."""
    cells = (2 * n_columns, n_columns * (n_columns - 1))
    parts = (0.75, 0.25)
    groups = [gaussian_loss(n / (part * mu**2), n) for n, part in zip(cells, parts, strict=True)]
    exact = of_gaussian(epsilon, mu)
    # The lattice of few cells is not the continuous mechanism: within a hundredth either way.
    assert delta_of(epsilon, groups) == pytest.approx(exact, rel=0.01)
    if n_columns > 2:
        assert delta_of(epsilon, groups) >= exact


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_a_few_cells_of_little_noise_lose_what_enumeration_says(epsilon):
    """Discrete Gaussians and signs, alone and together; never less, at most a thousandth of delta more."""
    narrow, wider = discrete(0.8, 9), discrete(1.5, 12)
    signs = sign_distribution(((1, 8),))
    for groups, noises in (
        ([gaussian_loss(0.8, 2)], [narrow, narrow]),
        ([gaussian_loss(0.8, 1), gaussian_loss(1.5, 2)], [narrow, wider, wider]),
        ([shift_loss(signs, 2)], [signs, signs]),
        ([shift_loss(signs, 2), gaussian_loss(1.5, 1)], [signs, signs, wider]),
    ):
        exact = by_enumeration(epsilon, noises)
        found = delta_of(epsilon, groups)
        assert exact <= found <= exact * 1.001 + 1e-10


def test_results_that_the_other_table_cannot_give_are_in_delta():
    """One cell, two signs: -1, 0, 1 with 1/4, 1/2, 1/4. Moved by one, -1 is impossible."""
    loss = shift_loss(sign_distribution(((1, 2),)), 1)
    assert loss.infinite == 0.25
    assert delta_of(5.0, [loss]) == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("n_columns", [2, 15])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_signs_lose_what_their_sampled_losses_say(epsilon, n_columns):
    """Two hundred thousand sampled sums of losses, within six standard errors.

    At half a deviation of the loss, where delta is large enough to sample.
    """
    rng = np.random.default_rng(4)
    privacy = Privacy(Fraction(epsilon), 10_000, n_columns, 3)
    masses = sign_distribution(privacy.label_levels, 2)
    loss = shift_loss(masses, 2 * n_columns)
    drawn = rng.choice(len(loss.losses), (200_000, 2 * n_columns), p=loss.masses / loss.masses.sum())
    whole = loss.losses[drawn].sum(axis=1)
    at = 0.5 * float(whole.std())
    parts = np.maximum(0.0, -np.expm1(at - whole))
    assert delta_of(at, [loss]) == pytest.approx(parts.mean(), abs=6 * parts.std() / math.sqrt(len(parts)))


@pytest.mark.parametrize("shares", [1, 3])
@pytest.mark.parametrize("n_columns", [1, 2, 7, 60])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "4", "10"])
def test_the_noise_of_a_run_keeps_its_epsilon_and_wastes_little(epsilon, n_columns, shares):
    """A quarter more of rho would break the promise, except where a handful of signs is the least."""
    privacy = Privacy(Fraction(epsilon), 10_000, n_columns, shares)
    groups = privacy._noise.losses()
    assert delta_of(float(privacy.epsilon), groups) <= privacy.delta
    gaussian = math.sqrt(2 * float(privacy.rho))
    if shares == 1 or float(privacy.epsilon) < 4:
        assert of_gaussian(float(privacy.epsilon), gaussian * 1.12) > privacy.delta


def test_more_noise_never_loses_more():
    found = [delta_of(1.0, [gaussian_loss(v, 10), gaussian_loss(9 * v, 20)]) for v in (150, 200, 300, 500)]
    assert found == sorted(found, reverse=True)


def test_signs_are_levels_of_half_the_variance_that_nobody_may_know():
    privacy = Privacy(Fraction(1), 10_000, 5, 3)
    assert privacy.label_levels == sign_levels(privacy._noise._label_needed / 2)
