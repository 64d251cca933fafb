"""The interface of a method.

To add one, subclass `Method`, or `GameMethod` where coalitions have values:

    class Variance(Method):
        name = "variance"
        about = "sum of the variances of a party's columns"

        def value(self, table):
            return {party: sum(map(np.var, columns.values())) for party, columns in table.parties.items()}

and run `fedvalue benchmark --method mine:Variance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedvalue.valuation.shapley_indices import shapley_of

if TYPE_CHECKING:
    from fedvalue.benchmark.problem import VerticalTable
    from fedvalue.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A method's values of one table.

    Args:
        values: The value of every data party, on any scale.
        game: Values of all coalitions by mask, where the method has them; its best pair is then the pair
            with the largest value, and the two parties with the largest values otherwise.
    """

    values: Mapping[str, float]
    game: Floats | None = field(default=None, repr=False)


class Method(ABC):
    """A way to value data.

    Attributes:
        name: On the command line and in the tables.
        about: Description in a few words.
        in_nats: The values add up to an information gain in nats per row, so that their total can be
            compared with the true total.
        version: Number of the method's code, for slow methods: estimates are kept on disk under it. None
            computes them again in every run.
    """

    name: ClassVar[str]
    about: ClassVar[str] = ""
    in_nats: ClassVar[bool] = False
    version: ClassVar[int | None] = None

    @abstractmethod
    def value(self, table: VerticalTable) -> Estimate | Mapping[str, float]:
        """The values of all data parties by name, from the table alone."""


class GameMethod(Method):
    """A method that values coalitions; a party's value is its Shapley value."""

    @abstractmethod
    def coalition(self, table: VerticalTable, mask: int) -> float:
        """The value that a coalition, never empty, adds to the task party's data; party k is bit k."""

    def value(self, table: VerticalTable) -> Estimate:
        """Shapley values over the data parties, from all coalitions."""
        game = np.zeros(1 << table.n_parties)
        for mask in range(1, len(game)):
            game[mask] = self.coalition(table, mask)
        return estimate_of_game(table, game)


def estimate_of_game(table: VerticalTable, game: Floats) -> Estimate:
    """Shapley values of a game by mask."""
    return Estimate(dict(zip(table.names, shapley_of(game).tolist(), strict=True)), game)
