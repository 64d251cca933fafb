"""The sampled SHAP values against the definition, spelled out over all coalitions."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.paper.reference.permutation_shap import permutation_shap


def exact_shap(score, x, background):
    """Interventional SHAP of one row by the definition: all coalitions, all background rows."""
    p = len(x)
    values = np.zeros(p)

    def v(coalition):
        rows = background.copy()
        rows[:, list(coalition)] = x[list(coalition)]
        return score(rows)[:, 0].mean()

    for j in range(p):
        others = [k for k in range(p) if k != j]
        for size in range(p):
            weight = factorial(size) * factorial(p - size - 1) / factorial(p)
            for coalition in combinations(others, size):
                values[j] += weight * (v((*coalition, j)) - v(coalition))
    return values


def test_one_order_walked_both_ways_is_exact_for_pairwise_interactions():
    """Forward and backward average to the Shapley value of any function without triple interactions."""

    def score(rows):
        return (rows[:, 0] * rows[:, 1] - 2 * rows[:, 2] + rows[:, 1] * rows[:, 3])[:, None]

    rng = np.random.default_rng(0)
    x, background = rng.normal(size=(5, 4)), rng.normal(size=(1, 4))
    found = permutation_shap(score, x, background, n_orders=1, seed=1)
    assert found.shape == (5, 4, 1)
    for row, values in zip(x, found, strict=True):
        assert values[:, 0] == pytest.approx(exact_shap(score, row, background), abs=1e-12)


def test_many_orders_come_close_for_any_function():
    """Within five standard errors of the mean of 400 draws bounded by the largest step seen."""

    def score(rows):
        return np.maximum(rows[:, 0] * rows[:, 1] * rows[:, 2] + rows[:, 3], 0)[:, None]

    rng = np.random.default_rng(1)
    x, background = rng.integers(0, 5, (3, 4)).astype(float), rng.integers(0, 5, (6, 4)).astype(float)
    found = permutation_shap(score, x, background, n_orders=400, seed=2)
    span = score(np.full((1, 4), 4.0))[0, 0]
    for row, values in zip(x, found, strict=True):
        # A step changes the score by at most the span, so its standard deviation is at most span / 2.
        assert values[:, 0] == pytest.approx(exact_shap(score, row, background), abs=5 * span / 2 / 400**0.5)


def test_contributions_add_up_for_every_output():
    def score(rows):
        return np.column_stack([np.sin(rows.sum(axis=1)), rows.prod(axis=1)])

    rng = np.random.default_rng(3)
    x, background = rng.normal(size=(7, 5)), rng.normal(size=(1, 5))
    found = permutation_shap(score, x, background, n_orders=3, seed=4)
    assert found.sum(axis=1) == pytest.approx(score(x) - score(background), abs=1e-12)


def test_an_ignored_feature_gets_nothing():
    rng = np.random.default_rng(5)
    x, background = rng.normal(size=(4, 3)), rng.normal(size=(9, 3))
    found = permutation_shap(lambda rows: rows[:, :2] ** 2, x, background, n_orders=2, seed=0)
    assert np.all(found[:, 2] == 0)
    assert np.all(found[:, 0, 1] == 0)


def test_the_seed_decides():
    rng = np.random.default_rng(6)
    x, background = rng.normal(size=(4, 3)), rng.normal(size=(9, 3))

    def run(seed):
        return permutation_shap(lambda rows: rows[:, :1], x, background, n_orders=1, seed=seed)

    assert np.array_equal(run(0), run(0))
    assert not np.array_equal(run(0), run(1))


def test_no_orders_are_refused():
    with pytest.raises(InputError, match="n_orders must be at least 1, got 0"):
        permutation_shap(lambda rows: rows, np.ones((1, 1)), np.ones((1, 1)), n_orders=0, seed=0)
