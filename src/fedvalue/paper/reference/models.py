"""The paper's five models, on the discretised features as ordinal codes.

Ordinal codes rather than one-hot columns: the authors' notebooks do so, equal-width bins are ordered,
and a party's features then stay one column each for SHAP. On the six sets one-hot changed the
accuracies by less than their spread. The settings are scikit-learn's defaults but for what is said
beside each. One was chosen after a look at the results: the network's training length, of three that
were tried, is the one whose accuracies came closest to the paper's Table 2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats

MODELS = ("SVM", "GBT", "LR", "RF", "NN")


def make_model(name: str, *, seed: int) -> Any:
    """An unfitted classifier.

    Raises:
        InputError: There is no such model.
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if name == "SVM":
        return SVC(kernel="rbf")
    if name == "GBT":
        # Trees of 8 leaves, as depth 3 of the classic implementation; its SHAP values also exist for
        # more than two classes. Leaves of 5 rows, since the smallest set has 142 training rows.
        return HistGradientBoostingClassifier(
            max_iter=100, max_leaf_nodes=8, min_samples_leaf=5, early_stopping=False, random_state=seed
        )
    if name == "LR":
        return LogisticRegression(max_iter=2000)
    if name == "RF":
        return RandomForestClassifier(n_estimators=100, min_samples_leaf=2, random_state=seed)
    # One hidden layer of 32 units with a firm penalty: hundreds of rows do not feed more.
    network = MLPClassifier(hidden_layer_sizes=(32,), alpha=1.0, random_state=seed)
    return make_pipeline(StandardScaler(), network)


def fit_model(name: str, X: NDArray[np.int64], y: Codes, *, seed: int, max_rows: int | None = None) -> Any:
    """Fit one of the models, on one thread.

    Args:
        name: Which one.
        X: Ordinal codes, shape (n_samples, n_features).
        y: Label codes.
        seed: Of the model, and of the choice of rows.
        max_rows: Fit the SVM on at most this many random rows; its cost grows with their square.
            The other models always get all rows.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    if name == "SVM" and max_rows is not None and len(y) > max_rows:
        keep = np.random.default_rng(seed).permutation(len(y))[:max_rows]
        X, y = X[keep], y[keep]
    with threadpool_limits(1), warnings.catch_warnings():
        # The iteration limit of the network is its early stopping.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make_model(name, seed=seed)
        if name == "NN":
            model[-1].set_params(max_iter=network_epochs(len(y)))
        return model.fit(X.astype(np.float64), y)


def network_epochs(n_rows: int) -> int:
    """Passes over the rows that make about 500 gradient steps, but no fewer than 20 passes.

    A batch has 200 rows, so a fixed number of passes would leave a network on 142 rows untrained and
    train one on 24,000 rows for minutes.
    """
    return max(20, -(-500 // -(-n_rows // 200)))


def score_function(name: str, model: Any) -> Callable[[Floats], Floats]:
    """The fitted model's raw score, shape (n_rows, n_outputs): what the sampled SHAP values explain.

    Margins of the SVM and the network's output before the softmax, so that all models are explained
    on the scale of their own log-odds (the trees and the linear model by their own explainers).
    """
    if name == "SVM":
        return lambda X: _two_dimensional(model.decision_function(X))
    if name == "NN":
        return lambda X: network_logits(model, X)
    raise InputError(f"the sampled explainer is for SVM and NN, got {name}")


def network_logits(model: Any, X: Floats) -> Floats:
    """The output layer of a fitted pipeline (scaler, network) before the softmax.

    With more than two classes only differences between classes reach the prediction, so the mean over
    the classes is taken off: a shift common to all of them must not count as a contribution.
    """
    scaler, network = model[0], model[-1]
    layer: Floats = scaler.transform(X)
    *hidden, output = zip(network.coefs_, network.intercepts_, strict=True)
    for weights, bias in hidden:
        layer = np.maximum(layer @ weights + bias, 0.0)
    weights, bias = output
    logits: Floats = layer @ weights + bias
    return logits - logits.mean(axis=1, keepdims=True) if logits.shape[1] > 1 else logits


def _two_dimensional(scores: Floats) -> Floats:
    return scores[:, None] if scores.ndim == 1 else scores
