"""The paper's five models with the settings of the authors' notebooks, on ordinal codes, and their accuracy.

Seeds are the notebooks' too: they are part of what Table 2 prints.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes

MODELS = ("SVM", "GBT", "LR", "RF", "NN")

N_DRAWS = 5
"""Hold-outs of the notebooks: `train_test_split(test_size=0.2, random_state=0 … 4)`."""

_SEED = 10
_ROUNDING = 1e-9


def make_model(name: str) -> Any:
    """An unfitted classifier.

    Raises:
        InputError: There is no such model.
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    from sklearn import ensemble, linear_model, neural_network, svm

    if name == "SVM":
        return svm.SVC(kernel="rbf")
    if name == "GBT":
        return ensemble.GradientBoostingClassifier(n_estimators=100, random_state=_SEED)
    if name == "LR":
        return linear_model.LogisticRegression(max_iter=2000)
    if name == "RF":
        return ensemble.RandomForestClassifier(n_estimators=100, random_state=_SEED)
    return neural_network.MLPClassifier(random_state=_SEED)


def fit_model(
    name: str,
    X: NDArray[np.int64],
    y: Codes,
    *,
    probabilities: bool = False,
    svm_rows: int | None = None,
) -> Any:
    """Fit one of the models, on one thread.

    Args:
        name: Which one.
        X: Ordinal codes, shape (n_samples, n_features).
        y: Label codes.
        probabilities: Whether `predict_proba` is needed. For the SVM that costs five further fits: its
            scores are calibrated by Platt's method on held-out rows.
        svm_rows: Fit the SVM on at most this many rows, the first ones; its cost grows with their square.
            The other models get all rows.
    """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    if name == "SVM" and svm_rows is not None:
        X, y = X[:svm_rows], y[:svm_rows]
    model = make_model(name)
    if name == "SVM" and probabilities:
        model = CalibratedClassifierCV(
            model, ensemble=False, cv=min(5, int(np.unique(y, return_counts=True)[1].min()))
        )
    with threadpool_limits(1), warnings.catch_warnings():
        # The network stops after 200 passes, converged or not, as in the notebooks.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X.astype(np.float64), y)


def draw_rows(n_samples: int, draw: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The training rows (80%) and the held-out rows of one draw, in the notebooks' order."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(n_samples), test_size=0.2, random_state=draw)
    return train, test


def hold_out_accuracy(name: str, X: NDArray[np.int64], y: Codes, *, draw: int) -> float:
    """Accuracy on the held-out rows of one draw."""
    from threadpoolctl import threadpool_limits

    train, test = draw_rows(len(y), draw)
    model = fit_model(name, X[train], y[train])
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
