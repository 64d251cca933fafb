"""Small games whose Shapley values are known in closed form: what solvers are tested on.

Each has `n_players`, `value` and `shapley`, the published answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.games.coalition import Coalition, members


@dataclass(frozen=True, slots=True)
class Unanimity:
    """Worth 1 once all of `needed` are in; they share it equally, the others get nothing.

    The unanimity games are a basis of all games (Shapley 1953).
    """

    n_players: int
    needed: Coalition

    def value(self, coalition: Coalition) -> float:
        """1 when everybody needed is there."""
        return float(coalition & self.needed == self.needed)

    def shapley(self) -> list[float]:
        """1 / |needed| for each of them."""
        share = 1.0 / int(self.needed).bit_count()
        return [share if self.needed >> k & 1 else 0.0 for k in range(self.n_players)]


@dataclass(frozen=True, slots=True)
class Glove:
    """One owner of a left glove, the others own right gloves; a pair is worth 1.

    With n − 1 right gloves the left one gets (n−1)/n and each right one 1/(n(n−1)); for three players
    the well-known (2/3, 1/6, 1/6).
    """

    n_players: int = 3

    def value(self, coalition: Coalition) -> float:
        """1 when player 0 and someone else are there."""
        return float(coalition & 1 == 1 and coalition >> 1 != 0)

    def shapley(self) -> list[float]:
        """The left glove has to come after at least one right one."""
        n = self.n_players
        return [(n - 1) / n] + [1 / (n * (n - 1))] * (n - 1)


@dataclass(frozen=True, slots=True)
class Airport:
    """Aeroplanes share a runway as long as the longest needs (Littlechild and Owen 1973).

    Args:
        lengths: What each player needs, ascending.
    """

    lengths: Sequence[float]

    @property
    def n_players(self) -> int:
        """Number of aeroplanes."""
        return len(self.lengths)

    def value(self, coalition: Coalition) -> float:
        """The longest need."""
        return max((self.lengths[k] for k in members(coalition)), default=0.0)

    def shapley(self) -> list[float]:
        """Each piece of runway is paid in equal parts by all who need it."""
        n = self.n_players
        paid, values = 0.0, []
        for k, (before, here) in enumerate(pairwise([0.0, *self.lengths])):
            paid += (here - before) / (n - k)
            values.append(paid)
        return values


@dataclass(frozen=True, slots=True)
class Majority:
    """Worth 1 once more than half of the players are in; all are alike."""

    n_players: int

    def value(self, coalition: Coalition) -> float:
        """1 for a majority."""
        return float(2 * int(coalition).bit_count() > self.n_players)

    def shapley(self) -> list[float]:
        """Equal shares, by symmetry."""
        return [1 / self.n_players] * self.n_players


@dataclass(frozen=True, slots=True)
class WeightedVoting:
    """Worth 1 once the votes reach the quota (Shapley and Shubik 1954); no closed form."""

    votes: Sequence[int]
    quota: int

    @property
    def n_players(self) -> int:
        """Number of voters."""
        return len(self.votes)

    def value(self, coalition: Coalition) -> float:
        """1 when the coalition has the votes."""
        return float(sum(self.votes[k] for k in members(coalition)) >= self.quota)


@dataclass(frozen=True, slots=True)
class Additive:
    """Each player brings its own value, whoever else is there."""

    values: Sequence[float]

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.values)

    def value(self, coalition: Coalition) -> float:
        """The sum over the members."""
        return sum(self.values[k] for k in members(coalition))

    def shapley(self) -> list[float]:
        """What each brings."""
        return list(self.values)
