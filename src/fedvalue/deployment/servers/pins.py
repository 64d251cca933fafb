"""The pinned cards of a server, read once at its start.

A new card needs a restart, which does no harm: runs continue from their journals and parties
connect again. gRPC offers to change certificates while it runs; a server that did so at every
handshake did not survive many handshakes at once (`docs/decisions/0401` has what was tried).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.identity.identity_files import read_cards

if TYPE_CHECKING:
    from pathlib import Path

    from fedvalue.identity.cards import Card


class Pins:
    """Who is known here.

    Raises:
        ConfigError: A card cannot be read, or two have one name.
    """

    def __init__(self, folder: Path, own: Card) -> None:
        self._cards = read_cards(folder) | {own.name: own}

    def cards(self) -> dict[str, Card]:
        """All pinned cards by name, with our own."""
        return dict(self._cards)

    def roots(self) -> bytes:
        """All pinned certificates as one PEM text: the only ones that may open a connection."""
        return b"".join(card.pem for card in self._cards.values())
