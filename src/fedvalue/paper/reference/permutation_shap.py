"""SHAP values of any model by sampled permutations (Štrumbelj and Kononenko).

For each explained row a background row is walked over to it, feature after feature in a random order;
each step's change of the score is credited to the feature that moved. Every order is also walked
backwards (antithetic), with the same background row. All explained rows go through the model
together, one call per order, so the cost is that of a few large predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats


def permutation_shap(
    score: Callable[[Floats], Floats],
    explained: Floats,
    background: Floats,
    *,
    n_orders: int,
    seed: int,
) -> Floats:
    """Interventional SHAP values, estimated.

    Args:
        score: Rows -> scores of shape (n_rows, n_outputs).
        explained: Rows to explain, shape (m, p).
        background: Rows to draw the reference from, shape (b, p).
        n_orders: Random orders per explained row; each is walked both ways.
        seed: Of orders and background draws.

    Returns:
        Shape (m, p, n_outputs). Over the features they add up to the score minus the mean score of
        the background rows drawn.
    """
    if n_orders < 1:
        raise InputError(f"n_orders must be at least 1, got {n_orders}")
    rng = np.random.default_rng(seed)
    m, p = explained.shape
    total: Floats | None = None
    for _ in range(n_orders):
        start = background[rng.integers(len(background), size=m)]
        order = rng.permuted(np.tile(np.arange(p), (m, 1)), axis=1)
        for walk in (order, order[:, ::-1]):
            step = _credit(score, explained, start, walk)
            total = step if total is None else total + step
    assert total is not None
    return np.asarray(total / (2 * n_orders))


def _credit(
    score: Callable[[Floats], Floats], explained: Floats, start: Floats, order: NDArray[np.int64]
) -> Floats:
    """The change of the score as each feature moves from `start` to `explained`, in the given orders."""
    m, p = explained.shape
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(p), (m, p)), axis=1)
    # moved[k, i, j]: after k steps of row i, has feature j moved?
    moved = rank[None] < np.arange(p + 1)[:, None, None]
    rows = np.where(moved, explained[None], start[None])
    scores = score(rows.reshape((p + 1) * m, p)).reshape(p + 1, m, -1)
    changes = np.diff(scores, axis=0)  # [k, i]: credited to feature order[i, k]
    return np.asarray(np.take_along_axis(changes.transpose(1, 0, 2), rank[:, :, None], axis=1))
