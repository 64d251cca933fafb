"""Shapley values and interactions of a game given by the values of all coalitions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedvalue.typing import Floats


def shapley_coefficients(p: int) -> Floats:
    """How v of each coalition counts in each player's Shapley value, shape (2^p, p)."""
    masks = np.arange(1 << p)
    sizes = np.array([int(mask).bit_count() for mask in masks])
    inside = (masks[:, None] >> np.arange(p)) & 1 == 1
    # Weight of a coalition of size s that a player joins: s! (p - s - 1)! / p!
    joins = np.array([1.0 / (p * math.comb(p - 1, s)) if s < p else 0.0 for s in range(p + 1)])
    joined = np.concatenate([[0.0], joins[:-1]])
    return np.asarray(np.where(inside, joined[sizes][:, None], -joins[sizes][:, None]))


def shapley_of(game: Floats) -> Floats:
    """Shapley value of each player, shape (p,)."""
    p = len(game).bit_length() - 1
    return np.asarray(game @ shapley_coefficients(p))


def interactions_of(game: Floats) -> Floats:
    """Shapley interaction index of each pair of players, shape (p, p); zeros on the diagonal.

    The mean over the coalitions behind which the two may come of v(S + i + j) - v(S + i) - v(S + j) + v(S)
    (Grabisch and Roubens 1999): negative where the two tell the same, positive where they need each other.
    """
    p = len(game).bit_length() - 1
    found = np.zeros((p, p))
    sizes = np.array([int(mask).bit_count() for mask in range(1 << p)])
    weight = np.array([1.0 / ((p - 1) * math.comb(p - 2, s)) if s <= p - 2 else 0.0 for s in range(p + 1)])
    masks = np.arange(1 << p)
    for j in range(p):
        for i in range(j):
            behind = masks[(masks >> i & 1 == 0) & (masks >> j & 1 == 0)]
            a, b = 1 << i, 1 << j
            second = game[behind | a | b] - game[behind | a] - game[behind | b] + game[behind]
            found[i, j] = found[j, i] = float(np.sum(weight[sizes[behind]] * second))
    return found
