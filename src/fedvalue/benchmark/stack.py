"""A stack: the mixture of several learners' predictions that suits held-out labels best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedvalue.typing import Floats

_STEPS = 300
_IMAGINED = 2.0


def mixture_weights(of_true_label: Floats) -> Floats:
    """Weights, non-negative and adding up to 1, with the largest likelihood of the labels.

    Expectation maximisation on a concave objective, so where it starts does not matter. Two imagined rows
    that the last member explains keep the others from a weight that one or two rows decide.

    Args:
        of_true_label: Probability of each row's true label by each member, shape (n_rows, n_members); the
            last member is the prediction without the data that is being valued.
    """
    n, m = of_true_label.shape
    weights = np.full(m, 1.0 / m)
    for _ in range(_STEPS):
        parts = of_true_label * weights
        share = (parts / parts.sum(axis=1, keepdims=True)).sum(axis=0)
        share[-1] += _IMAGINED
        new = share / (n + _IMAGINED)
        if np.abs(new - weights).max() < 1e-6:
            return np.asarray(new)
        weights = new
    return weights
