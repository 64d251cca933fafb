"""SHAP-ensemble, the reference valuation by trained models that the paper compares with (extra `paper`).

- The five models have the settings and seeds of the authors' notebooks, on ordinal codes; the seeds are part
  of what Table 2 prints.
- SHAP-m and SHAP-ensemble (paper, Section 4.1) as the notebooks do it: Kernel SHAP of `predict_proba` with a
  logit link, against k-means centres of the training rows, for training rows; absolute values are added over
  the labels and averaged over the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.paper.kernel_shap import background_of, kernel_shap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats

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
        raise InputError(f"unknown model {name!r}; choose from {', '.join(MODELS)}")
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
    name: str, X: NDArray[np.int64], y: Codes, *, probabilities: bool = False, svm_rows: int | None = None
) -> Any:
    """Fit one of the models, on one thread.

    Args:
        name: Name of the model.
        X: Ordinal codes, shape (n_samples, n_features).
        y: Label codes.
        probabilities: `predict_proba` is needed. For the SVM that costs five further fits: its scores are
            calibrated by Platt's method on held-out rows.
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
    """M_well: the models whose accuracy is above the best accuracy minus epsilon.

    An accuracy exactly at the limit is kept, as in the paper's Table 2 (GBT on Parkinsons).

    Raises:
        InputError: No models, or an epsilon that is not positive.
    """
    if not accuracy:
        raise InputError("at least one model's accuracy is needed, got none")
    if epsilon <= 0:
        raise InputError(f"epsilon must be positive, got {epsilon}")
    best = max(accuracy.values())
    return tuple(name for name, score in accuracy.items() if score > best - epsilon - _ROUNDING)


@dataclass(frozen=True, slots=True)
class ShapSize:
    """The workload of Kernel SHAP.

    Args:
        explained: Number of rows to explain, from the first; 500 in the notebooks.
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
    """SHAP values of a fitted classifier for the first rows of X, shape (n_explained, n_features, n_labels).

    X holds the ordinal codes that the model was fitted on; `seed` draws centres and coalitions.
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
        of_sum: Treat a party's features as one: |sum of SHAP values| rather than the sum of absolute values.
            Then features may cancel.

    Returns:
        One value per party, normalised to add up to 1, so that models with different scales can be
        averaged. All zeros when the model ignores every party.
    """
    values = []
    for columns in parties:
        held = shap_values[:, list(columns), :]
        size = np.abs(held.sum(axis=1)) if of_sum else np.abs(held).sum(axis=1)
        values.append(size.sum(axis=1).mean())
    importance = np.array(values)
    total = importance.sum()
    return importance / total if total > 0 else importance


def shap_ensemble(by_model: Mapping[str, Floats], selected: Sequence[str]) -> Floats:
    """SHAP-ensemble: the mean of SHAP-m over the well-performing models.

    Raises:
        InputError: No model was selected, or a selected model has no values.
    """
    if not selected:
        raise InputError("at least one well-performing model is needed, got none")
    missing = [name for name in selected if name not in by_model]
    if missing:
        raise InputError(f"no SHAP values of the selected model(s) {', '.join(missing)}")
    return np.asarray(np.mean([by_model[name] for name in selected], axis=0))
