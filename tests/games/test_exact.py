"""Exact Shapley values of games with published answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedvalue.errors import InputError
from tests.games.coalition import coalition
from tests.games.exact import shapley, shapley_of_table, weights
from tests.games.game import table
from tests.games.toy import Additive, Airport, Glove, Majority, Unanimity, WeightedVoting

GAMES = [
    Unanimity(5, coalition([0, 3])),
    Unanimity(3, coalition([0, 1, 2])),
    Glove(3),
    Glove(6),
    Airport([1.0, 2.0, 2.0, 5.5]),
    Majority(5),
    Majority(1),
    Additive([0.5, -2.0, 3.0]),
]


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_toy_games_have_their_published_values(
    game: Unanimity | Glove | Airport | Majority | Additive,
) -> None:
    np.testing.assert_allclose(shapley(game), game.shapley(), rtol=1e-14, atol=1e-15)


def test_glove_game_of_three() -> None:
    """(2/3, 1/6, 1/6), as in every textbook."""
    np.testing.assert_allclose(shapley(Glove(3)), [2 / 3, 1 / 6, 1 / 6], rtol=1e-15)


def test_apex_voting_game() -> None:
    """Votes 2, 1, 1, 1 with quota 3: the large voter decides at places 2 and 3 of 4, so it has 1/2."""
    np.testing.assert_allclose(shapley(WeightedVoting([2, 1, 1, 1], 3)), [1 / 2] + [1 / 6] * 3, rtol=1e-14)


def test_security_council() -> None:
    """5 permanent members with a veto and 10 others, 9 votes of 15: 0.19627 and 0.001865 (textbooks)."""
    found = shapley(WeightedVoting([7] * 5 + [1] * 10, 39))
    np.testing.assert_allclose(found[:5], 0.1962703962703963, rtol=1e-12)
    np.testing.assert_allclose(found[5:], 0.0018648018648018647, rtol=1e-12)


def test_weights_are_the_factorials_and_do_not_overflow() -> None:
    """w(s) = s!(n−s−1)!/n!, and Σ C(n−1, s) w(s) = 1 also for 300 players, where factorials overflow."""
    for n in (1, 2, 7):
        expected = [math.factorial(s) * math.factorial(n - s - 1) / math.factorial(n) for s in range(n)]
        np.testing.assert_allclose(weights(n), expected, rtol=1e-14)
    w = weights(300)
    assert math.isclose(sum(math.comb(299, s) * w[s] for s in range(300)), 1.0, rel_tol=1e-11)


@pytest.mark.parametrize("length", [0, 1, 3, 6])
def test_tables_of_other_lengths_are_refused(length: int) -> None:
    with pytest.raises(InputError, match=f"got {length} values"):
        shapley_of_table(np.zeros(length))


def test_too_many_players_for_a_table() -> None:
    with pytest.raises(InputError, match="at most 24 players, got 25"):
        table(Majority(25))
