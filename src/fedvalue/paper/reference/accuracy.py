"""Prediction accuracy of the models and the selection of well-performing ones (paper, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.paper.reference.models import fit_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes


_ROUNDING = 1e-9


def cross_validated_accuracy(
    name: str,
    X: NDArray[np.int64],
    y: Codes,
    *,
    n_splits: int = 5,
    seed: int,
    max_rows: int | None = None,
) -> list[float]:
    """Accuracy on each left-out fold of a stratified, shuffled cross-validation."""
    from sklearn.model_selection import StratifiedKFold
    from threadpoolctl import threadpool_limits

    folds = StratifiedKFold(n_splits=n_splits, shuffle=True, random_state=seed)
    scores = []
    for train, test in folds.split(X, y):
        model = fit_model(name, X[train], y[train], seed=seed, max_rows=max_rows)
        with threadpool_limits(1):
            predicted = model.predict(X[test].astype(np.float64))
        scores.append(float(np.mean(predicted == y[test])))
    return scores


def well_performing(accuracy: Mapping[str, float], epsilon: float) -> tuple[str, ...]:
    """M_well: the models whose accuracy is larger than the best one's minus epsilon.

    An accuracy exactly at the limit is kept, as in the paper's Table 2 (GBT on Parkinsons).

    Raises:
        InputError: No model, or an epsilon that would not even keep the best one.
    """
    if not accuracy:
        raise InputError("at least one model's accuracy is needed, got none")
    if epsilon <= 0:
        raise InputError(f"epsilon must be positive, got {epsilon}")
    best = max(accuracy.values())
    return tuple(name for name, score in accuracy.items() if score > best - epsilon - _ROUNDING)
