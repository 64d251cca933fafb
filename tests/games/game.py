"""What a game is, and its table of all coalitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from fedvalue.errors import InputError
from tests.games.coalition import Coalition

if TYPE_CHECKING:
    from fedvalue.typing import Floats

# 2^24 values are 128 MiB; the time to ask a game for them is the caller's.
MOST_TABLE_PLAYERS = 24


class Game(Protocol):
    """Players and what every coalition of them is worth; nobody is worth 0."""

    @property
    def n_players(self) -> int:
        """Number of players."""

    def value(self, coalition: Coalition) -> float:
        """What the coalition is worth."""


def table(game: Game) -> Floats:
    """The values of all 2^n coalitions, at the index of their mask.

    Raises:
        InputError: Too many players for a table.
    """
    if game.n_players > MOST_TABLE_PLAYERS:
        raise InputError(
            f"a table of all coalitions takes at most {MOST_TABLE_PLAYERS} players, got {game.n_players}"
        )
    return np.array([game.value(Coalition(mask)) for mask in range(1 << game.n_players)], dtype=np.float64)
