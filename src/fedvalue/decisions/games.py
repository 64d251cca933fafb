"""The game behind a decision: what each set of parties is worth together.

A result of up to 12 parties carries the value of every coalition. Beyond that the sum of the members'
values stands in: it is exact for all parties and for none, and in between it ignores that parties
overlap or complement each other. `Game.basis` says which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.result import PartyValue, Valuation

BY = ("learnable", "shapley-cmi")
"""The number that a decision follows: the learnable value (default) or the paper's value."""

COALITIONS = "coalitions"
ADDITIVE = "sum of values"


@dataclass(frozen=True, slots=True)
class Game:
    """Values of coalitions in nats. Inside this package a coalition is a bit mask: party k is bit k.

    Args:
        names: The parties.
        value: Value of a coalition.
        basis: "coalitions" when every coalition was valued, "sum of values" when members' values are added.
        table: Values of all coalitions by bit mask, where there is a table.
    """

    names: tuple[str, ...]
    value: Callable[[int], float] = field(repr=False)
    basis: str
    table: Floats | None = field(default=None, repr=False)

    @property
    def everybody(self) -> int:
        """The coalition of all parties."""
        return (1 << len(self.names)) - 1

    def gain(self, k: int, mask: int) -> float:
        """What party k adds to the other parties of a coalition, whether it is one of them or not."""
        return self.value(mask | 1 << k) - self.value(mask & ~(1 << k))

    def members(self, mask: int) -> tuple[str, ...]:
        """Names of a coalition's parties."""
        return tuple(name for k, name in enumerate(self.names) if mask >> k & 1)

    def dense(self) -> Floats:
        """Values of all coalitions by bit mask; for few parties only."""
        if self.table is not None:
            return self.table
        table = np.zeros(1 << len(self.names))
        for k in range(len(self.names)):
            # Exact for additive games only, the only ones without a table.
            table[1 << k : 1 << (k + 1)] = table[: 1 << k] + self.value(1 << k)
        return table


def check_by(by: str) -> None:
    """Refuse a number that no decision follows."""
    if by not in BY:
        raise InputError(f"by must be one of {', '.join(BY)}, got {by!r}")


def worth(party: PartyValue, by: str) -> float:
    """The number of a party that a decision follows.

    Raises:
        InputError: The result has no learnable values.
    """
    if by == "shapley-cmi":
        return party.value
    if party.learnable is None:
        raise InputError(
            f"party {party.name!r} has no learnable value in this result; "
            "compute it with statistics, or decide by shapley-cmi"
        )
    return party.learnable


def game_of(valuation: Valuation, by: str = "learnable") -> Game:
    """The game that a result describes.

    Raises:
        InputError: The result lacks the number asked for, or its table of coalitions has a wrong size.
    """
    check_by(by)
    names = tuple(party.name for party in valuation.parties)
    table = (valuation.coalitions or {}).get("learnable" if by == "learnable" else "value")
    if table is None:
        return additive_game(names, [worth(party, by) for party in valuation.parties])
    if len(table) != 1 << len(names):
        raise InputError(f"expected the values of {1 << len(names)} coalitions, got {len(table)}")
    return table_game(names, np.asarray(table, dtype=np.float64))


def table_game(names: tuple[str, ...], table: Floats) -> Game:
    """A game given by the values of all coalitions, by bit mask."""
    return Game(names, lambda mask: float(table[mask]), COALITIONS, table)


def additive_game(names: tuple[str, ...], values: list[float]) -> Game:
    """The game in which parties neither overlap nor complement each other."""

    def value(mask: int) -> float:
        return float(sum(v for k, v in enumerate(values) if mask >> k & 1))

    return Game(names, value, ADDITIVE)


def listing(names: Sequence[str], most: int | None = None) -> str:
    """Names as people list them: a, b and c; "a, b and 5 more" beyond `most`."""
    if most is not None and len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
