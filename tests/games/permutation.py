"""Shapley values of any game by sampled orders of the players."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.valuation.permutations.sampling import RunningMoments
from tests.games.coalition import NOBODY, with_player

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedvalue.typing import Floats
    from tests.games.game import Game


@dataclass(frozen=True, slots=True, eq=False)
class SampledShapley:
    """Sampled Shapley values.

    Args:
        values: One per player.
        se: Their standard errors.
        n_permutations: Orders walked.
    """

    values: Floats
    se: Floats
    n_permutations: int


def marginals(game: Game, order: Sequence[int]) -> Floats:
    """What each player adds when the players join in this order."""
    found = np.zeros(game.n_players)
    here = NOBODY
    before = game.value(here)
    for player in order:
        here = with_player(here, int(player))
        after = game.value(here)
        found[player] = after - before
        before = after
    return found


def sampled_shapley(game: Game, *, n_permutations: int = 5000, seed: int = 0) -> SampledShapley:
    """Shapley values from random orders, each walked forwards and backwards.

    Args:
        game: Any game; `value` is asked about n_players + 1 times per order.
        n_permutations: Orders to walk, rounded up to pairs.
        seed: Of the orders.

    Raises:
        InputError: Fewer than two permutations.
    """
    if n_permutations < 2:
        raise InputError(f"n_permutations must be at least 2, got {n_permutations}")
    rng = np.random.default_rng(seed)
    moments = RunningMoments.empty(game.n_players)
    for _ in range((n_permutations + 1) // 2):
        order = rng.permutation(game.n_players).tolist()
        pair = np.mean([marginals(game, order), marginals(game, order[::-1])], axis=0)
        moments = moments + RunningMoments.of(pair[None, :])
    return SampledShapley(moments.mean, moments.se, 2 * moments.n)
