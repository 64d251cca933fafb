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
    overlap = redundancy(valuation)
    if overlap is None:
        return None
    p = len(overlap.names)
    few = p <= MAP_PARTIES
    rows = tuple(
        (name, tuple(_cell(overlap, b, a) for a in range(p))) for b, name in enumerate(overlap.names)
    )
    return Overlap(
        sentences=overlap.sentences[:6],
        names=overlap.names,
        rows=rows if few else (),
        pairs=() if few else _pairs(overlap),
        basis="Averaged over the presence of the other parties." if overlap.basis == INTERACTIONS else "",
    )


def _pairs(overlap: Redundancy) -> tuple[tuple[str, OverlapCell], ...]:
    p = len(overlap.names)
    known = [(b, a) for b in range(p) for a in range(p) if not np.isnan(overlap.change[b, a])]
    known.sort(key=lambda pair: -abs(overlap.change[pair]))
    return tuple(
        (f"{overlap.names[b]} beside {overlap.names[a]}", _cell(overlap, b, a))
        for b, a in known[:PAIRS_LISTED]
    )


def _cell(overlap: Redundancy, b: int, a: int) -> OverlapCell:
    change = overlap.change[b, a]
    if np.isnan(change):
        return OverlapCell(overlap.text(b, a), "empty", 0.0)
    kind = "overlaps" if change < 0 else "complements"
    return OverlapCell(overlap.text(b, a), kind, float(min(abs(change), 1.0)))
