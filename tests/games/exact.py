"""Shapley values of a game given as a table of all its coalitions (paper, Eq. 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from tests.games.game import Game, table

if TYPE_CHECKING:
    from fedvalue.typing import Floats


def weights(n_players: int) -> Floats:
    """w(s) = s!(n−s−1)!/n!, the weight of a marginal that joins s others; s = 0 … n−1.

    By the recurrence w(s+1) = w(s)·(s+1)/(n−s−1) from w(0) = 1/n: no factorial overflows.
    """
    w = np.empty(n_players)
    w[0] = 1.0 / n_players
    for s in range(n_players - 1):
        w[s + 1] = w[s] * (s + 1) / (n_players - s - 1)
    return w


def shapley_of_table(values: Floats) -> Floats:
    """Shapley values from the values of all 2^n coalitions, the coalition's mask being the index.

    Raises:
        InputError: The length is not a power of two, or there is no player.
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values).bit_length() - 1
    if n < 1 or len(values) != 1 << n:
        raise InputError(f"expected the values of 2^n coalitions with n >= 1, got {len(values)} values")
    w = weights(n)
    size = np.zeros(1, dtype=np.int64)
    for _ in range(n):
        size = np.concatenate([size, size + 1])
    phi = np.empty(n)
    for player in range(n):
        # Axis 1 says whether the player is in: without in [:, 0, :], with in [:, 1, :].
        pairs = values.reshape(-1, 2, 1 << player)
        without = size.reshape(-1, 2, 1 << player)[:, 0, :]
        phi[player] = np.sum(w[without] * (pairs[:, 1, :] - pairs[:, 0, :]))
    return phi


def shapley(game: Game) -> Floats:
    """Shapley values of a game with few players, from all its coalitions."""
    return shapley_of_table(table(game))
