"""The pinned cards of a server, read again when their folder changes: a new participant needs no restart."""

from __future__ import annotations

import threading
from pathlib import Path

from fedvalue.crypto.identity import Card
from fedvalue.deployment.identity_files import read_cards
from fedvalue.errors import ConfigError


class Pins:
    """Who is known here. A card that cannot be read leaves the last good set in force."""

    def __init__(self, folder: Path, own: Card) -> None:
        self._folder = folder
        self._own = own
        self._lock = threading.Lock()
        self._seen: tuple[tuple[str, int], ...] = ()
        self._cards: dict[str, Card] = {}
        self._load()

    def cards(self) -> dict[str, Card]:
        """All pinned cards by name, with our own."""
        with self._lock:
            try:
                self._load()
            except ConfigError:
                if not self._cards:
                    raise
            return dict(self._cards)

    def roots(self) -> bytes:
        """All pinned certificates as one PEM text: the only ones that may open a connection."""
        return b"".join(card.pem for card in self.cards().values())

    def _load(self) -> None:
        seen = tuple(sorted((path.name, path.stat().st_mtime_ns) for path in self._folder.glob("*.json")))
        if seen == self._seen and self._cards:
            return
        self._cards = read_cards(self._folder) | {self._own.name: self._own}
        self._seen = seen
