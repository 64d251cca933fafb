"""The four learners of the retraining game: columns of known rows -> label probabilities of other rows.

Each is a strong, quick default rather than a tuned model; the stack weighs them. Settings were fixed on
design settings (split 0) and are part of the truth's key, see `retraining.TRUTH`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.datasets.dataset import Feature
    from fedvalue.typing import Codes, Floats

N_BINS = 8
"""Quantile bins of a number, for the second logistic regression."""

SMOOTHING = 0.01
"""Weight of the label frequencies in every prediction, so that no log loss is infinite."""

N_FOLDS = 5
_RARE = 5  # a category of fewer known rows is "other"


@dataclass(frozen=True, slots=True, eq=False)
class Matrices:
    """The same columns as matrices for each kind of learner.

    Args:
        raw: Standardised numbers and one-hot categories.
        binned: `raw` and one-hot quantile bins.
        plain: One column per feature: numbers with NaN, categories as codes by falling frequency.
        categorical: Which columns of `plain` are categories.
    """

    raw: Floats
    binned: Floats
    plain: Floats
    categorical: tuple[int, ...]


def matrices(known: Mapping[str, Feature], others: Mapping[str, Feature]) -> tuple[Matrices, Matrices]:
    """Matrices of the known rows and of the others; only the known rows are fitted."""
    raw: list[tuple[Floats, Floats]] = []
    bins: list[tuple[Floats, Floats]] = []
    plain: list[tuple[Floats, Floats]] = []
    categorical = []
    for place, (name, column) in enumerate(known.items()):
        if column.dtype.kind == "U":
            codes = _frequent_categories(column)
            pair = tuple(
                np.array([codes.get(cell, 0) for cell in rows.tolist()], dtype=np.float64)
                for rows in (column, others[name])
            )
            raw.append((_one_hot(pair[0], len(codes) + 1), _one_hot(pair[1], len(codes) + 1)))
            plain.append((pair[0], pair[1]))
            categorical.append(place)
            continue
        numbers = np.asarray(column, dtype=np.float64), np.asarray(others[name], dtype=np.float64)
        raw.append(_standardised(*numbers))
        plain.append(numbers)
        edges = np.unique(np.nanquantile(numbers[0], np.linspace(0, 1, N_BINS + 1)[1:-1]))
        bins.append((_binned(numbers[0], edges), _binned(numbers[1], edges)))
    sides = []
    for side in (0, 1):
        flat = np.column_stack([block[side] for block in raw])
        both = np.column_stack([flat, *(block[side] for block in bins)])
        sides.append(
            Matrices(flat, both, np.column_stack([block[side] for block in plain]), tuple(categorical))
        )
    return sides[0], sides[1]


def _frequent_categories(column: Feature) -> dict[str, int]:
    """Codes from 1, the most frequent first; 0 is for all others."""
    kinds, counts = np.unique(column, return_counts=True)
    order = np.lexsort((kinds, -counts))
    return {str(kinds[k]): place for place, k in enumerate(order, 1) if counts[k] >= _RARE}


def _one_hot(codes: Floats, n_codes: int) -> Floats:
    return np.asarray(np.eye(n_codes)[codes.astype(np.int64)])


def _standardised(known: Floats, others: Floats) -> tuple[Floats, Floats]:
    middle = np.nanmedian(known)
    filled = [np.where(np.isnan(rows), middle, rows) for rows in (known, others)]
    centre, scale = filled[0].mean(), filled[0].std()
    # A few extreme amounts must not decide the fit.
    pair = [np.clip((rows - centre) / (scale if scale > 0 else 1.0), -4.0, 4.0) for rows in filled]
    return pair[0], pair[1]


def _binned(rows: Floats, edges: Floats) -> Floats:
    place = np.where(np.isnan(rows), len(edges) + 1, np.searchsorted(edges, rows, side="right"))
    return _one_hot(place, len(edges) + 2)


Learner = Callable[[Matrices, "Codes", Matrices, int], "Floats"]
"""Known matrices, their labels, other matrices, seed -> probabilities of the labels seen, in their order."""


def _logistic(X: Floats, y: Codes, others: Floats, C: float) -> Floats:
    """Ridge logistic regression."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(LogisticRegression(C=C, max_iter=200, tol=1e-3).fit(X, y).predict_proba(others))


def boosted_trees(known: Matrices, y: Codes, others: Matrices, seed: int) -> Floats:
    """LightGBM, small trees."""
    import lightgbm

    n_classes = int(y.max()) + 1
    settings: dict[str, Any] = {
        "objective": "binary" if n_classes == 2 else "multiclass",
        "learning_rate": 0.05, "num_leaves": 6, "min_data_in_leaf": 8, "lambda_l2": 1.0,
        "feature_fraction": 0.8, "min_data_per_group": 20, "cat_smooth": 10.0,
        "num_threads": 1, "deterministic": True, "force_row_wise": True, "seed": seed % 2**31,
        "verbosity": -1,
    }  # fmt: skip
    if n_classes > 2:
        settings["num_class"] = n_classes
    data = lightgbm.Dataset(
        known.plain, label=y, categorical_feature=list(known.categorical), params={"verbosity": -1}
    )
    p = np.asarray(lightgbm.train(settings, data, num_boost_round=100).predict(others.plain, num_threads=1))
    return np.column_stack([1 - p, p]) if n_classes == 2 else p


def forest(known: Matrices, y: Codes, others: Matrices, seed: int) -> Floats:
    """Random forest with leaves of four rows."""
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(n_estimators=40, min_samples_leaf=4, n_jobs=1, random_state=seed % 2**32)
    return np.asarray(model.fit(known.plain, y).predict_proba(others.plain))


LEARNERS: dict[str, Learner] = {
    "ridge": lambda known, y, others, seed: _logistic(known.raw, y, others.raw, 1.0),
    "ridge on bins": lambda known, y, others, seed: _logistic(known.binned, y, others.binned, 0.3),
    "boosted trees": boosted_trees,
    "forest": forest,
}


def label_frequency(label: Codes, n_labels: int) -> Floats:
    """The share of every label, half a row added to each."""
    return np.asarray((np.bincount(label, minlength=n_labels) + 0.5) / (len(label) + 0.5 * n_labels))


def predict(name: str, known: Matrices, y: Codes, others: Matrices, *, n_labels: int, seed: int) -> Floats:
    """Smoothed label probabilities of the other rows by one learner, shape (n_rows, n_labels).

    Labels that no known row has get their smoothing alone.
    """
    kinds, dense = np.unique(y, return_inverse=True)
    predicted = np.zeros((len(others.plain), n_labels))
    if len(kinds) == 1:
        predicted[:, kinds[0]] = 1.0
    else:
        predicted[:, kinds] = LEARNERS[name](known, dense.astype(np.int64), others, seed)
    return np.asarray((1 - SMOOTHING) * predicted + SMOOTHING * label_frequency(y, n_labels))


def stratified_folds(label: Codes, rng: np.random.Generator) -> NDArray[np.int64]:
    """The fold of every row, dealt at random within each label."""
    order = rng.permutation(len(label))
    order = order[np.argsort(label[order], kind="stable")]
    fold = np.empty(len(label), dtype=np.int64)
    fold[order] = np.arange(len(label)) % N_FOLDS
    return fold


def rows_of(columns: Mapping[str, Feature], keep: NDArray[np.bool_]) -> dict[str, Feature]:
    """Some rows of every column."""
    return {name: column[keep] for name, column in columns.items()}
