"""Sampled Shapley values of toy games."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.valuation.permutations.sampling import RunningMoments
from tests.games.permutation import marginals, sampled_shapley
from tests.games.toy import Additive, Airport, Glove


def test_marginals_of_one_order() -> None:
    """The runway grows by what the next aeroplane needs beyond those before."""
    assert marginals(Airport([1.0, 2.0, 5.0]), [1, 0, 2]).tolist() == [0.0, 2.0, 3.0]


@pytest.mark.parametrize("game", [Glove(5), Airport([1.0, 3.0, 4.0, 9.0])], ids=repr)
def test_sampled_values_lie_within_4_standard_errors(game: Glove | Airport) -> None:
    found = sampled_shapley(game, n_permutations=4000, seed=3)
    assert (np.abs(found.values - game.shapley()) <= 4 * found.se + 1e-12).all()
    assert found.n_permutations == 4000


def test_additive_games_have_no_sampling_error() -> None:
    found = sampled_shapley(Additive([1.0, 2.5, -3.0]), n_permutations=10)
    np.testing.assert_allclose(found.values, [1.0, 2.5, -3.0], rtol=1e-15)
    assert found.se.max() < 1e-15


def test_one_permutation_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2, got 1"):
        sampled_shapley(Glove(3), n_permutations=1)


def test_moments_of_nothing_and_of_one_sample() -> None:
    empty = RunningMoments.empty(2)
    assert (empty + empty).n == 0
    one = empty + RunningMoments.of(np.array([[1.0, 2.0]]))
    assert one.mean.tolist() == [1.0, 2.0]
    assert np.isinf(one.se).all()
