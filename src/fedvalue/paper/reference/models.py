"""The paper's five models with the settings of the authors' notebooks, on ordinal codes.

Seeds are the notebooks' too: they are part of what Table 2 prints.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes

MODELS = ("SVM", "GBT", "LR", "RF", "NN")

_SEED = 10


def make_model(name: str) -> Any:
    """An unfitted classifier.

    Raises:
        InputError: There is no such model.
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    if name == "SVM":
        return SVC(kernel="rbf")
    if name == "GBT":
        return GradientBoostingClassifier(n_estimators=100, random_state=_SEED)
    if name == "LR":
        return LogisticRegression(max_iter=2000)
    if name == "RF":
        return RandomForestClassifier(n_estimators=100, random_state=_SEED)
    return MLPClassifier(random_state=_SEED)


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
