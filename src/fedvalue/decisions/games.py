"""The game behind a decision: what each subset of the parties is worth together.

A result may carry the value of every coalition (plain valuations of up to 12 parties). Where it does
not, the sum of the members' values stands in; that is exact for everybody together and for nobody, and
ignores in between that parties replace or complement each other. `Game.basis` says which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.result import PartyValue, Valuation

BY = ("learnable", "shapley-cmi")
"""What a decision can go by: the learnable value (default) or the paper's value."""

COALITIONS = "coalitions"
ADDITIVE = "sum of values"


@dataclass(frozen=True, slots=True)
class Game:
    """Value of a coalition, given as a bit mask (party k is bit k), in nats.

    Args:
        names: The parties.
        value: The value of a coalition.
        basis: "coalitions" when each coalition was valued, "sum of values" when members' values are added.
        table: The values of all coalitions by bit mask, when there is a table.
    """

    names: tuple[str, ...]
    value: Callable[[int], float] = field(repr=False)
    basis: str
    table: Floats | None = field(default=None, repr=False)

    @property
    def everybody(self) -> int:
        """The coalition of all parties."""
        return (1 << len(self.names)) - 1


def check_by(by: str) -> None:
    """Refuse a value that no decision goes by."""
    if by not in BY:
        raise InputError(f"by must be one of {', '.join(BY)}, got {by!r}")


def worth(party: PartyValue, by: str) -> float:
    """The number of a party that a decision goes by.

    Raises:
        InputError: The result was computed without learnable values.
    """
    if by == "shapley-cmi":
        return party.value
    if party.learnable is None:
        raise InputError(
            f"party {party.name!r} has no learnable value in this result; "
            "compute it with statistics, or decide by shapley-cmi"
        )
    return party.learnable


def half_width(party: PartyValue, by: str) -> float | None:
    """Half of a party's 95% interval, or None when its data error is not known.

    The spread of the learnable value over the draw of the samples is taken to be that of the value.
    """
    if party.se_data is None:
        return None
    sampling = party.se_sampling if by == "shapley-cmi" else (party.se_learnable or 0.0)
    return 1.959963984540054 * float(np.hypot(sampling, party.se_data))


def game_of(result: Valuation, by: str = "learnable") -> Game:
    """The game that a result describes."""
    check_by(by)
    names = tuple(party.name for party in result.parties)
    key = "learnable" if by == "learnable" else "value"
    table = None if result.coalitions is None else result.coalitions.get(key)
    if table is None:
        return additive_game(names, [worth(party, by) for party in result.parties])
    if len(table) != 1 << len(names):
        raise InputError(f"expected the values of {1 << len(names)} coalitions, got {len(table)}")
    return table_game(names, np.asarray(table, dtype=np.float64))


def table_game(names: tuple[str, ...], table: Floats) -> Game:
    """A game given by the values of all coalitions, by bit mask."""
    return Game(names, lambda mask: float(table[mask]), COALITIONS, table)


def additive_game(names: tuple[str, ...], values: list[float]) -> Game:
    """The game in which parties neither replace nor complement each other."""

    def value(mask: int) -> float:
        return float(sum(v for k, v in enumerate(values) if mask >> k & 1))

    return Game(names, value, ADDITIVE)


def dense(game: Game) -> Floats:
    """The values of all coalitions by bit mask; only for few parties."""
    if game.table is not None:
        return game.table
    table = np.zeros(1 << len(game.names))
    for k in range(len(game.names)):
        # Exact for additive games only, the only ones without a table.
        table[1 << k : 1 << (k + 1)] = table[: 1 << k] + game.value(1 << k)
    return table


def members(mask: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a coalition's parties."""
    return tuple(name for k, name in enumerate(names) if mask >> k & 1)
