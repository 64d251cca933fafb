"""The compiled passes against their plain NumPy twins, and both against calculus."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.evidence import pool_kernel
from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_pool import (
    ArrayPasses,
    CompiledPasses,
    fit_pool,
    log_likelihood,
)
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence.worlds import random_table


def passes(labels: int, n: int = 600):
    game = EvidenceGame.of(random_table(labels, n=n, p=4, labels=labels, task=True))
    chosen = np.arange(game.arrays.n_evidences)
    return ArrayPasses(game.arrays, chosen), CompiledPasses(game.arrays, chosen), game


@pytest.mark.parametrize("labels", [2, 3, 6])
def test_both_passes_give_the_same(labels):
    plain, compiled, game = passes(labels)
    rng = np.random.default_rng(labels)
    for _ in range(3):
        w = rng.random(game.arrays.n_evidences)
        expected, found = plain.derivatives(w), compiled.derivatives(w)
        assert found[0] == pytest.approx(expected[0], rel=1e-12)
        assert found[1] == pytest.approx(expected[1], abs=1e-10)
        assert found[2] == pytest.approx(expected[2], abs=1e-10)
        free = w > 0.3
        hessian = (expected[2] + 4 * np.eye(len(w)))[np.ix_(free, free)]
        w = np.where(free, w, 0.0)
        assert compiled.left_out(w, free, hessian) == pytest.approx(
            plain.left_out(w, free, hessian), abs=1e-12
        )


@pytest.mark.parametrize("labels", [2, 4])
def test_gradient_and_hessian_are_the_loss_s_derivatives(labels):
    """Central differences with steps of 1e-5, whose error is below 1e-6 here."""
    plain, _, game = passes(labels, n=150)
    w = np.full(game.arrays.n_evidences, 0.4)
    _, gradient, hessian = plain.derivatives(w)
    for k, step in enumerate(1e-5 * np.eye(len(w))):
        up, down = plain.derivatives(w + step), plain.derivatives(w - step)
        assert gradient[k] == pytest.approx((up[0] - down[0]) / 2e-5, abs=1e-5)
        assert hessian[k] == pytest.approx((up[1] - down[1]) / 2e-5, abs=1e-5)


def noisy_copies(labels: int) -> FeatureTable:
    """A column that tells the label and six noisy copies of it, which tell nothing beside it."""
    rng = np.random.default_rng(labels)
    column = rng.integers(0, 5, 2000)
    score = column + rng.normal(size=2000)
    label = np.searchsorted(np.quantile(score, np.arange(1, labels) / labels), score)
    copies = [np.where(rng.random(2000) < 0.3, rng.integers(0, 5, 2000), column) for _ in range(6)]
    return FeatureTable.from_columns(label=label, parties={"a": [column, *copies]})


@pytest.mark.parametrize("labels", [2, 3])
def test_the_optimum_does_not_depend_on_the_start(labels):
    """Nor on the passes. Some weights are at their bound, and there the loss would rise."""
    game = EvidenceGame.of(noisy_copies(labels))
    k = game.arrays.n_evidences
    chosen = np.arange(k)
    plain, compiled = ArrayPasses(game.arrays, chosen), CompiledPasses(game.arrays, chosen)
    fits = [
        fit_pool(which, start, game.n_samples)
        for which in (plain, compiled)
        for start in (np.zeros(k), np.full(k, 0.5), np.full(k, 3.0))
    ]
    for fit in fits[1:]:
        assert fit.weights == pytest.approx(fits[0].weights, abs=1e-9)
        assert np.mean(fit.log_likelihood) == pytest.approx(np.mean(fits[0].log_likelihood), abs=1e-12)
    w = fits[0].weights
    slope = plain.derivatives(w)[1] + 4 * (w - 0.5)
    assert 0 < np.count_nonzero(w == 0) < k
    assert np.all(slope[w == 0] >= 0)
    assert slope[w > 0] == pytest.approx(0, abs=1e-7)


def test_linear_systems_are_solved():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    matrix, right = root @ root.T + np.eye(9), rng.normal(size=9)
    assert pool_kernel.solve(matrix, right) == pytest.approx(np.linalg.solve(matrix, right), abs=1e-12)
    assert pool_kernel.lower_factor(matrix) == pytest.approx(np.linalg.cholesky(matrix), abs=1e-12)


def test_log_likelihood_of_extreme_odds():
    assert log_likelihood(np.array([[800.0, -800.0, 0.0]])) == pytest.approx([-800.0, 0.0, -np.log(2)])
    assert log_likelihood(np.array([[800.0], [800.0]])) == pytest.approx([-800.0 - np.log(2)])
    assert log_likelihood(np.zeros((0, 3))).tolist() == [0.0, 0.0, 0.0]
