"""The game behind a decision: what each subset of the parties is worth together.

A result may carry the value of every coalition (plain valuations of up to 12 parties). Where it does
not, the sum of the members' values stands in; that is exact for everybody together and for nobody, and
ignores in between that parties replace or complement each other. `Game.basis` says which one it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.result import PartyValue, Valuation

BY = ("learnable", "shapley-cmi")
"""What a decision can go by: the learnable value (default) or the paper's value."""

_Z = 1.959963984540054  # the normal distribution's 97.5% quantile

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


def half_width(party: PartyValue, by: str, n_samples: int) -> float | None:
    """Half of a party's 95% interval, or None when its data error is not known. With noise: of the noise.

    The learnable value has no memorised part, so its error is at most that of the value, and for a party that
    teaches little it is that of a log-likelihood ratio near zero: 2n L is then about chi-square with 1
    degree of freedom and noncentrality 2n L, whose standard deviation is sqrt(2 L / n + 1 / (2 n^2)) for L.
    """
    if party.noise_scale is not None:
        return party.half_width
    if party.se_data is None:
        return None
    if by == "shapley-cmi":
        return _Z * math.hypot(party.se_sampling or 0.0, party.se_data)
    near_zero = math.sqrt(2 * max(party.learnable or 0.0, 0.0) / n_samples + 1 / (2 * n_samples**2))
    return _Z * math.hypot(party.se_learnable or 0.0, min(party.se_data, near_zero))


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


def game_of_counts(counts: JointCounts, by: str = "learnable") -> Game:
    """The game on a joint table, for any number of parties.

    Up to 20 parties every coalition is valued; beyond, a coalition is valued when it is asked for.
    """
    from fedvalue.information.entropy import conditional_entropy
    from fedvalue.valuation.statistics import learnable

    check_by(by)
    if counts.n_parties <= learnable.MAX_PARTIES_DENSE:
        value, learned = learnable.coalition_games(counts)
        return table_game(counts.names, learned if by == "learnable" else value)
    if by == "learnable":
        return Game(counts.names, learnable.learnable_game(counts), COALITIONS)

    def h(mask: int) -> float:
        columns = [counts.parties[:, k] for k in range(counts.n_parties) if mask >> k & 1]
        return conditional_entropy(counts.label, [counts.task, *columns], counts.count)

    nobody = h(0)
    return Game(counts.names, lambda mask: nobody - h(mask), COALITIONS)
