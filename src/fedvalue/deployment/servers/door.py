"""A server's network port, which can be opened again with other certificates while runs go on.

gRPC reads the certificates that it trusts when a port is opened, and replacing them in place is not safe
(decision 0401). So the port is closed and opened again within milliseconds: calls under way finish on the
old one, and clients connect again by themselves. The folder of cards is watched: a card that is added there
counts within seconds, and one that is removed is revoked.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from fedvalue.deployment.network.rpc_server import NetworkServer
from fedvalue.errors import EngineError, FedValueError
from fedvalue.identity.identity_files import read_pinned

if TYPE_CHECKING:
    from fedvalue.deployment.config import ServerConfig
    from fedvalue.deployment.servers.observability import Log
    from fedvalue.deployment.servers.relay_server import RelayServer
    from fedvalue.identity.cards import Card, Identity

WATCH_SECONDS = 2.0
"""How often the folder of cards is looked at."""
_OLD_CALLS_SECONDS = 30.0
"""How long calls may finish on the old port: longer than the longest long poll."""
_FREE_SECONDS = 10.0
"""How long gRPC may take to free the port; it does so in the background, usually at once."""


class Door:
    """The port, opened for the pinned cards and the open lobbies. Any thread may call any method."""

    def __init__(self, config: ServerConfig, identity: Identity, relay: RelayServer, log: Log) -> None:
        self._config = config
        self._identity = identity
        self._relay = relay
        self._log = log
        self._lock = threading.Lock()
        self._started = False
        self._stopped = threading.Event()
        self._trusted: set[bytes] | None = None  # None while the port is closed
        self._network = self._opened(config.listen, self._cards())
        self.port = self._network.port

    def start(self) -> None:
        """Start answering."""
        with self._lock:
            self._network.start()
            self._started = True
        threading.Thread(target=self._watch, name="cards", daemon=True).start()

    def reopen(self) -> None:
        """Trust what is in the folder of cards and in the lobbies now, if that has changed.

        Raises:
            ConfigError: A card cannot be read; the port stays as it is.
            EngineError: Another process has taken the port; the watch over the cards tries again.
        """
        with self._lock:
            cards = self._cards()
            if not self._started or self._certificates(cards) == self._trusted:
                return
            self._network.close(_OLD_CALLS_SECONDS)
            self._trusted = None
            self._network = self._opened_again(cards)
            self._network.start()
        self._log.event("reopened", reason=f"{len(self._relay.cards)} cards are trusted")

    def stop(self, grace: float) -> None:
        """Accept no new calls; those under way have `grace` seconds to finish."""
        self._stopped.set()
        with self._lock:
            self._started = False
            self._network.stop(grace)

    def _watch(self) -> None:
        """Follow changes of the folder of cards. A file that is not a card changes nothing and is logged."""
        seen = self._files()
        while not self._stopped.wait(WATCH_SECONDS):
            files = self._files()
            if files == seen and self._trusted is not None:
                continue
            seen = files
            try:
                self.reopen()
            except FedValueError as error:
                self._log.event("cards", level="error", code=error.code, reason=str(error))

    def _files(self) -> set[tuple[str, int, int]]:
        """Name, size and time of every card; empty when the folder cannot be read."""
        try:
            found = [(path.name, path.stat()) for path in self._config.peers.glob("*.json")]
        except OSError:
            return set()
        return {(name, stat.st_size, stat.st_mtime_ns) for name, stat in found}

    def _opened_again(self, cards: dict[str, Card]) -> NetworkServer:
        listen = f"{self._config.listen.rpartition(':')[0]}:{self.port}"
        end = time.monotonic() + _FREE_SECONDS
        while True:
            try:
                return self._opened(listen, cards)
            except EngineError:
                if time.monotonic() > end or self._stopped.wait(0.02):
                    raise

    def _opened(self, listen: str, cards: dict[str, Card]) -> NetworkServer:
        network = NetworkServer(
            self._relay,
            identity=self._identity,
            roots=b"".join(card.pem for card in cards.values()),
            listen=listen,
            lobbies=self._relay.lobbies.identities(),
        )
        self._trusted = self._certificates(cards)
        self._relay.cards = cards
        return network

    def _cards(self) -> dict[str, Card]:
        return read_pinned(self._config.peers, self._identity.card)

    def _certificates(self, cards: dict[str, Card]) -> set[bytes]:
        lobbies = self._relay.lobbies.identities()
        return {card.certificate for card in (*cards.values(), *(one.card for one in lobbies))}
