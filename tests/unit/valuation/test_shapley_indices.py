"""Shapley values and interactions against games with known answers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation import shapley_indices
from fedvalue.valuation.items import item_table
from fedvalue.valuation.shapley_indices import (
    fitted_interactions,
    interactions_of,
    joining_weights,
    shapley_coefficients,
    shapley_of,
    solve_by_tiles,
)
from fedvalue.valuation.statistics.joint_table_game import plug_in_game
from tests.statistics import definitions
from tests.statistics.tables import random_table


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


@pytest.mark.parametrize("p", [1, 2, 5, 12])
def test_weights_of_all_coalitions_without_a_party_add_up_to_one(p):
    weight = joining_weights(p)
    assert sum(math.comb(p - 1, s) * weight[s] for s in range(p)) == pytest.approx(1)
    assert weight[p] == 0


@pytest.mark.parametrize("p", [1, 3, 6])
def test_coefficients_give_the_values(p):
    game = np.random.default_rng(p).normal(size=1 << p)
    assert game @ shapley_coefficients(p) == pytest.approx(shapley_of(game), abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_interactions_equal_the_definition(seed):
    counts = random_table(seed, p=2 + seed % 4)
    samples = definitions.Samples(counts)
    game = {S: samples.val(S) for S in definitions.coalitions(samples.p)}
    expected = np.zeros((samples.p, samples.p))
    for i in range(samples.p):
        for j in range(samples.p):
            if i != j:
                expected[i, j] = definitions.interaction(game, samples.p, i, j)
    assert interactions_of(plug_in_game(item_table(counts))) == pytest.approx(expected, abs=1e-12)


def test_parties_that_tell_only_together_are_synergistic():
    """Y = A xor B: nothing apart, ln 2 together."""
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    items = item_table(JointCounts.from_columns(label=a ^ b, parties={"a": a, "b": b}))
    assert interactions_of(plug_in_game(items))[0, 1] == pytest.approx(np.log(2))


def test_copies_are_redundant():
    a = np.array([0, 0, 1, 1])
    items = item_table(JointCounts.from_columns(label=a, parties={"a": a, "copy": a}))
    assert interactions_of(plug_in_game(items))[0, 1] == pytest.approx(-np.log(2))


def test_both_ways_to_fit_interactions_agree(monkeypatch):
    """Normal equations and their dual are one fit, with fewer and with more coalitions than pairs."""
    rng = np.random.default_rng(3)
    for n_orders in (3, 40):
        orders = [rng.permutation(7).tolist() for _ in range(n_orders)]
        values = np.cumsum(rng.random((n_orders, 8)), axis=1)
        by_terms = fitted_interactions(orders, values)
        monkeypatch.setattr(shapley_indices, "MAX_TERMS", 0)
        assert fitted_interactions(orders, values) == pytest.approx(by_terms, abs=1e-5)
        monkeypatch.undo()


@pytest.mark.parametrize("n", [1, 48, 49, 130])
def test_tiles_solve_a_positive_definite_system(n):
    """The condition number is at most 1 + n, as the rows of a random orthogonal matrix times 1 .. 1 + n."""
    rng = np.random.default_rng(n)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = (basis * np.linspace(1.0, 1.0 + n, n)) @ basis.T
    solution = rng.normal(size=n)
    assert solve_by_tiles(matrix, matrix @ solution) == pytest.approx(solution, abs=1e-11)


def test_interactions_of_two_hundred_players_are_fitted():
    """v(S) = |S|^2 has an interaction of 2 for each of 19,900 pairs; 800 coalitions shrink them by little."""
    orders = [np.random.default_rng(k).permutation(200).tolist() for k in range(4)]
    values = np.tile(np.arange(201.0) ** 2, (4, 1))
    found = fitted_interactions(orders, values)
    pairs = found[np.triu_indices(200, 1)]
    assert pairs.mean() == pytest.approx(2.0, rel=0.02)
    assert np.mean(np.abs(pairs - 2.0) < 0.1) > 0.95
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()
