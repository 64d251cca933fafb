"""The compiled passes against their plain NumPy twins, and both against calculus."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import EngineError
from fedvalue.valuation.evidence import (
    evidence_pool,
    newton_kernels,
    pool_arrays,
    pool_kernels,
    vector_kernels,
)
from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_pool import (
    MAX_STEPS,
    PENALTY,
    PRIOR_WEIGHT,
    ROUNDING,
    SNAP,
    EvidenceArrays,
    PlainPasses,
    fit_pool,
    fit_pools,
    log_likelihood,
    plain_target,
)
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence.worlds import random_table


def game_of(labels: int, n: int = 600) -> EvidenceGame:
    return EvidenceGame.of(random_table(labels, n=n, p=4, labels=labels, task=True))


class CompiledPasses:
    """The compiled twin of `PlainPasses`: one look, one target, one prediction."""

    def __init__(self, arrays: EvidenceArrays) -> None:
        self.rows = pool_arrays.pool_rows(arrays)
        self.scratch = pool_arrays.pool_scratch(self.rows, arrays.n_evidences)
        self.k = arrays.n_evidences
        self.shape = arrays.tables.shape[1], arrays.n_items
        pool_kernels.load_only_block(self.rows, self.scratch)

    def derivatives(self, w):
        rules = pool_arrays.PoolRules(self.shape[1], 6e-10, PENALTY, PRIOR_WEIGHT, SNAP, ROUNDING, MAX_STEPS)
        loss = pool_kernels.derivatives(
            self.rows, np.arange(self.k), self.k, w, rules, self.scratch, False, self.shape[1]
        )
        return loss, self.scratch.vectors[3][: self.k], self.scratch.hessian[: self.k, : self.k]

    def target(self, w):
        newton_kernels.newton_target(self.scratch, self.k, w)
        return self.scratch.vectors[2][: self.k]

    def left_out(self, w):
        self.scratch.vectors[0][: self.k] = w
        likelihood, log_odds = np.zeros(self.shape[1]), np.zeros(self.shape)
        pool_kernels.left_out(self.rows, np.arange(self.k), self.k, self.scratch, False, likelihood, log_odds)
        return likelihood, log_odds


@pytest.mark.parametrize("n", [300, 1300])
@pytest.mark.parametrize("labels", [2, 3, 6])
def test_compiled_passes_give_what_numpy_gives(labels, n):
    """On tables of one block and of several."""
    game = game_of(labels, n)
    k = game.arrays.n_evidences
    plain, compiled = PlainPasses(game.arrays, np.arange(k)), CompiledPasses(game.arrays)
    assert (len(compiled.scratch.everything) > 0) == (game.arrays.n_items <= pool_arrays.BLOCK)
    for seed in range(3):
        w = 2 * np.random.default_rng(seed).random(k)
        w[seed] = 0.0
        loss, gradient, hessian = plain.derivatives(w)
        found = compiled.derivatives(w)
        assert found[0] == pytest.approx(loss, rel=1e-12)
        assert found[1] == pytest.approx(gradient, abs=1e-10)
        assert found[2] == pytest.approx(hessian, abs=1e-10)
        assert compiled.target(w) == pytest.approx(plain_target(hessian, gradient, w), abs=1e-12)
        likelihood, log_odds = compiled.left_out(w)
        expected = plain.left_out(w, hessian)
        assert log_odds == pytest.approx(expected, abs=1e-12)
        assert likelihood == pytest.approx(log_likelihood(expected), abs=1e-12)


@pytest.mark.parametrize("n", [200, 1300])
@pytest.mark.parametrize("labels", [2, 3])
def test_many_pools_at_once_are_the_pools_one_by_one(labels, n):
    """Sums, contributions and kept rows of every set of evidences, compiled and plain."""
    game = game_of(labels, n)
    arrays = game.arrays
    keys = np.unique(game.keys_of(game.every_inside()), axis=0)
    coefficients = np.random.default_rng(labels).normal(size=(len(keys), 2))
    coefficients[1] = 0.0
    kept = (1, len(keys) - 1)
    rows = []
    for key in keys:
        chosen = np.flatnonzero(key)
        start = np.full(len(chosen), 0.5)
        rows.append(fit_pool(arrays, chosen, start, n_samples=n, compiled=False))
    likelihood = np.array([fit.log_likelihood for fit in rows])
    for compiled in (False, True):
        fits = fit_pools(arrays, keys, coefficients, kept, n_samples=n, compiled=compiled)
        assert fits.sums == pytest.approx(likelihood @ arrays.count, rel=1e-11)
        assert fits.contributions == pytest.approx(coefficients.T @ likelihood, abs=1e-8)
        assert fits.likelihood == pytest.approx(likelihood[list(kept)], abs=1e-8)
        for at, weights in zip(kept, fits.weights, strict=True):
            assert weights[keys[at]] == pytest.approx(rows[at].weights, abs=1e-8)
            assert np.all(weights[~keys[at]] == 0)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("labels", [2, 3])
def test_a_column_that_gives_the_label_away_is_fitted(labels, compiled):
    """The loss is then about 1 in all, less than the rounding of a sum over many rows used to allow.

    The optimum is checked by calculus: the last step leaves no slope.
    """
    for seed in range(4):
        rng = np.random.default_rng(seed)
        label, *noise = rng.integers(0, labels, 4000), *rng.integers(0, 5, (2, 4000))
        game = EvidenceGame.of(FeatureTable.from_columns(label=label, parties={"a": noise}, task=[label]))
        chosen = np.arange(game.arrays.n_evidences)
        start = np.full(len(chosen), PRIOR_WEIGHT)
        fit = fit_pool(game.arrays, chosen, start, n_samples=4000, compiled=compiled)
        slope = PlainPasses(game.arrays, chosen).derivatives(fit.weights)[1]
        assert np.abs(slope[fit.weights > 0]).max() < 1e-6


def test_exponentials_and_logarithms_are_right_to_the_last_places():
    """Against NumPy's, which are right to one unit in the last place: two here, three together."""
    rng = np.random.default_rng(0)
    spare = np.zeros(3000)
    powers = np.concatenate([-rng.random(1000), -40 * rng.random(1000), -699 * rng.random(999), [0.0]])
    found = powers.copy()
    vector_kernels.exp_in_place(found, found.view(np.int64), spare, spare.view(np.int64), len(found))
    assert found == pytest.approx(np.exp(powers), rel=3 * np.finfo(float).eps)
    assert found[-1] == 1.0
    numbers = np.concatenate(
        [1 + rng.random(1000), 50 * rng.random(1000), 10 ** rng.uniform(-30, 30, 999), [1]]
    )
    found = numbers.copy()
    vector_kernels.log_in_place(found, found.view(np.int64), spare, spare.view(np.int64), len(found))
    assert found == pytest.approx(np.log(numbers), rel=3 * np.finfo(float).eps, abs=0)
    assert found[-1] == 0.0


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


def compiled_target(hessian, gradient, w):
    k = len(w)
    rows = pool_arrays.pool_rows(game_of(2, n=20).arrays)
    scratch = pool_arrays.pool_scratch(rows, k)
    scratch.hessian[:k, :k], scratch.vectors[3][:k] = hessian, gradient
    newton_kernels.newton_target(scratch, k, w)
    return scratch.vectors[2][:k].copy()


@pytest.mark.parametrize("target", [plain_target, compiled_target], ids=["plain", "compiled"])
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


@pytest.mark.parametrize("labels", [2, 3])
def test_a_first_fit_on_some_rows_changes_nothing(labels, monkeypatch):
    """Pools of many rows start where a sixteenth of the rows has its optimum."""
    game = game_of(labels, n=4000)
    keys = np.array([[True] * game.arrays.n_evidences])
    fits = []
    for least in (2**16, 100):
        monkeypatch.setattr(evidence_pool, "HEAD_ABOVE", least)
        fits.append(fit_pools(game.arrays, keys, np.ones((1, 2)), (0,), n_samples=4000, compiled=True))
    cold, warm = fits
    assert warm.weights == pytest.approx(cold.weights, abs=1e-8)
    assert warm.sums / 4000 == pytest.approx(cold.sums / 4000, abs=1e-10)


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_that_do_not_end_are_reported(compiled, monkeypatch):
    monkeypatch.setattr(evidence_pool, "MAX_STEPS", 1)
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
    lower, inverse = np.zeros((5, 5)), np.full((5, 9), np.nan)
    newton_kernels.solve(matrix, places, 5, right, z, 9, lower)
    assert z[places] == pytest.approx(np.linalg.solve(part, right[places]), abs=1e-12)
    assert z[[1, 4, 5, 6]].tolist() == [0.0] * 4
    newton_kernels.inverse_factor(matrix, places, 5, lower, inverse)
    assert np.all(inverse[:, 5:8] == 0)
    inverse = inverse[:, :5]
    assert inverse.T @ inverse == pytest.approx(np.linalg.inv(part), abs=1e-12)


def test_log_likelihood_of_extreme_odds():
    assert log_likelihood(np.array([[800.0, -800.0, 0.0]])) == pytest.approx([-800.0, 0.0, -np.log(2)])
    assert log_likelihood(np.array([[800.0], [800.0]])) == pytest.approx([-800.0 - np.log(2)])
    assert log_likelihood(np.zeros((0, 3))).tolist() == [0.0, 0.0, 0.0]


def test_no_kernel_is_compiled_for_a_literal_number():
    """It would be compiled again for any number. Kernels from the cache have no signatures to look at."""
    game = game_of(2)
    chosen = np.arange(game.arrays.n_evidences)
    fit_pool(game.arrays, chosen, np.full(len(chosen), PRIOR_WEIGHT), n_samples=game.n_samples, compiled=True)
    for one in (pool_kernels.fit, pool_kernels.left_out, newton_kernels.newton_target):
        assert "Literal" not in str(one.signatures)
