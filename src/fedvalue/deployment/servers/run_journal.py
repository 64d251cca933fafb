"""One run at one server, as it stands on disk.

Calling threads accept messages, one worker handles them in the order of acceptance. What the role
answers is stored together with the fact that the message was handled, so a process that is killed at
any point finds exactly the accepted messages on restart and continues with the same bytes
(`docs/decisions/0402`). Messages that arrive while the disk is busy are stored together (`0417`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fedvalue.deployment.audit_trail import AuditTrail
from fedvalue.deployment.network import wire
from fedvalue.deployment.servers.admission import check_allowance
from fedvalue.deployment.servers.server_store import Arrival
from fedvalue.errors import FedValueError, RemoteProtocolError, TransportError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import safe_code

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.servers.server_store import RunRow, ServerStore, Stored
    from fedvalue.identity.cards import Identity

_NAMED = 10
"""Most participants that are named while a run waits for them."""


class RunJournal:
    """The durable state of one run, shared by calling threads and the worker.

    Args:
        row: The run, as stored.
        manifest: Its agreement.
        identity: This server's.
        store: Where everything is kept.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        row: RunRow,
        manifest: Manifest,
        identity: Identity,
        store: ServerStore,
        clock: Callable[[], float],
    ) -> None:
        self.manifest = manifest
        self.run_id = row.run_id
        self.state, self.stage, self.stage_since = row.state, row.stage, row.stage_since
        self.processed = row.processed
        self._volumes = store.volumes(row.run_id)
        self._mail = store.mail_sizes(row.run_id)
        self.accepted = sum(count for count, _ in self._volumes.values())
        self.code, self._reason = row.code, row.reason
        self._role = identity.card.role
        self._store = store
        self._clock = clock
        self._trail = AuditTrail(identity, row.run_id, store.audit(row.run_id), clock)
        self._arrivals: list[Arrival] = []
        self._outcomes: dict[Arrival, FedValueError | None] = {}
        self._released = False
        # Held while something is written to disk; taken before `_changed`, which nobody holds for long.
        self._writing = threading.Lock()
        self._changed = threading.Condition(threading.Lock())

    @property
    def ended(self) -> bool:
        """Whether the run is over, well or not."""
        return self.state in ("done", "failed")

    @property
    def backlog(self) -> bool:
        """Whether accepted messages wait to be handled."""
        with self._changed:
            return not self.ended and self.processed < self.accepted

    def refusal(self) -> FedValueError | None:
        """Why no more messages are accepted; None while the run is under way."""
        if not self.ended:
            return None
        if self.state == "done":
            return RemoteProtocolError("the run is over", code="E_STATE")
        kind = TransportError if self.code == "E_DEADLINE" else RemoteProtocolError
        return kind(f"the run has failed: {self._reason}", code=self.code or "E_STATE")

    def fingerprint(self, sender: str, number: int) -> bytes | None:
        """The fingerprint of a message that was accepted before; None for a new one."""
        if number >= self._volume(sender)[0]:
            return None
        return self._store.fingerprint(self.run_id, sender, number)

    def accept(self, number: int, envelope: m.Envelope, body: bytes | memoryview) -> None:
        """Store a new message. Durable once this returns. One thread per sender at a time.

        Args:
            number: Its place among the sender's messages.
            envelope: The message; it stays in memory for a while, so that nobody decodes it again.
            body: The bytes it was decoded from.

        Raises:
            RemoteProtocolError: The run is over, or the message is out of order, sent before under another
                number, or more than the manifest allows its sender.
            EngineError: E_STORAGE: nothing was stored.
        """
        store, sender = self._store, envelope.sender
        self._raise_refusal()
        expected, volume = self._volume(sender)
        if number != expected:
            raise RemoteProtocolError(
                f"{sender!r}: expected message number {expected}, got {number}", code="E_ORDER"
            )
        if store.has(self.run_id, sender, envelope.message.fingerprint):
            # A resend keeps its number; under a new one it would only fill the disk.
            raise RemoteProtocolError(f"{sender!r} sent a message a second time", code="E_CONFLICT")
        check_allowance(self.manifest, sender, messages=number + 1, n_bytes=volume + len(body))
        kept = None if store.spool(self.run_id, sender, number, body) else bytes(body)
        arrival = Arrival(number, envelope, kept, len(body))
        with self._changed:
            self._arrivals.append(arrival)
        with self._writing:
            # Whoever gets here first stores the messages of all who wait.
            self._store_arrivals()
            failure = self._outcomes.pop(arrival)
        if failure is not None:
            if self.ended:
                # The run ended while the file was written, and may have been purged already.
                store.unspool(self.run_id, sender, number)
            raise failure

    def _store_arrivals(self) -> None:
        with self._changed:
            arrivals, self._arrivals = self._arrivals, []
        if not arrivals:
            return
        try:
            self._raise_refusal()
            events = [(f"received {one.sender}", one.fingerprint.hex()) for one in arrivals]
            with self._trail.entries(events) as lines:
                self._store.accept(self.run_id, self.accepted, arrivals, lines)
        except FedValueError as error:
            self._outcomes.update(dict.fromkeys(arrivals, error))
            return
        self._outcomes.update(dict.fromkeys(arrivals))
        for one in arrivals:
            count, size = self._volume(one.sender)
            self._volumes[one.sender] = (count + 1, size + one.size)
        with self._changed:
            self.accepted += len(arrivals)

    def message(self, number: int) -> Stored:
        """Accepted message `number` of the run.

        Raises:
            EngineError: E_STORAGE: it cannot be read.
            RemoteProtocolError: It has changed on disk and is no message any more.
        """
        stored = self._store.message(self.run_id, number)
        assert stored is not None
        return stored

    def forget_recent(self, stored: Stored) -> None:
        """Free the memory of a message that is not needed again soon."""
        self._store.forget_recent(self.run_id, stored.sender, stored.number)

    def mail_size(self, recipient: str) -> int:
        """Number of messages for `recipient` so far; what is erased after the end does not count."""
        if self.ended:
            return self._store.mail_size(self.run_id, recipient)
        return self._mail.get(recipient, 0)

    def mail_digests(self) -> dict[str, list[bytes]]:
        """SHA-256 of all answers given so far, by recipient and in order."""
        names = (one.name for one in self.manifest.participants)
        return {name: self._store.mail_digests(self.run_id, name) for name in names}

    def commit(
        self,
        processed: int,
        outputs: Sequence[m.Envelope],
        stage: str,
        error: FedValueError | None = None,
    ) -> bool:
        """Store that message number `processed` - 1 was handled, with all answers; whether the stage changed.

        Raises:
            EngineError: E_STORAGE: nothing was stored.
        """
        if not outputs and stage == self.stage:
            # Nothing has left yet: after a crash the message is simply handled once more.
            with self._changed:
                self.processed = processed
            return False
        state = {"open": "open", "done": "done", "failed": "failed"}.get(stage, "running")
        code, reason = ("", "") if error is None else (safe_code(error), str(error)[: m.MAX_REASON])
        bodies = [(envelope.recipient, codec.encode(envelope)) for envelope in outputs]
        with self._writing:
            changed = stage != self.stage
            since = self._clock() if changed else self.stage_since
            with self._trail.entries([(f"{stage} {code}".strip(), "")] if changed else []) as lines:
                self._store.step(
                    self.run_id, processed=processed, outputs=bodies, state=state, stage=stage,
                    stage_since=since, code=code, reason=reason, audit=lines,
                )  # fmt: skip
            with self._changed:
                for recipient, _ in bodies:
                    self._mail[recipient] = self._mail.get(recipient, 0) + 1
                self.state, self.stage, self.stage_since = state, stage, since
                self.processed, self.code, self._reason = processed, code, reason
                self._changed.notify_all()
        return changed

    def standing(self, caller: str, awaited: Sequence[str], deadline: float) -> wire.Standing:
        """Where the run stands, for one participant.

        Args:
            caller: The participant.
            awaited: Whom the run waits for, as far as it is known.
            deadline: When the stage ends at the latest.
        """
        # The numbers first: the head is set after what it covers is stored, so it may be newer, never older.
        (accepted, n_bytes), mail = self._volume(caller), self.mail_size(caller)
        with self._changed:
            receipt, state, code, reason = self._trail.receipt, self.state, self.code, self._reason
        head = None
        if receipt is not None:
            head = wire.SignedHead(receipt.actor, receipt.seq, bytes.fromhex(receipt.head), receipt.signature)
        if state in ("open", "running") and awaited:
            reason = waiting_for([name for name in awaited if name != caller])
        return wire.Standing(
            wire.VERSION, state, accepted, mail, code, reason, head, stage=self.stage, deadline=deadline,
            n_bytes=n_bytes, time=self._clock(),
        )  # fmt: skip

    def _volume(self, sender: str) -> tuple[int, int]:
        """Number and size of the messages that are stored of one sender."""
        return self._volumes.get(sender, (0, 0))

    def wait_for_mail(self, recipient: str, after: int, seconds: float) -> None:
        """Return when there is mail beyond `after`, the run has ended, or time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._released or self.ended or self.mail_size(recipient) > after, timeout=seconds
            )

    def wait_for_stage(self, stage: str, seconds: float) -> None:
        """Return when the run is in another stage than this one, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._released or self.stage != stage, timeout=seconds)

    def release_waiters(self) -> None:
        """Let everybody who waits for mail return now: the server is shutting down."""
        with self._changed:
            self._released = True
            self._changed.notify_all()

    def purge(self) -> None:
        """Delete the uploads and the seed of an ended run; answers and audit log stay.

        Raises:
            EngineError: E_STORAGE: something remains.
        """
        self._store.purge(self.run_id)
        forget_noise(self._store, self.manifest, self._role, self.run_id)

    def _raise_refusal(self) -> None:
        refusal = self.refusal()
        if refusal is not None:
            raise refusal


def forget_noise(store: ServerStore, manifest: Manifest, own_role: str, run_id: bytes) -> None:
    """Erase what this server sent the others about the noise of an ended run.

    If the run failed, another server may not know yet: the notice stays, in place of everything sent
    before it. So does the last message of `gram`, for which another server may still wait.

    Raises:
        EngineError: E_STORAGE: it is still there.
    """
    if manifest.epsilon is None:
        return
    for other in (server.name for server in manifest.servers if server.role != own_role):
        # The courier may erase it at the same moment.
        for last in store.mail(run_id, other, max(0, store.mail_size(run_id, other) - 1), 1):
            try:
                needed = isinstance(codec.decode(last).message, m.Abort | m.GramTest)
            except FedValueError:
                needed = False
            if needed:
                store.replace_mail_to(run_id, other, last)
            else:
                store.forget_mail_to(run_id, other)


def waiting_for(names: Sequence[str]) -> str:
    """Whom a run waits for, as text of bounded length."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"for {', '.join(names[:_NAMED])}{more}" if names else ""
