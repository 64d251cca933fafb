"""Who replaces and who complements whom.

B is replaceable by A to the part r(B by A) = 1 - [v(A, B) - v(A)] / v(B): of what B tells alone, the
part that A tells already. 0 when they tell different things, 1 when B adds nothing to A, negative when
B tells more beside A than alone (they complement each other). The game v is the learnable one where a
result carries it, so that memorised codes replace nobody; else the pairwise Shapley interaction I
stands in for v(A, B) - v(A) - v(B), so that r(B by A) = -I(A, B) / v(B), averaged over the other
parties' presence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.statistics.guard import MEMORISED, NEAR_UNIQUE

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.result import Valuation

PAIRS = "pairs of parties"
INTERACTIONS = "Shapley interactions"

WORTH_SAYING = 0.5
"""A sentence is said about a pair from this part on."""

_ROUNDING = 1e-9
_NOTHING = 0.01  # part of the total below which a party tells nothing that could be replaced


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The redundancy map.

    Args:
        names: The parties, in the order of the rows and columns. matrix: r(row by column), at most 1;
        NaN on the diagonal, for rows of parties that tell nothing and where nothing is said. basis:
        What it was computed from. sentences: The strongest relations in words, the strongest first.
    """

    names: tuple[str, ...]
    matrix: Floats = field(repr=False)
    basis: str
    sentences: tuple[str, ...]


def redundancy(result: Valuation) -> Redundancy | None:
    """The redundancy map of a result, or None when it has neither coalitions nor interactions."""
    names = tuple(party.name for party in result.parties)
    p = len(names)
    if p < 2:
        return None
    pairs = _pairs(result, p)
    if pairs is not None:
        alone = np.diag(pairs)
        together = pairs - alone[:, None] - alone[None, :]
        total = result.learnable_total if result.learnable_total is not None else result.total
        basis = PAIRS
    elif result.interactions is not None:
        alone = np.array([party.alone for party in result.parties])
        together = np.array(result.interactions)
        total, basis = result.total, INTERACTIONS
        # Row numbers "replace" everybody in the plug-in game; say nothing about who memorises.
        memorised = np.array([bool({MEMORISED, NEAR_UNIQUE} & set(party.flags)) for party in result.parties])
        together = np.where(memorised[:, None] | memorised[None, :], np.nan, together)
    else:
        return None
    matrix = np.full((p, p), np.nan)
    tells = alone > _NOTHING * total
    matrix[tells] = np.minimum(-together[tells] / alone[tells, None], 1.0)
    matrix[np.abs(matrix) < _ROUNDING] = 0.0
    np.fill_diagonal(matrix, np.nan)
    return Redundancy(names, matrix, basis, _sentences(names, matrix, together, total))


def _pairs(result: Valuation, p: int) -> Floats | None:
    """Learnable values of all pairs, single parties on the diagonal, where the result carries them."""
    tables = result.coalitions or {}
    if "learnable" in tables:
        table = tables["learnable"]
        return np.array([[table[1 << a | 1 << b] for b in range(p)] for a in range(p)])
    if "learnable_pairs" in tables:
        return np.array(tables["learnable_pairs"]).reshape(p, p)
    return None


def _sentences(names: tuple[str, ...], matrix: Floats, together: Floats, total: float) -> tuple[str, ...]:
    said: list[tuple[float, str]] = []
    p = len(names)
    for b in range(p):
        for a in range(p):
            if a != b and matrix[b, a] >= WORTH_SAYING:
                said.append(
                    (float(matrix[b, a]), f"{names[b]} is {matrix[b, a]:.0%} replaceable by {names[a]}")
                )
        for a in range(b):
            if together[a, b] > 0.1 * total:
                part = float(together[a, b] / total)
                said.append(
                    (part, f"{names[a]} and {names[b]} complement each other: {part:.0%} of the total "
                           "is told only by both together")
                )  # fmt: skip
    said.sort(key=lambda pair: -pair[0])
    return tuple(text for _, text in said)
