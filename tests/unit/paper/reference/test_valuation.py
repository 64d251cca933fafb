"""SHAP values of the models, of parties, and the ensemble."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.paper.reference import MODELS, feature_shap, fit_model, party_shap, shap_ensemble
from fedvalue.paper.reference.extra import import_shap


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """Three classes told by column 0 and, less, by column 1; columns 2 and 3 are noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    strong = np.where(rng.random(400) < 0.05, rng.integers(0, 3, 400), y)
    weak = np.where(rng.random(400) < 0.6, rng.integers(0, 3, 400), y)
    return np.column_stack([strong, weak, rng.integers(0, 3, (400, 2)).T[0], rng.integers(0, 3, 400)]), y


@pytest.mark.parametrize("name", MODELS)
def test_every_model_values_the_strong_party_above_the_weak_above_the_noise(name, table) -> None:
    X, y = table
    values = feature_shap(name, fit_model(name, X, y, seed=0), X, n_explained=60, n_orders=10, seed=1)
    assert values.shape == (60, 4, 3)
    strong, weak, *noise = party_shap(values, [[0], [1], [2], [3]])
    assert strong > 2 * weak
    assert weak > max(noise)


def test_linear_values_add_up_to_the_score(table) -> None:
    X, y = table
    model = fit_model("LR", X, y, seed=0)
    values = feature_shap("LR", model, X, n_explained=len(X), n_orders=1, seed=5)
    order = np.random.default_rng(5).permutation(len(X))
    scores = model.decision_function(X[order].astype(float))
    assert values.sum(axis=1) == pytest.approx(scores - model.decision_function(X.astype(float)).mean(axis=0))


@pytest.mark.parametrize("name", ["GBT", "RF"])
def test_tree_values_add_up_to_the_score(name, table) -> None:
    X, y = table
    model = fit_model(name, X, y, seed=0)
    values = feature_shap(name, model, X, n_explained=50, n_orders=1, seed=5)
    rows = X[np.random.default_rng(5).permutation(len(X))[:50]].astype(float)
    scores = model.decision_function(rows) if name == "GBT" else model.predict_proba(rows)
    base = scores - values.sum(axis=1)
    assert base == pytest.approx(np.broadcast_to(base[0], base.shape), abs=1e-6)


def test_sampled_values_agree_with_shaps_own_explainer(table) -> None:
    """With four features shap's kernel explainer weighs all 14 coalitions: an independent, exact oracle."""
    shap = import_shap()
    X, y = table
    model = fit_model("SVM", X, y, seed=0)
    rng = np.random.default_rng(7)
    explained = X[rng.permutation(len(X))[:4]].astype(float)
    background = X[rng.permutation(len(X))[:20]].astype(float)
    from fedvalue.paper.reference.models import score_function
    from fedvalue.paper.reference.permutation_shap import permutation_shap

    score = score_function("SVM", model)
    exact = shap.KernelExplainer(score, background).shap_values(explained, silent=True, l1_reg=False)
    ours = permutation_shap(score, explained, background, n_orders=300, seed=0)
    # Scores of the one-versus-rest margins lie within (-1.5, 3.5), so a step's sd is below 2.5.
    assert ours == pytest.approx(exact, abs=5 * 2.5 / 300**0.5)
    assert np.corrcoef(ours.ravel(), exact.ravel())[0, 1] > 0.99


def test_a_partys_features_may_cancel() -> None:
    """The party's contribution to a prediction is a sum; only then comes the absolute value."""
    values = np.zeros((2, 3, 1))
    values[:, 0, 0] = [1.0, -1.0]
    values[:, 1, 0] = [-1.0, 1.0]
    values[:, 2, 0] = [0.5, 0.5]
    assert party_shap(values, [[0, 1], [2]]).tolist() == [0.0, 1.0]
    assert party_shap(values, [[0], [1], [2]]).tolist() == [0.4, 0.4, 0.2]


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
