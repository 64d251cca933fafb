"""One run at one server: accepts messages from callers, and ends the run when a deadline passes."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.agreement.run_settings import server_limit
from fedvalue.deployment.servers.admission import admit
from fedvalue.deployment.servers.computation import sums_too_long
from fedvalue.deployment.servers.run_journal import RunJournal
from fedvalue.deployment.servers.run_worker import RunWorker, ServerContext
from fedvalue.errors import EngineError, FedValueError, RemoteProtocolError, TransportError
from fedvalue.identity.tls_certificates import SERVER_ROLES
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import peer_failure

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.network import wire
    from fedvalue.deployment.servers.server_store import RunRow


_STILL_WAITING = 30.0
"""A participant that has not polled for these seconds does not wait any more. It polls every 10."""

_BACK_SECONDS = 5.0
"""Time for those who waited before this server was restarted to say so again."""


class RunHost:
    """One run at one server. Any thread may call any method."""

    def __init__(self, context: ServerContext, row: RunRow, manifest: Manifest) -> None:
        self.manifest = manifest
        self.run_id = row.run_id
        self._context = context
        self.journal = RunJournal(row, manifest, context.identity, context.store, context.clock)
        self._worker = RunWorker(context, self.journal)
        self._sender_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._disk_failed = False
        # Until when each participant that waits agrees to wait, and when it said so. Not stored: it says
        # so with every poll, also soon after a restart.
        self._waiting: dict[str, tuple[float, float]] = {}
        self._since = context.clock()
        self._complete: float | None = None

    @property
    def ended(self) -> bool:
        """Whether the run is over, well or not."""
        return self.journal.ended

    def accept(self, sender: str, number: int, body: bytes | memoryview) -> None:
        """Check and store a message. Durable once this returns; it is handled later.

        The same message again has no effect. Another one under the same number ends the run.

        Raises:
            RemoteProtocolError: Not admitted, out of order, in conflict with an accepted one, or more
                than the manifest allows its sender.
            EngineError: E_STORAGE: nothing was stored.
        """
        envelope = admit(self.manifest, self._context.identity.card.name, sender, body)
        with self._sender_locks[sender]:
            known = self.journal.fingerprint(sender, number)
            if known is not None:
                self._check_same(sender, number, known, envelope.message.fingerprint)
                return
            try:
                self.journal.accept(number, envelope, body)
            except EngineError:
                self._disk_failed = True
                raise
        self._disk_failed = False
        role = self.manifest.participant(sender).role
        self._context.metrics.messages.labels(role).inc()
        self._context.metrics.bytes.labels(role).inc(len(body))
        if isinstance(envelope.message, m.Abort):
            # The role handles it in its turn; nobody needs what it computes meanwhile.
            self._worker.stop_computing(self._ended_by(sender, envelope.message))
        self.wake()

    def standing(self, caller: str, *, whole: bool = False) -> wire.Standing:
        """Where the run stands, for one participant; `whole` adds whom it waits for at any stage."""
        now = self._worker.awaited_now() if whole else ()
        standing = self.journal.standing(caller, self._worker.awaited() or now, deadline=self.deadline)
        return replace(standing, awaited=now)

    @property
    def deadline(self) -> float:
        """When the stage ends at the latest, in seconds since 1970; 0 when the run is over."""
        if self.ended:
            return 0.0
        limit = server_limit(self.manifest, self._context.identity.card.role, self.journal.stage)
        agreed = self.journal.stage_since + limit
        if self.journal.stage != "open":
            return agreed
        # The validation server hears from parties when they upload: its time starts when all are here.
        return max(agreed, self._extended(), 0.0 if self._complete is None else self._complete + limit)

    def waits(self, caller: str, until: float) -> None:
        """A participant waits, and agrees to do so until a moment (seconds since 1970)."""
        # First that all are here: the last to come may have no patience, and must not end the run.
        everybody = len({*self._waiting, caller}) == 1 + len(self.manifest.data)
        if self._complete is None and everybody:
            self._complete = self._context.clock()
        self._waiting[caller] = (until, self._context.clock())

    def _extended(self) -> float:
        """Until when everybody who waits agrees to wait for those who have not come.

        No table has left anybody yet, so waiting harms nobody else. The agreement's end is the limit.
        """
        now = self._context.clock()
        until = [moment for moment, said in list(self._waiting.values()) if now - said < _STILL_WAITING]
        if until:
            return min(*until, self.manifest.expires.timestamp())
        restarted = self._since > self.journal.stage_since + _BACK_SECONDS
        return self._since + _BACK_SECONDS if restarted else 0.0

    def wake(self) -> None:
        """Make sure that a worker thread handles the backlog."""
        self._worker.wake()

    def fail(self, error: FedValueError) -> None:
        """End the run, and what it computes. Waits for work that cannot be stopped."""
        self._worker.fail(error)

    def stop_computing(self, error: FedValueError) -> None:
        """End the run with this error if it is computing now. Does not wait."""
        self._worker.stop_computing(error)

    def interrupt(self) -> None:
        """Stop computing because this server stops."""
        self._worker.interrupt()

    def tick(self, now: float) -> None:
        """End the run if its stage has taken too long, naming the participants that are missing."""
        self.wake()
        busy = self._worker.busy
        if self.ended or now < self.deadline:
            return
        if self._worker.unreadable or self._disk_failed:
            # The parties have come; it is this server that could not store what they sent.
            self.fail(EngineError("this server cannot use its disk; its log has details", code="E_STORAGE"))
            return
        if busy:
            sums = self.manifest.protocol == "gram" and self.journal.stage == "uploading"
            if sums and not self._worker.catching_up:
                self._worker.stop_computing(sums_too_long(self.deadline - self.journal.stage_since))
            return
        if self._worker.stale:
            # Whom the run waits for is known when its messages are handled again, which may take long.
            self._worker.catch_up()
            return
        missing = self._worker.missing()
        if missing is None:
            return
        self.fail(
            TransportError(
                f"stage {self.journal.stage!r} took longer than "
                f"{self.deadline - self.journal.stage_since:.0f} s; "
                f"missing: {', '.join(missing) or 'nobody'}",
                code="E_DEADLINE",
                missing=missing,
            )
        )

    def _ended_by(self, sender: str, abort: m.Abort) -> FedValueError:
        known = [one.name for one in self.manifest.participants]
        is_server = self.manifest.participant(sender).role in SERVER_ROLES
        return peer_failure(sender, abort, known, is_server=is_server)

    def _check_same(self, sender: str, number: int, known: bytes, fingerprint: bytes) -> None:
        if known == fingerprint:
            return
        conflict = RemoteProtocolError(
            f"{sender!r} sent a second, different message number {number}", code="E_CONFLICT"
        )
        self.fail(conflict)
        raise conflict
