"""Which parties overlap, as the report shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions.redundancy import INTERACTIONS, redundancy

if TYPE_CHECKING:
    from fedvalue.decisions.redundancy import Redundancy
    from fedvalue.valuation.result import Valuation

MAP_PARTIES = 6
"""Up to here the overlap is a square table, which fits a phone; beyond, a list of the strongest pairs."""

PAIRS_LISTED = 12


@dataclass(frozen=True, slots=True)
class OverlapCell:
    """One cell of the overlap table: its text, its kind, and how strong its colour is (0 to 1)."""

    text: str
    kind: str
    strength: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """Which parties overlap: a square table for few parties, else the strongest pairs.

    Args:
        sentences: The strongest relations in words.
        names: The parties.
        rows: One row of cells per party; empty for many parties.
        pairs: "A beside B" and the change; empty for few parties.
        basis: What it was computed from, where that needs saying.
    """

    sentences: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[OverlapCell, ...]], ...]
    pairs: tuple[tuple[str, OverlapCell], ...]
    basis: str


def overlap(valuation: Valuation) -> Overlap | None:
    """The overlap of a result's parties; None with one party or without the learnable game."""
    found = redundancy(valuation)
    if found is None:
        return None
    p = len(found.names)
    few = p <= MAP_PARTIES
    rows = tuple((name, tuple(_cell(found, b, a) for a in range(p))) for b, name in enumerate(found.names))
    return Overlap(
        sentences=found.sentences[:6],
        names=found.names,
        rows=rows if few else (),
        pairs=() if few else _pairs(found),
        basis="Averaged over the presence of the other parties." if found.basis == INTERACTIONS else "",
    )


def _pairs(found: Redundancy) -> tuple[tuple[str, OverlapCell], ...]:
    p = len(found.names)
    known = [(b, a) for b in range(p) for a in range(p) if not np.isnan(found.change[b, a])]
    known.sort(key=lambda pair: -abs(found.change[pair]))
    return tuple(
        (f"{found.names[b]} beside {found.names[a]}", _cell(found, b, a)) for b, a in known[:PAIRS_LISTED]
    )


def _cell(found: Redundancy, b: int, a: int) -> OverlapCell:
    change = found.change[b, a]
    if np.isnan(change):
        return OverlapCell(found.text(b, a), "empty", 0.0)
    kind = "overlaps" if change < 0 else "complements"
    return OverlapCell(found.text(b, a), kind, float(min(abs(change), 1.0)))
