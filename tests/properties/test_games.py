"""The axioms of the Shapley value, for arbitrary games."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.valuation.permutations.sampling import RunningMoments
from tests import naive
from tests.games.exact import shapley_of_table


@st.composite
def games(draw: st.DrawFn) -> np.ndarray:
    n = draw(st.integers(1, 6))
    values = draw(st.lists(st.floats(-100, 100), min_size=2**n, max_size=2**n))
    return np.array([0.0, *values[1:]])


def n_players(values: np.ndarray) -> int:
    return len(values).bit_length() - 1


@given(games())
def test_values_equal_the_definition(values: np.ndarray) -> None:
    n = n_players(values)
    plain = {frozenset(k for k in range(n) if mask >> k & 1): float(v) for mask, v in enumerate(values)}
    np.testing.assert_allclose(shapley_of_table(values), naive.shapley(plain, n), rtol=0, atol=1e-10)


@given(games())
def test_efficiency(values: np.ndarray) -> None:
    """What everybody is worth together is shared out, no more and no less."""
    np.testing.assert_allclose(shapley_of_table(values).sum(), values[-1] - values[0], rtol=0, atol=1e-10)


@given(games(), st.floats(-3, 3))
def test_linearity(values: np.ndarray, factor: float) -> None:
    other = np.roll(values, 1)
    other[0] = 0.0
    both = shapley_of_table(values + factor * other)
    np.testing.assert_allclose(
        both, shapley_of_table(values) + factor * shapley_of_table(other), rtol=0, atol=1e-9
    )


@given(games())
def test_a_player_who_adds_nothing_gets_nothing(values: np.ndarray) -> None:
    """A dummy joins as the last player."""
    found = shapley_of_table(np.concatenate([values, values]))
    assert abs(found[-1]) < 1e-12
    np.testing.assert_allclose(found[:-1], shapley_of_table(values), rtol=0, atol=1e-10)


@given(games(), st.randoms(use_true_random=False))
def test_renaming_players_renames_values(values: np.ndarray, random: object) -> None:
    n = n_players(values)
    names = list(range(n))
    random.shuffle(names)  # type: ignore[attr-defined]
    renamed = np.empty_like(values)
    for mask in range(len(values)):
        renamed[sum(1 << names[k] for k in range(n) if mask >> k & 1)] = values[mask]
    np.testing.assert_allclose(shapley_of_table(renamed)[names], shapley_of_table(values), rtol=0, atol=1e-10)


samples = st.lists(st.floats(-5, 5), max_size=5)


@given(samples, samples, samples)
def test_moments_merge_in_any_grouping(a: list[float], b: list[float], c: list[float]) -> None:
    def moments(xs: list[float]) -> RunningMoments:
        total = RunningMoments.empty(1)
        for x in xs:
            total = total + RunningMoments.of(np.array([[x]]))
        return total

    left = (moments(a) + moments(b)) + moments(c)
    right = moments(a) + (moments(b) + moments(c))
    assert left.n == right.n
    np.testing.assert_allclose(left.mean, right.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(left.m2, right.m2, rtol=0, atol=1e-10)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_moments_of_many_samples_are_those_of_their_sum(xs: list[float]) -> None:
    one_by_one = RunningMoments.empty(1)
    for x in xs:
        one_by_one = one_by_one + RunningMoments.of(np.array([[x]]))
    at_once = RunningMoments.of(np.array(xs)[:, None])
    assert at_once.n == one_by_one.n
    np.testing.assert_allclose(at_once.mean, one_by_one.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(at_once.m2, one_by_one.m2, rtol=0, atol=1e-10)
