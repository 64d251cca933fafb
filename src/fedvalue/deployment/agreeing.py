"""Drives one participant's exchange through the lobbies of all servers, for parties and servers alike.

Every message goes to every server, and counts only when all of them show the same: a single server that
swaps, withholds or alters a message is detected here. If all servers collude, comparing the words detects it.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from fedvalue.agreement.manifest import Participant
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.errors import RemoteProtocolError, TransportError, VerificationError
from fedvalue.invitation.exchange import KINDS

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import SignedManifest
    from fedvalue.invitation.exchange import Exchange
    from fedvalue.invitation.invitation import Invitation, Seat

LOOK_SECONDS = (0.1, 1.0)
"""Shortest and longest pause between two looks at the lobbies."""

WAITING = {
    "accept": "to accept the invitation",
    "join": "to start (fedvalue serve, join or run)",
    "sign": "to compare the words and sign",
}
"""What participants still have to do, by step."""


class Lobby(Protocol):
    """One server's lobby."""

    @property
    def name(self) -> str:
        """The server."""

    def leave(self, note: wire.Note) -> None:
        """Leave a message."""

    def look(self, after: int) -> Sequence[wire.Note]:
        """Messages from number `after` on."""

    def close(self) -> None:
        """End the connection."""


class RemoteLobby:
    """A lobby over the network."""

    def __init__(self, invitation: Invitation, server: Seat, address: str | None = None) -> None:
        self.name = server.name
        self._id = invitation.id
        identity = invitation.lobby_identity
        target = Participant.from_card(identity.card, address or server.endpoint)
        self._client = ServerClient(identity, target, invitation, patience=0.0)
        self._client.name = server.name

    def leave(self, note: wire.Note) -> None:
        """Leave a message."""
        self._client.leave(self._id, note)

    def look(self, after: int) -> Sequence[wire.Note]:
        """Messages from number `after` on."""
        return self._client.look(self._id, after)

    def close(self) -> None:
        """End the connection."""
        self._client.close()


class Agreeing:
    """One participant in one exchange.

    Args:
        exchange: Its view.
        lobbies: Of all servers.
        fix: Stores `Exchange.fixed` before the contribution leaves.
        consent: Called once the agreement is known; returns whether the words were compared, None at a
            server. An exception ends the exchange for now; nothing was signed.
        report: Called with (stage, words) while waiting for others.
    """

    def __init__(
        self,
        exchange: Exchange,
        lobbies: Sequence[Lobby],
        *,
        fix: Callable[[bytes], None],
        consent: Callable[[Exchange], bool | None],
        report: Callable[[str, str], None] = lambda stage, words: None,
    ) -> None:
        self._exchange = exchange
        self._lobbies = lobbies
        self._fix = fix
        self._ask = consent
        self._report = report
        self._seen: dict[str, dict[tuple[str, str], bytes]] = {lobby.name: {} for lobby in lobbies}
        self._reported: dict[str, str] = {}

    def until_signed(self, stop: threading.Event | None = None) -> SignedManifest | None:
        """Wait until everybody has signed, and return the agreement; None if `stop` is set before.

        Raises:
            TransportError: E_DEADLINE: the invitation has expired; the message names who is missing.
            FedValueError: The exchange failed.
        """
        stop, pause = stop or threading.Event(), LOOK_SECONDS[0]
        expires = self._exchange.invitation.proposal.expires
        while True:
            before = sum(map(len, self._seen.values()))
            self._round()
            signed = self._exchange.signed
            if signed is not None and self._delivered():
                signed.verify(now=dt.datetime.now(dt.UTC))
                return signed
            what, names = self._exchange.awaited()
            if dt.datetime.now(dt.UTC) >= expires:
                raise TransportError(
                    f"the invitation expired before all had joined; missing: {', '.join(names)}. "
                    "Make a new one with fedvalue invite",
                    code="E_DEADLINE",
                    missing=names,
                )
            if what:
                until = f"{expires:%Y-%m-%d %H:%M} UTC"
                self._report_new("", f"for {', '.join(names)} {WAITING[what]}, until {until}")
            changed = sum(map(len, self._seen.values())) != before
            pause = LOOK_SECONDS[0] if changed else min(pause * 1.3, LOOK_SECONDS[1])
            if stop.wait(pause):
                return None

    def once(self, seconds: float) -> None:
        """Deliver all messages that can be sent now.

        Raises:
            TransportError: E_UNREACHABLE: a server did not answer within `seconds`.
        """
        end = time.monotonic() + seconds
        while True:
            last = self._round()
            if last is None and self._delivered():
                return
            if last is not None and time.monotonic() > end:
                raise TransportError(f"{last}; the same command continues", code=last.code)
            time.sleep(LOOK_SECONDS[0])

    def look(self) -> dict[str, TransportError]:
        """Take the messages that all servers show, send nothing, and return problems by server.

        Raises:
            FedValueError: The exchange failed.
        """
        problems = {}
        for lobby in self._lobbies:
            try:
                self._look(lobby)
            except TransportError as error:
                problems[lobby.name] = self._unreachable(lobby, error)
        self._take()
        return problems

    def _round(self) -> TransportError | None:
        """Look, take, answer. A server that cannot be reached is left for the next round."""
        problem = next(iter(self.look().values()), None)
        if self._exchange.manifest is not None and not self._exchange.consented:
            self._exchange.consent(compared=self._ask(self._exchange))
        messages, sender = self._exchange.outgoing(), self._exchange.name
        if self._exchange.fixed is not None:
            self._fix(self._exchange.fixed)
        for lobby in self._lobbies:
            seen = self._seen[lobby.name]
            for kind, body in messages.items():
                if (sender, kind) in seen:
                    continue
                try:
                    lobby.leave(wire.Note(sender, kind, body))
                except TransportError as error:
                    problem = self._unreachable(lobby, error)
                    break
        return problem

    def _delivered(self) -> bool:
        """Whether every server shows all our messages."""
        keys = [(self._exchange.name, kind) for kind in self._exchange.outgoing()]
        return all(key in seen for seen in self._seen.values() for key in keys)

    def _look(self, lobby: Lobby) -> None:
        seen, seats = self._seen[lobby.name], {seat.name for seat in self._exchange.invitation.seats}
        while notes := lobby.look(len(seen)):
            for note in notes:
                key = (note.seat, note.kind)
                if key in seen:
                    raise RemoteProtocolError(
                        f"server {lobby.name!r} shows {note.kind} of {note.seat!r} twice", code="E_CONFLICT"
                    )
                # So the number of messages in a lobby is bounded.
                if note.seat not in seats or note.kind not in KINDS:
                    raise RemoteProtocolError(
                        f"server {lobby.name!r} shows a message of a participant who is not invited",
                        code="E_SENDER",
                    )
                seen[key] = note.body

    def _take(self) -> None:
        """Take the messages that all servers show alike, in the order of the steps."""
        first, *others = self._seen.values()
        common = [key for key in first if all(key in seen for seen in others)]
        for key in sorted(common, key=lambda key: (KINDS.index(key[1]), key)):
            if any(seen[key] != first[key] for seen in others):
                raise VerificationError(
                    f"the servers {' and '.join(self._seen)} show different messages of {key[0]!r}: one of "
                    "them has altered it, or someone else who has the invitation has answered in its place. "
                    f"Nothing was signed; talk to {key[0]!r} and both operators, and make a new invitation",
                    code="E_EQUIVOCATION",
                )
            self._exchange.receive(*key, first[key])

    def _unreachable(self, lobby: Lobby, error: TransportError) -> TransportError:
        if error.code == "E_UNREACHABLE":
            self._report_new(lobby.name, str(error))
        elif error.code not in ("E_BUSY", "E_STORAGE"):
            raise error
        return error

    def _report_new(self, server: str, words: str) -> None:
        """Report if the words are new about this server, or (empty) about the others."""
        if self._reported.get(server) != words:
            self._reported[server] = words
            self._report("waiting", words)


def remote_lobbies(invitation: Invitation, but: str = "") -> list[Lobby]:
    """Connections to the lobbies of all servers except `but`."""
    return [RemoteLobby(invitation, seat) for seat in invitation.servers if seat.name != but]
