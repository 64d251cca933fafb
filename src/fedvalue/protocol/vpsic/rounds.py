"""What crosses a run of `vpsic`: the agreed settings, a round's secret plan, uploads and answers.

A *category* is a pseudo-category: a party's joint code under a secret renaming. The task party's joint code
includes the label.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedvalue.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedvalue.crypto.aes import Blocks
    from fedvalue.typing import Codes

MOST_ROUNDS = 20
MOST_COPIES = 255


@dataclass(frozen=True, slots=True)
class VpsicSettings:
    """What the parties agree on.

    Args:
        rounds: τ, how often everything is counted.
        least_q: Smallest number of copies of an id.
        most_q: Largest; each round draws its own q, uniformly, which the server does not know.
        artificial: Most artificial ids of a round, as a part of the number of samples; each round draws its
            own number from 1 to this.
        harden: Also check the total and every party's own marginals, which the published checks do not.
    """

    rounds: int = 2
    least_q: int = 2
    most_q: int = 8
    artificial: float = 0.5
    harden: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise InputError(f"rounds must be 1 to {MOST_ROUNDS}, got {self.rounds}")
        if not 1 <= self.least_q <= self.most_q <= MOST_COPIES:
            raise InputError(
                f"q must be drawn from 1 <= least_q <= most_q <= {MOST_COPIES}, got {self.least_q} to "
                f"{self.most_q}"
            )
        if not 0 < self.artificial <= 100:
            raise InputError(f"artificial must be above 0 and at most 100, got {self.artificial}")


@dataclass(frozen=True, slots=True)
class Round:
    """A round's plan, drawn by the task party and sent to the data parties; the server does not see it.

    Args:
        index: Number of the round, from 0.
        q: Copies of every id.
        n_artificial: Number of artificial ids.
        key: Encrypts ids in this round.
    """

    index: int
    q: int = field(repr=False)
    n_artificial: int = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """A party's table for the server: encrypted ids in rising order, and the category of each."""

    party: str
    tokens: Blocks = field(repr=False)
    categories: Codes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ArtificialTable:
    """A data party's categories of the artificial ids, in their agreed order, for the task party."""

    party: str
    categories: Codes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """The server's answer: every combination of categories that occurs, and its cardinality.

    Args:
        cells: Categories, one row per combination, one column per party in the order of the uploads.
        counts: Cardinality of each.
    """

    cells: NDArray[np.int64] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
