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

N_DRAWS = 5
"""Hold-outs of the notebooks: `train_test_split(test_size=0.2, random_state=0 … 4)`."""

_ROUNDING = 1e-9


def draw_rows(n_samples: int, draw: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The training rows (80%) and the held-out rows of one draw, in the notebooks' order."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(n_samples), test_size=0.2, random_state=draw)
    return train, test


def hold_out_accuracy(
    name: str, X: NDArray[np.int64], y: Codes, *, draw: int, svm_rows: int | None = None
) -> float:
    """Accuracy on the held-out rows of one draw."""
    from threadpoolctl import threadpool_limits

    train, test = draw_rows(len(y), draw)
    model = fit_model(name, X[train], y[train], svm_rows=svm_rows)
    with threadpool_limits(1):
        return float(np.mean(model.predict(X[test].astype(np.float64)) == y[test]))


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
