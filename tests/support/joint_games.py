"""Shapley values of the joint-table game, which the engine never needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedvalue.valuation.frozen_random import antithetic_orders
from fedvalue.valuation.shapley_indices import shapley_of
from fedvalue.valuation.statistics.joint_table_game import JointTableGame

if TYPE_CHECKING:
    from fedvalue.typing import Floats


def shapley_values(
    game: JointTableGame, *, n_permutations: int = 2000, seed: int = 0
) -> tuple[Floats, Floats]:
    """Shapley values and their standard errors: exact up to 20 parties, else from antithetic orders."""
    p = game.n_parties
    if game.table is not None:
        return shapley_of(game.table), np.zeros(p)
    n_pairs = max(2, n_permutations // 2)
    orders = antithetic_orders(n_pairs, p, seed=seed)
    marginals = np.array([_marginals(game, order) for order in orders])
    # The two orders of a pair count as one observation.
    pairs = 0.5 * (marginals[:n_pairs] + marginals[n_pairs:])
    return pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / math.sqrt(n_pairs)


def _marginals(game: JointTableGame, order: NDArray[np.int64]) -> Floats:
    """What each party adds along an order."""
    assert game.members is not None
    assert game.tops is not None
    place = np.full(game.n_parties + 1, -1, dtype=np.int64)
    place[order] = np.arange(game.n_parties)
    best = np.zeros(game.n_parties)
    # A record counts from its last member on.
    np.maximum.at(best, place[game.members].max(axis=1), game.tops)
    marginals = np.zeros(game.n_parties)
    marginals[order] = np.diff(np.maximum.accumulate(best), prepend=0.0)
    return marginals
