"""SHAP-m and SHAP-ensemble: what a party is worth according to trained models (paper, Section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.paper.reference.extra import import_shap
from fedvalue.paper.reference.models import score_function
from fedvalue.paper.reference.permutation_shap import permutation_shap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats


def feature_shap(
    name: str,
    model: Any,
    X: NDArray[np.int64],
    *,
    n_explained: int,
    n_orders: int,
    n_background: int = 100,
    seed: int,
) -> Floats:
    """SHAP values of a fitted model for some of the rows it was fitted on.

    Trees: shap's tree explainer, exact for the trees' own distribution. LR: exact in closed form,
    w_j (x_j - mean_j). SVM and NN: sampled permutations against background rows.

    Args:
        name: Which of the five models.
        model: Fitted on X.
        X: Ordinal codes, shape (n_samples, n_features).
        n_explained: Rows to explain, drawn at random.
        n_orders: Orders per row, for the sampled ones.
        n_background: Background rows, for the sampled ones.
        seed: Of the draws.

    Returns:
        Shape (n_explained, n_features, n_outputs).
    """
    rng = np.random.default_rng(seed)
    rows = X.astype(np.float64)
    explained = rows[rng.permutation(len(rows))[:n_explained]]
    if name in ("GBT", "RF"):
        return _tree_shap(model, explained)
    if name == "LR":
        return np.asarray((explained - rows.mean(axis=0))[:, :, None] * model.coef_.T[None])
    from threadpoolctl import threadpool_limits

    background = rows[rng.permutation(len(rows))[:n_background]]
    with threadpool_limits(1):
        return permutation_shap(
            score_function(name, model), explained, background, n_orders=n_orders, seed=seed
        )


def _tree_shap(model: Any, explained: Floats) -> Floats:
    values = np.asarray(import_shap().TreeExplainer(model).shap_values(explained, check_additivity=False))
    return values[:, :, None] if values.ndim == 2 else values


def party_shap(shap_values: Floats, parties: Sequence[Sequence[int]]) -> Floats:
    """SHAP-m of each party: its features taken as one aggregated feature.

    By SHAP's additivity the aggregated feature's contribution to one prediction is the sum of its
    features' contributions. Its importance is, as for a single feature, the mean over the rows of the
    absolute contribution, added over the model's outputs. (Adding absolute values of the single
    features instead would forget that they may cancel.)

    Args:
        shap_values: Shape (m, n_features, n_outputs).
        parties: Columns of each party.

    Returns:
        One value per party, normalised to add up to 1, so that models with different scales can be
        averaged. All zeros when the model ignores every party.
    """
    values = np.array(
        [np.abs(shap_values[:, list(columns), :].sum(axis=1)).mean(axis=0).sum() for columns in parties]
    )
    total = values.sum()
    return values / total if total > 0 else values


def shap_ensemble(by_model: Mapping[str, Floats], selected: Sequence[str]) -> Floats:
    """SHAP-ensemble: the mean of SHAP-m over the well-performing models.

    Raises:
        InputError: No model was selected, or one without values.
    """
    if not selected:
        raise InputError("at least one well-performing model is needed, got none")
    missing = [name for name in selected if name not in by_model]
    if missing:
        raise InputError(f"no SHAP values of the selected model(s) {', '.join(missing)}")
    return np.asarray(np.mean([by_model[name] for name in selected], axis=0))
