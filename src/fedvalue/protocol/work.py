"""The seam between a party's state machine and the protocol it works by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fedvalue.protocol import messages as m
from fedvalue.protocol.outcome import Outcome

if TYPE_CHECKING:
    from fedvalue.typing import Codes

Addressed: TypeAlias = tuple[str, m.AnyMessage]
"""A recipient and a message."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a party: X_t, Y, or a data party's joint code."""

    name: str
    codes: Codes = field(repr=False)
    n_codes: int


class Work(Protocol):
    """What a party does between the confirmation of keys and the agreement on results."""

    def begin(self) -> list[Addressed]:
        """The first uploads."""

    def take(self, sender: str, message: m.AnyMessage) -> list[Addressed]:
        """A message of a server; returns further uploads."""

    @property
    def complete(self) -> bool:
        """Whether all results are here and every check has passed."""

    def outcome(self) -> Outcome:
        """What this party has learned."""

    def digests(self) -> dict[str, bytes]:
        """Per peer, a digest of what both must have seen."""
