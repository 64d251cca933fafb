"""The compiled passes against their plain NumPy twins, and both against calculus."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import EngineError
from fedvalue.valuation.evidence import evidence_pool, pool_kernel
from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_pool import (
    PENALTY,
    PRIOR_WEIGHT,
    CompiledPasses,
    PlainPasses,
    fit_pool,
    log_likelihood,
    plain_target,
)
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence.worlds import random_table


def game_of(labels: int, n: int = 600) -> EvidenceGame:
    return EvidenceGame.of(random_table(labels, n=n, p=4, labels=labels, task=True))


@pytest.mark.parametrize("labels", [2, 3, 6])
def test_compiled_passes_give_what_numpy_gives(labels):
    game = game_of(labels)
    k = game.arrays.n_evidences
    chosen = np.arange(k)
    plain, compiled = PlainPasses(game.arrays, chosen), CompiledPasses(game.arrays, chosen)
    for seed in range(3):
        w = 2 * np.random.default_rng(seed).random(k)
        w[seed] = 0.0
        loss, gradient, hessian = plain.derivatives(w)
        found = pool_kernel.derivatives(*compiled._rows, chosen, w, PENALTY, PRIOR_WEIGHT)
        assert found[0] == pytest.approx(loss, rel=1e-12)
        assert found[1] == pytest.approx(gradient, abs=1e-10)
        assert found[2][:k, :k] == pytest.approx(hessian, abs=1e-10)
        assert pool_kernel.newton_target(found[2], gradient, w) == pytest.approx(
            plain_target(hessian, gradient, w), abs=1e-12
        )
        assert compiled.left_out(w, found[2]) == pytest.approx(plain.left_out(w, hessian), abs=1e-12)


@pytest.mark.parametrize("labels", [2, 4])
def test_gradient_and_hessian_are_the_loss_s_derivatives(labels):
    """Central differences with steps of 1e-5, whose error is below 1e-6 here."""
    game = game_of(labels, n=150)
    plain = PlainPasses(game.arrays, np.arange(game.arrays.n_evidences))
    w = np.full(game.arrays.n_evidences, 0.4)
    _, gradient, hessian = plain.derivatives(w)
    for k, step in enumerate(1e-5 * np.eye(len(w))):
        up, down = plain.derivatives(w + step), plain.derivatives(w - step)
        assert gradient[k] == pytest.approx((up[0] - down[0]) / 2e-5, abs=1e-5)
        assert hessian[k] == pytest.approx((up[1] - down[1]) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("target", [plain_target, pool_kernel.newton_target], ids=["plain", "compiled"])
def test_newton_targets_meet_the_conditions_of_optimality(target):
    """Kuhn and Tucker: where a weight is free the model is flat, where it is zero the model rises."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(1, 12))
        root = rng.normal(size=(k, k))
        hessian, gradient = root @ root.T + 0.1 * np.eye(k), rng.normal(size=k)
        w = np.maximum(rng.normal(size=k), 0.0)
        z = target(hessian, gradient, w)
        slope = hessian @ (z - w) + gradient
        assert np.all(z >= 0)
        assert slope[z > 0] == pytest.approx(0, abs=1e-9)
        assert np.all(slope[z == 0] >= -1e-9)


def noisy_copies(labels: int) -> FeatureTable:
    """A column that tells the label and six noisy copies of it, which tell nothing beside it."""
    rng = np.random.default_rng(labels)
    column = rng.integers(0, 5, 2000)
    score = column + rng.normal(size=2000)
    label = np.searchsorted(np.quantile(score, np.arange(1, labels) / labels), score)
    copies = [np.where(rng.random(2000) < 0.3, rng.integers(0, 5, 2000), column) for _ in range(6)]
    return FeatureTable.from_columns(label=label, parties={"a": [column, *copies]})


@pytest.mark.parametrize("labels", [2, 3])
def test_plain_and_compiled_fits_reach_one_optimum_from_any_start(labels):
    """Some weights are at their bound, and there the loss would rise."""
    game = EvidenceGame.of(noisy_copies(labels))
    k = game.arrays.n_evidences
    chosen = np.arange(k)
    fits = [
        fit_pool(game.arrays, chosen, start, n_samples=game.n_samples, compiled=compiled)
        for compiled in (False, True)
        for start in (np.zeros(k), np.full(k, 0.5), np.full(k, 3.0))
    ]
    for fit in fits[1:]:
        assert fit.weights == pytest.approx(fits[0].weights, abs=1e-9)
        assert fit.log_odds == pytest.approx(fits[0].log_odds, abs=1e-8)
        assert np.mean(fit.log_likelihood) == pytest.approx(np.mean(fits[0].log_likelihood), abs=1e-12)
    w = fits[0].weights
    slope = PlainPasses(game.arrays, chosen).derivatives(w)[1]
    assert 0 < np.count_nonzero(w == 0) < k
    assert np.all(slope[w == 0] >= 0)
    assert slope[w > 0] == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_that_do_not_end_are_reported(compiled, monkeypatch):
    monkeypatch.setattr(evidence_pool, "MOST_STEPS", 1)
    arrays = game_of(2).arrays
    with pytest.raises(EngineError, match="did not converge in 1 steps"):
        fit_pool(arrays, np.arange(3), np.full(3, 0.5), n_samples=600, compiled=compiled)


def test_linear_systems_are_solved_on_chosen_places():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    matrix, right = root @ root.T + np.eye(9), rng.normal(size=9)
    places = np.array([0, 2, 3, 7, 8])
    part = matrix[np.ix_(places, places)]
    z = np.full(9, np.nan)
    pool_kernel.solve(matrix, places, 5, right, z)
    assert z[places] == pytest.approx(np.linalg.solve(part, right[places]), abs=1e-12)
    assert z[[1, 4, 5, 6]].tolist() == [0.0] * 4
    inverse = pool_kernel.inverse_factor(matrix, places)[:, :5]
    assert inverse.T @ inverse == pytest.approx(np.linalg.inv(part), abs=1e-12)


def test_log_likelihood_of_extreme_odds():
    assert log_likelihood(np.array([[800.0, -800.0, 0.0]])) == pytest.approx([-800.0, 0.0, -np.log(2)])
    assert log_likelihood(np.array([[800.0], [800.0]])) == pytest.approx([-800.0 - np.log(2)])
    assert log_likelihood(np.zeros((0, 3))).tolist() == [0.0, 0.0, 0.0]
