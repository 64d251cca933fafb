"""A server's part in the exchanges of the invitations that its operator has accepted.

One thread looks for newly accepted invitations in the home folder; one thread per invitation exchanges
cards and signs. The operator agreed with `fedvalue accept`, so nothing is asked here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue.deployment.agreeing import Agreeing, remote_lobbies
from fedvalue.deployment.servers.lobbies import OwnLobby
from fedvalue.errors import FedValueError

if TYPE_CHECKING:
    from fedvalue.deployment.home import Agreement, Home
    from fedvalue.deployment.servers.lobbies import Lobbies
    from fedvalue.deployment.servers.observability import Log
    from fedvalue.identity.cards import Identity
    from fedvalue.invitation.exchange import Exchange

_LOOK_SECONDS = 1.0


class Usher:
    """Opens lobbies and takes part in their exchanges, until it is stopped.

    Args:
        home: Where accepted invitations are.
        identity: This server's.
        lobbies: The server's.
        log: For the operator.
        reopen: Called when pinned cards or lobbies have changed; for the cards of an agreement before this
            server signs it, so that everybody can connect as soon as all have signed.
    """

    def __init__(
        self, home: Home, identity: Identity, lobbies: Lobbies, log: Log, reopen: Callable[[], None]
    ) -> None:
        self._home = home
        self._identity = identity
        self._lobbies = lobbies
        self._log = log
        self._reopen = reopen
        self._stop = threading.Event()
        self._known: set[str] = set()
        self._threads: list[threading.Thread] = []

    def open_accepted(self) -> bool:
        """Open the lobbies of newly accepted invitations; whether there were any.

        Invitations that expired while the server was down leave nothing behind.
        """
        opened, fresh = False, []
        for agreement in self._home.agreements():
            if agreement.id in self._known:
                continue
            self._known.add(agreement.id)
            try:
                if self._lobbies.expired(agreement.invitation):
                    self._lobbies.forget(agreement.invitation)
                    continue
                self._lobbies.open(agreement.invitation)
            except FedValueError as error:
                self._log.event("invitation", level="error", code=error.code, reason=str(error))
                continue
            opened = True
            self._log.event("lobby", run=agreement.id, peer=agreement.invitation.card.name)
            if agreement.signed is None:
                fresh.append(agreement)
        for agreement in fresh:
            self._start(self._take_part, agreement)
        return opened

    def start(self) -> None:
        """Look for newly accepted invitations from here on."""
        self._start(self._watch)

    def stop(self) -> None:
        """Stop soon; the next start continues."""
        self._stop.set()
        for thread in self._threads:
            thread.join(5.0)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="usher", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self) -> None:
        while True:
            try:
                if self.open_accepted() or self._lobbies.close_expired():
                    self._reopen()
            except FedValueError as error:
                self._log.event("invitation", level="error", code=error.code, reason=str(error))
            if self._stop.wait(_LOOK_SECONDS):
                return

    def _take_part(self, agreement: Agreement) -> None:
        invitation, name = agreement.invitation, self._identity.card.name
        lobbies = [OwnLobby(name, self._lobbies, invitation), *remote_lobbies(invitation, but=name)]
        try:
            exchange = agreement.exchange(self._identity)
            agreeing = Agreeing(
                exchange, lobbies, fix=agreement.fix, consent=self._pin, report=self._reporter(agreement.id)
            )
            signed = agreeing.until_signed(self._stop)
            if signed is not None:
                agreement.complete(signed)
                self._log.event("agreed", run=signed.run_id.hex()[:12])
        except FedValueError as error:
            self._log.event("invitation", level="error", run=agreement.id, code=error.code, reason=str(error))
        finally:
            for lobby in lobbies:
                lobby.close()

    def _pin(self, exchange: Exchange) -> None:
        """Pin the cards of an agreement and let their owners connect."""
        self._home.pin(exchange.cards)
        self._reopen()
        self._log.event("words", reason=" ".join(exchange.words))

    def _reporter(self, invitation: str) -> Callable[[str, str], None]:
        return lambda stage, words: self._log.event(stage, run=invitation, reason=words)
