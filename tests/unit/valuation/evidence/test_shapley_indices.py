"""Shapley values and interactions against games with known answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedvalue.valuation.evidence.shapley_indices import fitted_interactions, interactions_of, shapley_of


def game_of(value, p):
    return np.array([float(value({k for k in range(p) if mask >> k & 1})) for mask in range(1 << p)])


def test_glove_game():
    """One left glove, two right ones: 2/3, 1/6, 1/6 (Shapley 1953)."""
    game = game_of(lambda s: 0 in s and len(s) > 1, 3)
    assert shapley_of(game) == pytest.approx([2 / 3, 1 / 6, 1 / 6], abs=1e-15)


def test_unanimity_of_three_among_five():
    """Members share 1 equally; a pair of members has interaction 1/2, as 1/(t - 1) says for t = 3."""
    game = game_of(lambda s: {0, 2, 3} <= s, 5)
    assert shapley_of(game) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3, 0], abs=1e-15)
    assert shapley_of(game)[1] == 0.0
    expected = np.zeros((5, 5))
    for i, j in itertools.permutations((0, 2, 3), 2):
        expected[i, j] = 0.5
    assert interactions_of(game) == pytest.approx(expected, abs=1e-15)


def test_one_player():
    assert shapley_of(np.array([0.0, 2.5])).tolist() == [2.5]
    assert interactions_of(np.array([0.0, 2.5])).tolist() == [[0.0]]


def test_interactions_of_pairs_are_recovered_from_sampled_orders():
    """A game with a_i = i and b_ij = 1 / (i + j) is fitted exactly, up to the ridge."""
    p = 6
    rng = np.random.default_rng(0)
    expected = np.array([[0.0 if i == j else 1 / (i + j) for j in range(p)] for i in range(p)])

    def value(s):
        return sum(s) + sum(expected[i, j] for i, j in itertools.combinations(s, 2))

    orders = [rng.permutation(p).tolist() for _ in range(60)]
    values = np.array([[value(order[:k]) for k in range(p + 1)] for order in orders])
    assert fitted_interactions(orders, values) == pytest.approx(expected, abs=1e-3)
