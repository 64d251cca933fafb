"""Handles the accepted messages of one run, one at a time and in order, in the server's worker threads.

After a crash, or when the disk failed, a new role is brought to where the journal ends by handling
the same messages again; it must reproduce the answers that were given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import credentials_of, terms_of
from fedvalue.deployment.servers.computation import Computation, InterruptedComputationError, too_long
from fedvalue.deployment.servers.spool import SpooledChunks
from fedvalue.errors import EngineError, FedValueError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import missing_of
from fedvalue.protocol.transitions import State

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.servers.observability import Log, Metrics
    from fedvalue.deployment.servers.run_journal import RunJournal
    from fedvalue.deployment.servers.server_store import ServerStore, Stored
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.chunk_store import ChunkStore
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.server import Server
    from fedvalue.protocol.settings import RunTerms


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What the runs of one server share.

    Args:
        identity: The server's.
        store: Its database and files.
        make_role: Builds the protocol's role.
        clock: Seconds since 1970.
        log: For the operator.
        metrics: For the operator.
        schedule: Runs a function in a worker thread.
    """

    identity: Identity
    store: ServerStore
    make_role: Callable[[Manifest, RunTerms, Credentials, ChunkStore], Server]
    clock: Callable[[], float]
    log: Log
    metrics: Metrics
    schedule: Callable[[Callable[[], None]], object]


class RunWorker:
    """The role of one run, and the only code that feeds it."""

    def __init__(self, context: ServerContext, journal: RunJournal) -> None:
        self._context = context
        self._journal = journal
        # Held while a message is handled or the run is ended.
        self._work = threading.Lock()
        self._pumping = False
        self._pump_lock = threading.Lock()
        self._chunks = SpooledChunks(context.store, journal.run_id)
        self._role_or_none: Server | None = None
        # A caller that asks for the standing may need the role at the same moment as the worker thread.
        # The role of an ended run is dropped under the same lock: none is made, with a new seed, after that.
        self._role_lock = threading.RLock()
        self._computation = Computation(self._begin_computing)
        self._rebuilding = False
        # After a crash the role is behind the journal; the first worker thread brings it up to date.
        self._stale = journal.processed > 0
        self._rebuild_wanted = False
        self.unreadable = False

    @property
    def busy(self) -> bool:
        """Whether messages are being handled or wait for it."""
        return self._pumping or self._journal.backlog

    @property
    def stale(self) -> bool:
        """Whether the role is behind the journal, and knows nothing about whom the run waits for."""
        return self._stale

    @property
    def catching_up(self) -> bool:
        """Whether a worker thread brings the role up to date because `catch_up` asked for it."""
        return self._rebuild_wanted

    def wake(self) -> None:
        """Make sure that a worker thread handles the backlog."""
        with self._pump_lock:
            if self._pumping or not (self._journal.backlog or self._rebuild_wanted):
                return
            self._pumping = True
        self._context.schedule(self._pump)

    def catch_up(self) -> None:
        """Bring the role up to date in a worker thread, although no message waits."""
        self._rebuild_wanted = True
        self.wake()

    def awaited(self) -> tuple[str, ...]:
        """Whom the run waits for before it begins; empty when it has begun, or not known right now."""
        with self._role_lock:
            if self._stale or self._journal.ended or self._stage() != "open":
                return ()
            return self._role.awaited()

    def awaited_now(self) -> tuple[str, ...]:
        """Whom the run waits for at any stage; empty while this server is at work itself."""
        if not self._work.acquire(blocking=False):
            return ()
        try:
            return () if self._stale or self._journal.ended else self._role.awaited()
        finally:
            self._work.release()

    def missing(self) -> tuple[str, ...] | None:
        """Whose message the run waits for; None when it has ended, or not known before `catch_up`."""
        with self._work:
            return None if self._journal.ended or self._stale else self._role.awaited()

    def fail(self, error: FedValueError) -> None:
        """End the run from outside the role, and what it computes."""
        with self._stopped_work(error):
            if self._journal.ended:
                return
            # A role that cannot be rebuilt knows enough to tell everybody that the run is over.
            if not self._stale or self.unreadable or self._rebuild():
                try:
                    self._end(self._journal.processed, error)
                except EngineError:
                    self._stale = True
                    raise
        self._purge()

    def stop_computing(self, error: FedValueError) -> None:
        """End the run with this error if it is computing now."""
        self._computation.stop(error)

    def interrupt(self) -> None:
        """Stop computing because this server stops; the next start computes again."""
        self._computation.close(InterruptedComputationError("this server is stopping", code="E_CLOSED"))

    @contextmanager
    def _stopped_work(self, error: FedValueError) -> Iterator[None]:
        """Hold the lock of the work; a computation that holds it ends with `error`."""
        while not self._work.acquire(timeout=0.1):
            self._computation.stop(error)
        try:
            yield
        finally:
            self._work.release()

    def _pump(self) -> None:
        try:
            while self._one_step():
                pass
        except FedValueError as error:
            # The disk: what was handled but not stored is handled again later, from the journal.
            self._log("storage", level="error", code=error.code, reason=str(error))
            self._stale = self.unreadable = True
        finally:
            with self._pump_lock:
                self._pumping = self._rebuild_wanted = False
        if self._journal.ended:
            self._purge()
        elif not self._stale:
            self.wake()  # a message may have arrived between the last step and here

    def _one_step(self) -> bool:
        """Handle the next accepted message; False when there is none."""
        with self._work:
            if self._journal.ended or not (self._journal.backlog or self._rebuild_wanted):
                return False
            if self._stale and not self._rebuild():
                return False
            self._rebuild_wanted = False
            if not self._journal.backlog:
                return False
            number = self._journal.processed
            try:
                stored, outputs = self._handle(number)
            except InterruptedComputationError:
                self._stale = True
                return False
            except FedValueError as error:
                if _own_disk(error):
                    raise
                self._end(number + 1, error)
            except Exception as error:  # noqa: BLE001  # a bug of ours ends one run, not the server
                self._log("internal", level="error", reason=type(error).__name__)
                self._end(number + 1, EngineError("an error inside the server", code="E_ENGINE"))
            else:
                self._commit(number + 1, outputs)
                if isinstance(stored.envelope.message, m.Declaration | m.GramDeclaration):
                    self._log("declared", peer=stored.sender)
        return True

    def _handle(self, number: int) -> tuple[Stored, list[m.Envelope]]:
        """Feed accepted message `number` to the role."""
        stored = self._journal.message(number)
        self.unreadable = False
        self._chunks.arriving(stored.sender, stored.number)
        # A message that comes from disk is compared with its digest again.
        with self._computation.entered():
            outputs = self._role.receive(stored.envelope, checked=stored.fresh)
        if not isinstance(stored.envelope.message, m.Chunk):
            self._journal.forget_recent(stored)
        return stored, outputs

    def _begin_computing(self) -> float:
        """Note on disk that the run computes; the seconds that it may take.

        Raises:
            TransportError: E_DEADLINE: an earlier start of this server has used them up.
        """
        limit = self._journal.manifest.deadlines.compute
        if self._rebuilding:
            return float(limit)  # this computation ended in time once
        self._commit(self._journal.processed, [], stage="computing")
        left = limit - (self._context.clock() - self._journal.stage_since)
        if left <= 0:
            raise too_long(self._journal.manifest)
        return left

    def _rebuild(self) -> bool:
        """Bring a new role to where the journal ends; False if that ended the run."""
        self._drop_role()
        answers: dict[str, list[bytes]] = {one.name: [] for one in self._journal.manifest.participants}
        self._rebuilding = True
        try:
            for number in range(self._journal.processed):
                for envelope in self._handle(number)[1]:
                    answers[envelope.recipient].append(sha256(codec.encode(envelope)).digest())
        except InterruptedComputationError:
            return False
        except FedValueError as error:
            if _own_disk(error):
                self.unreadable = True
                raise
            # The message was accepted once, so it has changed on disk.
            self._end(self._journal.processed, error)
            return False
        finally:
            self._rebuilding = False
        if answers != self._journal.mail_digests():
            # A bug, or a journal that was tampered with: no second answer may leave.
            self._end(
                self._journal.processed,
                EngineError("the journal does not reproduce the answers given", code="E_ENGINE"),
            )
            return False
        self._stale = False
        self._log("recovered", state=self._journal.state, stage=self._journal.stage)
        return True

    def _end(self, processed: int, error: FedValueError) -> None:
        self._commit(processed, self._role.fail(error), error)
        missing = ",".join(missing_of(error))
        self._log("failed", level="warning", code=error.code, reason=str(error), missing=missing)

    def _commit(
        self,
        processed: int,
        outputs: list[m.Envelope],
        error: FedValueError | None = None,
        stage: str | None = None,
    ) -> None:
        stage = stage or ("failed" if error is not None else self._stage())
        if not self._journal.commit(processed, outputs, stage, error):
            return
        self._log("stage", state=self._journal.state, stage=stage)
        if self._journal.ended:
            self._log("ended", state=self._journal.state, code=self._journal.code)
            self._context.metrics.runs_ended.labels(self._journal.state, self._journal.code).inc()

    def _purge(self) -> None:
        """Delete the uploads, and the role with its secrets."""
        self._drop_role()
        try:
            self._journal.purge()
        except FedValueError as error:
            self._log("purge", level="error", code=error.code)

    @property
    def _role(self) -> Server:
        """The protocol's role, made when it is first needed, by whichever thread needs it."""
        with self._role_lock:
            if self._role_or_none is None:
                context, manifest, run_id = self._context, self._journal.manifest, self._journal.run_id
                credentials = credentials_of(manifest, context.identity, context.store.seed(run_id))
                role = context.make_role(manifest, terms_of(manifest), credentials, self._chunks)
                role.start()  # a server sends nothing before it has received something
                self._role_or_none = role
            return self._role_or_none

    def _drop_role(self) -> None:
        with self._role_lock:
            self._chunks = SpooledChunks(self._context.store, self._journal.run_id)
            self._role_or_none = None

    def _stage(self) -> str:
        """Open (until every party has come), keying, uploading, comparing, agreeing or done."""
        state = self._role.state
        if state in (State.UPLOADING, State.COMPARING, State.AGREEING, State.DONE):
            return state.value
        early = state is State.KEYING or self._context.identity.card.role != "compute"
        return "open" if early else "keying"

    def _log(self, event: str, *, level: str = "info", **fields: str | int) -> None:
        self._context.log.event(event, level=level, run=self._journal.run_id.hex()[:12], **fields)


def _own_disk(error: FedValueError) -> bool:
    """Whether this server's disk failed. A peer may end its run with the same code, but not this class."""
    return isinstance(error, EngineError) and error.code == "E_STORAGE"
