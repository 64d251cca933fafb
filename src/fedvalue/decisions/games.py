"""The game behind a decision: the value of each set of parties.

A result of up to 12 parties has the value of every coalition. For more parties, the game of pairs stands in:

    v(S) = sum of a_i over the members + sum of I_ij over their pairs,  a_i = value_i - half of sum_j I_ij

with the parties' values and pairwise interactions. It has the same Shapley values and interactions as the
true game, is exact for nobody and for everybody, and misses only joint effects of three or more parties. Its
error is known if the result has the value of each party alone and the loss without it: `Game.error`. Without
interactions, values are added. `Game.basis` names the kind.
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
"""The basis of a decision: the learnable value (default) or the paper's value."""

COALITIONS = "coalitions"
CHAIN = "an order of joining"
PAIRS = "pairs of parties"
ADDITIVE = "sum of values"


@dataclass(frozen=True, slots=True)
class Game:
    """Values of coalitions in nats. Inside this package a coalition is a bit mask: party k is bit k.

    Args:
        names: The parties.
        value: Value of a coalition.
        basis: "coalitions" if every coalition was valued, "pairs of parties" if values and interactions are
            added, "sum of values" if values alone are.
        table: Values of all coalitions by bit mask, if known.
        error: Error of each party's gains, where it can be checked; empty for a table.
        gain_of: What a party adds to a coalition without it, if that takes less than two values.
    """

    names: tuple[str, ...]
    value: Callable[[int], float] = field(repr=False)
    basis: str
    table: Floats | None = field(default=None, repr=False)
    error: tuple[float, ...] = ()
    gain_of: Callable[[int, int], float] | None = field(default=None, repr=False)

    def error_of(self, k: int) -> float:
        """Error of the gains of party k because not every coalition was valued."""
        return self.error[k] if self.error else 0.0

    @property
    def everybody(self) -> int:
        """The coalition of all parties."""
        return (1 << len(self.names)) - 1

    def gain(self, k: int, mask: int) -> float:
        """What party k adds to the other parties of a coalition, of which it may be a member."""
        if self.gain_of is not None:
            return self.gain_of(k, mask & ~(1 << k))
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
            # The gain of party k grows by the same amount with each other member: true of sums and of pairs.
            gain = np.full(1 << k, self.value(1 << k))
            for j in range(k):
                both = self.value(1 << k | 1 << j) - self.value(1 << k) - self.value(1 << j)
                gain[(np.arange(1 << k) >> j & 1) == 1] += both
            table[1 << k : 1 << (k + 1)] = table[: 1 << k] + gain
        return table


def check_by(by: str) -> None:
    """Refuse an unknown basis of decisions."""
    if by not in BY:
        raise InputError(f"by must be one of {', '.join(BY)}, got {by!r}")


def worth(party: PartyValue, by: str) -> float:
    """The value of a party on which a decision is based; refused if the result does not have it."""
    if by == "shapley-cmi":
        if party.value is None:
            raise InputError(f"party {party.name!r} has no Shapley-CMI in this result; decide by learnable")
        return party.value
    if party.learnable is None:
        raise InputError(
            f"party {party.name!r} has no learnable value in this result; "
            "compute it with statistics, or decide by shapley-cmi"
        )
    return party.learnable


def game_of(valuation: Valuation, by: str = "learnable") -> Game:
    """The game of a result; refused if it lacks the values, or its table of coalitions has a wrong size."""
    check_by(by)
    names = tuple(party.name for party in valuation.parties)
    table = (valuation.coalitions or {}).get("learnable" if by == "learnable" else "value")
    if table is None:
        values = [worth(party, by) for party in valuation.parties]
        if by == "learnable" and valuation.interactions is not None:
            return pair_game(names, values, np.array(valuation.interactions), _ends(valuation))
        return additive_game(names, values)
    if len(table) != 1 << len(names):
        raise InputError(f"expected the values of {1 << len(names)} coalitions, got {len(table)}")
    values_of = np.asarray(table, dtype=np.float64)
    return Game(names, lambda mask: float(values_of[mask]), COALITIONS, values_of)


def pair_game(
    names: tuple[str, ...],
    values: list[float],
    interactions: Floats,
    ends: Sequence[tuple[float, float]] = (),
) -> Game:
    """The game of members and pairs with these Shapley values and interactions.

    `ends` has the value of each party alone and the loss without it, if known.
    """
    pairs = np.array(interactions, dtype=np.float64)
    np.fill_diagonal(pairs, 0.0)
    single = np.asarray(values) - pairs.sum(axis=1) / 2

    def value(mask: int) -> float:
        inside = [k for k in range(len(names)) if mask >> k & 1]
        return float(single[inside].sum() + pairs[np.ix_(inside, inside)].sum() / 2)

    def gain_of(k: int, mask: int) -> float:
        return float(single[k] + pairs[k, [j for j in range(len(names)) if mask >> j & 1]].sum())

    last = single + pairs.sum(axis=1)
    error = tuple(max(abs(single[k] - alone), abs(last[k] - lost)) for k, (alone, lost) in enumerate(ends))
    return Game(names, value, PAIRS, error=error, gain_of=gain_of)


def _ends(valuation: Valuation) -> list[tuple[float, float]]:
    """Value of each party alone and loss without it, in nats; empty unless all are known."""
    names = [party.name for party in valuation.parties]
    nobody, everybody = valuation.uplift_of(()), valuation.uplift_of(names)
    ends = []
    for name in names:
        alone = valuation.uplift_of([name])
        without = valuation.uplift_of(set(names) - {name})
        if nobody is None or everybody is None or alone is None or without is None:
            return []
        ends.append((nobody.log_loss - alone.log_loss, without.log_loss - everybody.log_loss))
    return ends


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
