"""Columns that reproduce the label: whoever has one is neither invited nor paid before somebody looks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.decisions.games import listing

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

_SHOWN = 6  # names in a sentence


@dataclass(frozen=True, slots=True)
class Leaks:
    """Columns of some parties that reproduce the label.

    Args:
        columns: A party and its column each.
    """

    columns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, valuation: Valuation, parties: Collection[str]) -> Leaks:
        """Those of these parties."""
        return cls(
            tuple((c.party, c.name) for c in valuation.columns if c.reproduces_label and c.party in parties)
        )

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties that have them, each once."""
        return tuple(dict.fromkeys(party for party, _ in self.columns))

    @property
    def suspicion(self) -> str:
        """As in "column 'loss' of shop reproduces the label and may be known only after it"."""
        what = listing([f"column {name!r} of {party}" for party, name in self.columns], _SHOWN)
        s = "s" if len(self.columns) == 1 else ""
        return f"{what} reproduce{s} the label and may be known only after it"

    @property
    def remedy(self) -> str:
        """As in "if it is known only then, leave it out and value again"."""
        they_are, them = ("it is", "it") if len(self.columns) == 1 else ("they are", "them")
        return f"if {they_are} known only then, leave {them} out and value again"
