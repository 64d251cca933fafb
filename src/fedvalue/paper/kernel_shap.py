"""Kernel SHAP with a logit link (Lundberg and Lee, 2017), for many rows at once.

The game of a row x: v(S) = logit of the mean, over weighted background rows b, of the predicted probability
where the features in S are x's and the others b's. Its Shapley values solve a weighted least-squares problem
over coalitions. All rows use the same coalitions, so the solution is one matrix, and the model is asked for a
few large batches.

shap's `KernelExplainer` with `link="logit"` answers the same question row by row; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

CLIP = 1e-3
"""Probabilities are kept this far from 0 and 1: a forest is often unanimous, and log-odds must be finite."""

_BATCH = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """Rows, of shape (b, p), that stand for unknown features; their weights add up to 1."""

    rows: Floats = field(repr=False)
    weights: Floats = field(repr=False)


def background_of(X: Floats, n_rows: int, *, seed: int) -> Background:
    """k-means centres moved to the nearest value of each column, weighted by their rows, as `shap.kmeans`."""
    from sklearn.cluster import KMeans

    distinct = len(np.unique(X, axis=0))
    clusters = KMeans(n_clusters=min(n_rows, distinct), n_init=1, random_state=seed).fit(X)
    centres = clusters.cluster_centers_
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        centres[:, j] = values[np.abs(values[None] - centres[:, j, None]).argmin(axis=1)]
    weights = np.bincount(clusters.labels_, minlength=len(centres)).astype(np.float64)
    return Background(centres, weights / weights.sum())


def kernel_shap(
    probabilities: Callable[[Floats], Floats],
    explained: Floats,
    background: Background,
    *,
    n_coalitions: int,
    seed: int,
) -> Floats:
    """SHAP values of the log-odds of every label.

    Args:
        probabilities: Rows -> label probabilities, shape (n_rows, n_labels).
        explained: Rows to explain, shape (m, p).
        background: Rows that stand for unknown features.
        n_coalitions: Coalitions to ask for, at least 2p; all of them where that is fewer.
        seed: Seeds the draw of coalitions.

    Returns:
        Shape (m, p, n_labels). Over the features they add up to the log-odds of the row minus those of the
        background.
    """
    p = explained.shape[1]
    if n_coalitions < 2 * p:
        raise InputError(f"n_coalitions must be at least {2 * p} for {p} features, got {n_coalitions}")
    base = logit(background.weights @ probabilities(background.rows))
    full = logit(probabilities(explained))
    if p == 1:
        return np.asarray((full - base)[:, None, :])
    masks, weights = coalitions(p, n_coalitions, np.random.default_rng(seed))
    gains = _games(probabilities, explained, background, masks) - base[None, None]
    return _solve(masks, weights, gains, full - base[None])


def logit(p: Floats) -> Floats:
    """Log-odds of clipped probabilities."""
    clipped = np.clip(p, CLIP, 1 - CLIP)
    return np.asarray(np.log(clipped / (1 - clipped)))


def coalitions(p: int, n_coalitions: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Floats]:
    """Coalitions in pairs with their complements, and their weights in the regression.

    Sizes are taken whole, from the outside in, while they fit: 1 and p - 1, 2 and p - 2, and so on. The rest
    of the budget is drawn from the other sizes, which share their weight.
    """
    by_size = {s: (p - 1) / (s * (p - s)) for s in range(1, p)}  # kernel weight of all coalitions of a size
    total = sum(by_size.values())
    masks: list[NDArray[np.bool_]] = []
    weights: list[float] = []
    left = n_coalitions
    size = 1
    while size <= p // 2:
        whole = _of_size(p, size, left)
        if whole is None:
            break
        group = whole if 2 * size == p else np.concatenate([whole, ~whole])
        both = by_size[size] if 2 * size == p else by_size[size] + by_size[p - size]
        masks.append(group)
        weights += [both / total / len(group)] * len(group)
        left -= len(group)
        size += 1
    rest = list(range(size, p - size + 1))
    if rest and left >= 2:
        chance = np.array([by_size[s] for s in rest])
        drawn = rng.choice(rest, size=left // 2, p=chance / chance.sum())
        half = np.zeros((len(drawn), p), dtype=bool)
        for row, s in zip(half, drawn, strict=True):
            row[rng.permutation(p)[:s]] = True
        masks.append(np.concatenate([half, ~half]))
        weights += [float(chance.sum()) / total / (2 * len(drawn))] * (2 * len(drawn))
    return np.concatenate(masks), np.array(weights)


def _of_size(p: int, size: int, limit: int) -> NDArray[np.bool_] | None:
    """All coalitions of a size, or None where they and their complements exceed the limit."""
    from itertools import combinations
    from math import comb

    n = comb(p, size)
    if (n if 2 * size == p else 2 * n) > limit:
        return None
    masks = np.zeros((n, p), dtype=bool)
    for row, members in zip(masks, combinations(range(p), size), strict=True):
        row[list(members)] = True
    return masks


def _games(
    probabilities: Callable[[Floats], Floats],
    explained: Floats,
    background: Background,
    masks: NDArray[np.bool_],
) -> Floats:
    """v(S) of every row and coalition, shape (m, n_coalitions, n_labels)."""
    b, p = background.rows.shape
    step = max(1, _BATCH // (len(masks) * b))
    answers = []
    for start in range(0, len(explained), step):
        rows = explained[start : start + step]
        mixed = np.where(masks[None, :, None, :], rows[:, None, None, :], background.rows[None, None])
        predicted = probabilities(mixed.reshape(-1, p)).reshape(len(rows), len(masks), b, -1)
        answers.append(logit(np.einsum("b,rkbl->rkl", background.weights, predicted)))
    return np.concatenate(answers)


def _solve(masks: NDArray[np.bool_], weights: Floats, gains: Floats, full: Floats) -> Floats:
    """Weighted least squares with the constraint that the values add up to the gain of all features."""
    z = masks.astype(np.float64)
    normal = np.linalg.inv((z * weights[:, None]).T @ z)
    free = np.einsum("pk,mkl->mpl", normal @ (z * weights[:, None]).T, gains)
    ones = normal.sum(axis=1)
    excess = (free.sum(axis=1) - full) / ones.sum()
    return np.asarray(free - ones[None, :, None] * excess[:, None, :])
