"""The base of all roles: a pure state machine that takes an envelope and returns envelopes.

A role does no I/O: no sockets, files, clocks, threads, and no randomness of its own. It is a deterministic
function of its constructor's arguments and of the envelopes received, in order. So a shell can journal the
envelopes, rebuild the role after a crash by replaying them, and get the same output byte for byte.

Rules that keep it so:

- Envelopes of one sender to one recipient must arrive in the order sent (FIFO per pair). Nothing is
  assumed about the order between different senders.
- A resend of an accepted message returns nothing and changes nothing. A shell that may need the answer
  again stores it before it acknowledges the message.
- An illegal message raises, and changes nothing except the move to FAILED, which is final. The one
  exception is E_DIGEST (data damaged on the way): refused, unchanged, may be sent again.
- After an error, `fail` returns the notices that tell the peers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from fedvalue.errors import FedValueError, LocalProtocolError, RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import RECOVERABLE, missing_of, peer_failure, safe_code
from fedvalue.protocol.settings import RunTerms, Settings
from fedvalue.protocol.transitions import FINAL, TABLES, RoleName, State

Handler = Callable[[str, Any], list[m.Envelope]]
"""Takes a sender and a message of the type under which `Role._handlers` lists the handler."""


class Role:
    """One participant's side of one run."""

    role: ClassVar[RoleName]

    def __init__(self, terms: RunTerms, name: str, *, first: State) -> None:
        self.terms = terms
        self.name = name
        self._to = m.Sender(terms.run_id, name).to
        self._first = first
        self._settings: Settings | None = None
        self._state = State.CREATED
        self._failure: FedValueError | None = None
        self._seen: dict[tuple[object, ...], bytes] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, state={self._state.value!r})"

    @property
    def settings(self) -> Settings:
        """The terms with the sizes of the parties' tables, known once all parties are ready."""
        assert self._settings is not None
        return self._settings

    @property
    def state(self) -> State:
        """Where this role is in the run."""
        return self._state

    @property
    def failure(self) -> FedValueError | None:
        """Why the run failed; None unless the state is FAILED."""
        return self._failure

    def start(self) -> list[m.Envelope]:
        """Begin, and return the first envelopes.

        Raises:
            LocalProtocolError: Called twice.
        """
        if self._state is not State.CREATED:
            raise LocalProtocolError(f"{self.name!r} has already started", code="E_STATE")
        self._state = self._first
        return self._begin()

    def receive(self, envelope: m.Envelope, *, checked: bool = False) -> list[m.Envelope]:
        """Advance by one message and return what to send.

        Args:
            envelope: The message.
            checked: Whether the caller has compared bulk data with their digest already.

        Raises:
            RemoteProtocolError: The sender broke the protocol; the run is now FAILED.
            VerificationError: A check failed; the run is now FAILED and nothing is released.
            InputError: Our own ids or codes are wrong, which shows when they are first used.
        """
        if self._state is State.FAILED:
            raise RemoteProtocolError(f"the run of {self.name!r} has failed", code="E_STATE")
        try:
            return self._accept(envelope, checked)
        except FedValueError as error:
            if error.code not in RECOVERABLE and self._state is not State.DONE:
                self._failed(error)
            raise
        except BaseException:
            if self._state is not State.DONE:
                self._failed(LocalProtocolError("an error inside FedValue", code="E_LOCAL"))
            raise

    def fail(self, error: FedValueError) -> list[m.Envelope]:
        """End the run for an outside reason (a deadline, malformed bytes) and return notices for the peers.

        Also returns the notices after `receive` has raised. A finished run stays finished.
        """
        if self._state is State.DONE:
            return []
        if self._state is not State.FAILED:
            self._failed(error)
        abort = self._abort(error)
        return [self._to(peer, abort) for peer in self._peers()]

    def _abort(self, error: FedValueError) -> m.Abort:
        return m.Abort(safe_code(error), missing_of(error))

    def _accept(self, envelope: m.Envelope, checked: bool) -> list[m.Envelope]:
        sender, message = envelope.sender, envelope.message
        if envelope.run_id != self.terms.run_id or envelope.recipient != self.name:
            raise RemoteProtocolError(
                f"{self.name!r} got a message for another run or recipient", code="E_RUN"
            )
        if sender not in self._peers():
            raise RemoteProtocolError(f"{self.name!r} got a message from an unknown sender", code="E_SENDER")
        if isinstance(message, m.Abort):
            if self._state is State.DONE:
                return []
            servers = self.terms.servers
            names = (*self.terms.everybody, *servers)
            raise peer_failure(sender, message, names, is_server=sender in servers)
        kind = type(message)
        slot = (sender, *message.slot)
        known = self._seen.get(slot)
        if known is not None:
            self._check_intact(message, checked)
            if known == message.fingerprint:
                return []
            raise RemoteProtocolError(
                f"{sender!r} sent a second, different {kind.__name__}", code="E_CONFLICT"
            )
        legal = TABLES[self.role].get(self._state, {}).get(kind)
        if legal is None:
            raise RemoteProtocolError(
                f"{self.role.value} {self.name!r} cannot take {kind.__name__} while {self._state.value}",
                code="E_STATE",
            )
        handler, senders = self._handlers()[kind]
        if sender not in senders:
            raise RemoteProtocolError(f"{sender!r} may not send {kind.__name__}", code="E_SENDER")
        self._check_intact(message, checked)
        replies = handler(sender, message)
        if self._state not in legal:
            raise AssertionError(f"{kind.__name__} led to {self._state}, which the table does not allow")
        self._seen[slot] = message.fingerprint
        return replies

    def _check_intact(self, message: m.AnyMessage, checked: bool) -> None:
        """Bulk data must fit its digest, before anything else looks at it."""
        if isinstance(message, m.BulkMessage) and not checked and not message.intact:
            raise RemoteProtocolError(f"damaged {type(message).__name__}", code="E_DIGEST")

    def _failed(self, error: FedValueError) -> None:
        self._state = State.FAILED
        self._failure = error
        self._forget()

    def _become(self, state: State) -> None:
        assert self._state not in FINAL
        self._state = state

    # Each role defines these.

    def _begin(self) -> list[m.Envelope]:
        return []

    def _peers(self) -> tuple[str, ...]:
        """The participants with whom this role exchanges envelopes."""
        raise NotImplementedError

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        """Per type of message: its handler, and its legal senders."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop secrets and results when the run has failed."""
