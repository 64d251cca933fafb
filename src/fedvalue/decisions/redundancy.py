"""Parties that overlap, and parties that complement each other.

How the contribution of B changes if A is present: change(B, A) = [v(A, B) - v(A) - v(B)] / v(B). It is 0 if
they bring different things, -1 if B adds nothing to A, and above 0 if B brings more beside A than alone. The
game v is the learnable one. If a result has no values of pairs, the pairwise Shapley interaction stands in
for v(A, B) - v(A) - v(B): it is the same, averaged over the presence of the other parties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions.contribution import Judge
from fedvalue.decisions.games import PAIRS

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.result import Valuation

INTERACTIONS = "Shapley interactions"

REPLACEABLE = 0.5
"""From this overlap on, a sentence says that one party replaces another."""

TOGETHER = 0.1
"""From this fraction of the total on, a sentence says that two parties complement each other."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The redundancy map.

    Args:
        names: The parties, in the order of rows and columns.
        change: change(row, column), at least -1; NaN on the diagonal and in the row of a party that adds
            nothing alone.
        basis: What the map was computed from.
        sentences: The strongest relations in words, the strongest first.
    """

    names: tuple[str, ...]
    change: Floats = field(repr=False)
    basis: str
    sentences: tuple[str, ...]

    def text(self, row: int, column: int) -> str:
        """One cell: "−83%", "0%", "+31%", or a dot if the change is undefined."""
        change = self.change[row, column]
        if row == column:
            return "–"
        if np.isnan(change):
            return "·"
        part = min(float(change), 9.99)
        return "0%" if abs(part) < 0.005 else f"{'+' if part > 0 else '−'}{abs(part):.0%}"


def redundancy(valuation: Valuation) -> Redundancy | None:
    """The redundancy map of a result; None with one party or without the learnable game."""
    names = tuple(party.name for party in valuation.parties)
    p, total = len(names), valuation.learnable_total
    if p < 2 or total is None:
        return None
    table = (valuation.coalitions or {}).get("learnable")
    if table is not None:
        pairs = np.array([[table[1 << a | 1 << b] for b in range(p)] for a in range(p)])
        alone, basis = np.diag(pairs), PAIRS
        together = pairs - alone[:, None] - alone[None, :]
    elif valuation.interactions is not None:
        alone, basis = _alone(valuation), INTERACTIONS
        together = np.array(valuation.interactions)
    else:
        return None
    judge = Judge(valuation, "learnable")
    change = np.full((p, p), np.nan)
    counts = alone > judge.negligible
    change[counts] = np.maximum(together[counts] / alone[counts, None], -1.0)
    change[np.abs(change) < _ROUNDING] = 0.0
    np.fill_diagonal(change, np.nan)
    return Redundancy(names, change, basis, _sentences(names, change, together, total, judge))


def _alone(valuation: Valuation) -> Floats:
    """Learnable value of each party alone; its Shapley value if the result does not have it."""
    nobody = valuation.uplift_of(())
    values = []
    for party in valuation.parties:
        alone = valuation.uplift_of([party.name])
        if nobody is None or alone is None:
            values.append(party.learnable or 0.0)
        else:
            values.append(nobody.log_loss - alone.log_loss)
    return np.array(values)


def _sentences(
    names: tuple[str, ...], change: Floats, together: Floats, total: float, judge: Judge
) -> tuple[str, ...]:
    """Sentences on the relations that exceed their error."""
    relations: list[tuple[float, str]] = []
    p = len(names)
    for b in range(p):
        for a in range(p):
            if a == b or abs(together[a, b]) <= judge.usual_half_width(float(together[a, b])):
                continue
            if change[b, a] <= -REPLACEABLE:
                part = -float(change[b, a])
                relations.append(
                    (part, f"{names[a]} already brings {part:.0%} of what {names[b]} brings alone")
                )
            if a < b and total > 0 and together[a, b] > TOGETHER * total:
                part = float(together[a, b] / total)
                text = (
                    f"{names[a]} and {names[b]} complement each other: {part:.0%} of the total comes only "
                    "from having both"
                )
                relations.append((part, text))
    relations.sort(key=lambda relation: -relation[0])
    return tuple(text for _, text in relations)
