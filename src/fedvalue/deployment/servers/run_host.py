"""One run at one server: accepts messages from callers, and ends the run when a deadline passes."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import server_limit
from fedvalue.deployment.servers.admission import admit
from fedvalue.deployment.servers.run_journal import RunJournal
from fedvalue.deployment.servers.run_worker import RunWorker, ServerContext
from fedvalue.errors import EngineError, FedValueError, RemoteProtocolError, TransportError

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.network import wire
    from fedvalue.deployment.servers.server_store import RunRow


class RunHost:
    """One run at one server. Any thread may call any method."""

    def __init__(self, context: ServerContext, row: RunRow, manifest: Manifest) -> None:
        self.manifest = manifest
        self.run_id = row.run_id
        self._context = context
        self.journal = RunJournal(row, manifest, context.identity, context.store, context.clock)
        self._worker = RunWorker(context, self.journal)
        self._sender_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

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
            self.journal.accept(number, envelope, body)
        self._context.metrics.messages.inc()
        self._context.metrics.bytes.inc(len(body))
        self.wake()

    def standing(self, caller: str) -> wire.Standing:
        """Where the run stands, for one participant."""
        return self.journal.standing(caller, self._worker.awaited())

    def wake(self) -> None:
        """Make sure that a worker thread handles the backlog."""
        self._worker.wake()

    def fail(self, error: FedValueError) -> None:
        """End the run."""
        self._worker.fail(error)

    def tick(self, now: float) -> None:
        """End the run if its stage has taken too long, naming the participants that are missing."""
        self.wake()
        busy = self._worker.busy
        limit = server_limit(self.manifest, self._context.identity.card.role, self.journal.stage)
        if self.ended or now - self.journal.stage_since < limit:
            return
        if self._worker.unreadable:
            self.fail(EngineError("this server cannot use its disk; its log has details", code="E_STORAGE"))
            return
        if busy:
            return
        missing = self._worker.missing()
        if missing is None:
            return
        self.fail(
            TransportError(
                f"stage {self.journal.stage!r} took longer than {limit} s; "
                f"missing: {', '.join(missing) or 'nobody'}",
                code="E_DEADLINE",
                missing=missing,
            )
        )

    def _check_same(self, sender: str, number: int, known: bytes, fingerprint: bytes) -> None:
        if known == fingerprint:
            return
        conflict = RemoteProtocolError(
            f"{sender!r} sent a second, different message number {number}", code="E_CONFLICT"
        )
        self.fail(conflict)
        raise conflict
