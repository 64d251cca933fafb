"""SHAP values of the models, of parties, and the ensemble."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.paper.reference_models import (
    MODELS,
    ShapSize,
    feature_shap,
    fit_model,
    party_shap,
    shap_ensemble,
)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """Three classes that column 0 and, less so, column 1 separate; columns 2 and 3 are noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    strong = np.where(rng.random(400) < 0.05, rng.integers(0, 3, 400), y)
    weak = np.where(rng.random(400) < 0.6, rng.integers(0, 3, 400), y)
    return np.column_stack([strong, weak, rng.integers(0, 3, (400, 2)).T[0], rng.integers(0, 3, 400)]), y


@pytest.mark.parametrize("name", MODELS)
def test_every_model_values_the_strong_party_above_the_weak_above_the_noise(name, table) -> None:
    X, y = table
    model = fit_model(name, X, y, probabilities=True)
    values = feature_shap(model, X, ShapSize(explained=60, background=10, coalitions=6), seed=1)
    assert values.shape == (60, 4, 3)
    strong, weak, *noise = party_shap(values, [[0], [1], [2], [3]])
    assert strong > 2 * weak
    assert weak > max(noise)


def test_a_party_is_worth_the_sum_of_its_features_or_with_of_sum_what_does_not_cancel() -> None:
    values = np.zeros((2, 3, 1))
    values[:, 0, 0] = [1.0, -1.0]
    values[:, 1, 0] = [-1.0, 1.0]
    values[:, 2, 0] = [0.5, 0.5]
    assert party_shap(values, [[0, 1], [2]]).tolist() == [0.8, 0.2]
    assert party_shap(values, [[0, 1], [2]], of_sum=True).tolist() == [0.0, 1.0]
    assert party_shap(values, [[0], [1], [2]]).tolist() == [0.4, 0.4, 0.2]


def test_sizes_are_checked() -> None:
    with pytest.raises(InputError, match="explained must be at least 1, got 0"):
        ShapSize(explained=0)


def test_outputs_are_added_after_the_absolute_value() -> None:
    values = np.array([[[1.0, -1.0], [0.5, 0.5]]])
    assert party_shap(values, [[0], [1]]).tolist() == pytest.approx([2 / 3, 1 / 3])


def test_a_model_that_ignores_everybody_values_everybody_at_zero() -> None:
    assert party_shap(np.zeros((3, 2, 1)), [[0], [1]]).tolist() == [0.0, 0.0]


def test_ensemble_is_the_mean_over_the_selected_models() -> None:
    by_model = {"LR": np.array([0.2, 0.8]), "RF": np.array([0.6, 0.4]), "NN": np.array([1.0, 0.0])}
    assert shap_ensemble(by_model, ("LR", "RF")).tolist() == pytest.approx([0.4, 0.6])
    with pytest.raises(InputError, match="at least one"):
        shap_ensemble(by_model, ())
    with pytest.raises(InputError, match="SVM"):
        shap_ensemble(by_model, ("LR", "SVM"))
