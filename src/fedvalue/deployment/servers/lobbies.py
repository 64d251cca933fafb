"""The lobbies of a server, where invited participants leave sealed messages before they know each other.

- A lobby exists for an invitation that the operator has accepted, and until it expires.
- A caller has proved, by TLS, that it holds the invitation's key. The messages say who it is: each is signed,
  and the agreement's words cover all of them.
- A message must be signed with the card that took its seat: a reader of the invitation cannot answer for
  others.
- Bounded: one message per seat and kind, of at most 64 KiB. It never changes; messages are durable.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fedvalue.deployment.network import wire
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.invitation.exchange import KINDS, check_note

if TYPE_CHECKING:
    from fedvalue.deployment.servers.server_store import ServerStore
    from fedvalue.identity.cards import Identity
    from fedvalue.invitation.invitation import Invitation


class Lobbies:
    """All open lobbies of one server. Any thread may call any method.

    Args:
        store: Keeps the messages.
        clock: Seconds since 1970.
    """

    def __init__(self, store: ServerStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._open: dict[bytes, Invitation] = {}
        self._lock = threading.Lock()

    def open(self, invitation: Invitation) -> None:
        """Open the lobby of an invitation that the operator has accepted."""
        with self._lock:
            self._open[invitation.id] = invitation

    def identities(self) -> list[Identity]:
        """What callers of the open lobbies ask for, in the order of opening."""
        with self._lock:
            return [one.lobby_identity for one in self._open.values()]

    def leave(self, spki: bytes, request: wire.Leave) -> None:
        """Keep a message; the same again has no effect.

        Raises:
            RemoteProtocolError: E_CONFLICT: another message is in its place. E_SENDER: no such seat or kind.
            VerificationError: E_INVITATION: no such lobby, or not the caller's; or the message is not that
                of the participant who holds the seat (`exchange.check_note`).
        """
        invitation = self._find(spki, request.run_id)
        self.put(invitation, wire.Note(request.seat, request.kind, request.body))

    def look(self, spki: bytes, request: wire.Look) -> tuple[wire.Note, ...]:
        """The messages from a number on, some at a time.

        Raises:
            VerificationError: E_INVITATION: no such lobby, or not the caller's.
        """
        return self.notes(self._find(spki, request.run_id), request.after)

    def put(self, invitation: Invitation, note: wire.Note) -> None:
        """Keep a message of the participant who holds a seat, or takes it."""
        if note.kind not in KINDS or note.seat not in {seat.name for seat in invitation.seats}:
            raise RemoteProtocolError(f"no {note.kind!r} of {note.seat!r} is expected here", code="E_SENDER")
        acceptance = self._store.lobby_message(invitation.id, note.seat, "acceptance")
        check_note(invitation, note.seat, note.kind, note.body, acceptance)
        stored = self._store.leave(invitation.id, note.seat, note.kind, note.body)
        if stored != note.body:
            raise RemoteProtocolError(
                f"{note.seat!r} has sent another {note.kind} before: either someone else has accepted in "
                "its place, or it lost its folder; ask for a new invitation",
                code="E_CONFLICT",
            )

    def notes(self, invitation: Invitation, after: int) -> tuple[wire.Note, ...]:
        """The messages from a number on, some at a time."""
        return tuple(wire.Note(*row) for row in self._store.lobby(invitation.id, after))

    def close_expired(self) -> list[Invitation]:
        """Close the lobbies of expired invitations, delete their messages, and return them."""
        with self._lock:
            late = [one for one in self._open.values() if self.expired(one)]
            for invitation in late:
                del self._open[invitation.id]
        for invitation in late:
            self.forget(invitation)
        return late

    def expired(self, invitation: Invitation) -> bool:
        """Whether an invitation is no longer valid."""
        return invitation.proposal.expires.timestamp() <= self._clock()

    def forget(self, invitation: Invitation) -> None:
        """Delete the messages of a lobby that is not open."""
        self._store.close_lobby(invitation.id)

    def _find(self, spki: bytes, invitation_id: bytes) -> Invitation:
        with self._lock:
            invitation = self._open.get(invitation_id)
        if invitation is None or not hmac.compare_digest(invitation.lobby_identity.card.spki, spki):
            raise VerificationError("this server has no such invitation", code="E_INVITATION")
        if self.expired(invitation):
            raise VerificationError("the invitation has expired", code="E_INVITATION")
        return invitation


class OwnLobby:
    """A server's own lobby, as a participant of the exchange."""

    def __init__(self, name: str, lobbies: Lobbies, invitation: Invitation) -> None:
        self.name = name
        self._lobbies = lobbies
        self._invitation = invitation

    def leave(self, note: wire.Note) -> None:
        """Leave a message."""
        self._lobbies.put(self._invitation, note)

    def look(self, after: int) -> Sequence[wire.Note]:
        """Messages from number `after` on."""
        return self._lobbies.notes(self._invitation, after)

    def close(self) -> None:
        """Nothing to close."""
