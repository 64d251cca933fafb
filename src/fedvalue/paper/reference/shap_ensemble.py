"""SHAP-m and SHAP-ensemble: what a party is worth according to trained models (paper, Section 4.1).

As the authors' notebooks do it: Kernel SHAP of `predict_proba` with a logit link, against k-means centres of
the training rows, for training rows; absolute values are added over the labels and averaged over the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.paper.reference.kernel_shap import background_of, kernel_shap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats


@dataclass(frozen=True, slots=True)
class ShapSize:
    """How much Kernel SHAP does.

    Args:
        explained: Rows to explain, the first ones; 500 in the notebooks.
        background: Centres that stand for unknown features; 50 in the notebooks.
        coalitions: Coalitions beyond the 2 per feature that every row needs; 2,048 in the notebooks.
    """

    explained: int = 500
    background: int = 50
    coalitions: int = 2048

    def __post_init__(self) -> None:
        for name, least in (("explained", 1), ("background", 1), ("coalitions", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}")


def feature_shap(model: Any, X: NDArray[np.int64], size: ShapSize, *, seed: int) -> Floats:
    """SHAP values of a fitted model for the first of the rows it was fitted on.

    Args:
        model: With `predict_proba`.
        X: Ordinal codes, shape (n_samples, n_features).
        size: How many rows, centres and coalitions.
        seed: Of centres and coalitions.

    Returns:
        Shape (n_explained, n_features, n_labels).
    """
    from threadpoolctl import threadpool_limits

    rows = X.astype(np.float64)
    with threadpool_limits(1):
        return kernel_shap(
            model.predict_proba,
            rows[: size.explained],
            background_of(rows, size.background, seed=seed),
            n_coalitions=2 * rows.shape[1] + size.coalitions,
            seed=seed,
        )


def party_shap(shap_values: Floats, parties: Sequence[Sequence[int]], *, of_sum: bool = False) -> Floats:
    """SHAP-m of each party: the sum of its features' importance.

    Args:
        shap_values: Shape (m, n_features, n_labels).
        parties: Columns of each party.
        of_sum: Take a party's features as one feature instead: |sum of SHAP values| rather than the sum of
            absolute values. Then features may cancel.

    Returns:
        One value per party, normalised to add up to 1, so that models with different scales can be
        averaged. All zeros when the model ignores every party.
    """
    values = []
    for columns in parties:
        held = shap_values[:, list(columns), :]
        size = np.abs(held.sum(axis=1)) if of_sum else np.abs(held).sum(axis=1)
        values.append(size.sum(axis=1).mean())
    found = np.array(values)
    total = found.sum()
    return found / total if total > 0 else found


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
