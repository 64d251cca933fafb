"""Kernel SHAP against shap's own explainer and against the definition."""

from __future__ import annotations

import warnings
from itertools import combinations
from math import comb, factorial

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.paper import kernel_shap as ks
from fedvalue.paper.kernel_shap import Background, background_of, coalitions, kernel_shap, logit


def probabilities(X: np.ndarray) -> np.ndarray:
    """Three labels; features interact, and feature 4 does nothing."""
    scores = np.column_stack([X[:, 0] * X[:, 1], X[:, 2] - X[:, 3], 0.5 * X[:, 1]])
    odds = np.exp(scores)
    return odds / odds.sum(axis=1, keepdims=True)


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 3, (40, 5)).astype(float)


def by_definition(x: np.ndarray, background: Background) -> np.ndarray:
    """The Shapley value of every feature, over all coalitions."""
    p = len(x)

    def value(members: tuple[int, ...]) -> np.ndarray:
        mixed = background.rows.copy()
        mixed[:, list(members)] = x[list(members)]
        return logit(background.weights @ probabilities(mixed))

    shap = np.zeros((p, 3))
    for j in range(p):
        others = [k for k in range(p) if k != j]
        for size in range(p):
            weight = factorial(size) * factorial(p - size - 1) / factorial(p)
            for members in combinations(others, size):
                shap[j] += weight * (value((*members, j)) - value(members))
    return shap


def test_with_all_coalitions_the_values_are_shapley_values(rows: np.ndarray) -> None:
    background = background_of(rows, 6, seed=0)
    values = kernel_shap(probabilities, rows[:3], background, n_coalitions=1000, seed=0)
    for x, shap in zip(rows[:3], values, strict=True):
        assert shap == pytest.approx(by_definition(x, background), abs=1e-9)
    assert values[:, 4] == pytest.approx(np.zeros((3, 3)), abs=1e-9)


def test_they_are_those_of_shaps_own_explainer(rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """shap does not clip, so neither do we here; with five features both weigh all coalitions."""
    monkeypatch.setattr(ks, "CLIP", 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import touches matplotlib functions that are on their way out
        import shap
    background = rows[:8]
    explainer = shap.KernelExplainer(probabilities, background, link="logit")
    expected = explainer.shap_values(rows[10:14], silent=True, l1_reg=False)
    even = Background(background, np.full(8, 1 / 8))
    assert kernel_shap(probabilities, rows[10:14], even, n_coalitions=1000, seed=0) == pytest.approx(
        np.asarray(expected), abs=1e-9
    )


def test_sampled_coalitions_keep_the_sum_and_come_close(rows: np.ndarray) -> None:
    background = background_of(rows, 6, seed=0)
    exact = kernel_shap(probabilities, rows[:5], background, n_coalitions=1000, seed=0)
    sampled = kernel_shap(probabilities, rows[:5], background, n_coalitions=14, seed=0)
    full = logit(probabilities(rows[:5])) - logit(background.weights @ probabilities(background.rows))
    assert sampled.sum(axis=1) == pytest.approx(full, abs=1e-9)
    assert np.corrcoef(exact.ravel(), sampled.ravel())[0, 1] > 0.98


@pytest.mark.parametrize(("p", "n"), [(4, 100), (5, 16), (9, 60), (30, 500)])
def test_coalitions_are_paired_and_weighted_by_the_kernel(p: int, n: int) -> None:
    masks, weights = coalitions(p, n, np.random.default_rng(0))
    assert len(masks) <= n
    assert weights.sum() == pytest.approx(1.0)
    assert np.all((masks.sum(axis=1) > 0) & (masks.sum(axis=1) < p))
    kernel = {s: (p - 1) / (comb(p, s) * s * (p - s)) for s in range(1, p)}
    whole = sum(kernel[s] * comb(p, s) for s in kernel)
    single = weights[masks.sum(axis=1) == 1]
    assert single == pytest.approx(np.full(p, kernel[1] / whole))


def test_background_rows_are_values_that_occur(rows: np.ndarray) -> None:
    background = background_of(rows, 7, seed=0)
    assert background.rows.shape == (7, 5)
    assert set(np.unique(background.rows)) <= {0.0, 1.0, 2.0}
    assert background.weights.sum() == pytest.approx(1.0)


def test_too_few_coalitions_are_refused(rows: np.ndarray) -> None:
    with pytest.raises(InputError, match="at least 10 for 5 features, got 9"):
        kernel_shap(probabilities, rows, background_of(rows, 2, seed=0), n_coalitions=9, seed=0)
