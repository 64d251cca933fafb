"""Handles the accepted messages of one run, one at a time and in order, in the server's worker threads.

After a crash, or when the disk failed, a new role is brought to where the journal ends by handling
the same messages again; it must reproduce the answers that were given.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import credentials_of
from fedvalue.deployment.servers.role_driver import RoleDriver
from fedvalue.deployment.servers.spool import SpooledChunks
from fedvalue.errors import EngineError, FedValueError
from fedvalue.protocol.error_codes import missing_of

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.servers.observability import Log, Metrics
    from fedvalue.deployment.servers.run_journal import RunJournal
    from fedvalue.deployment.servers.server_store import ServerStore
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.mirror.counting import ChunkStore
    from fedvalue.protocol.role import Role
    from fedvalue.protocol.settings import Settings


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
    make_role: Callable[[Manifest, Settings, Credentials, ChunkStore], Role]
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
        self._driver = self._new_driver()
        # After a crash the driver is behind the journal; the first worker thread brings it up to date.
        self._stale = journal.processed > 0
        self.unreadable = False

    @property
    def busy(self) -> bool:
        """Whether messages are being handled or wait for it."""
        return self._pumping or self._journal.backlog

    def wake(self) -> None:
        """Make sure that a worker thread handles the backlog."""
        with self._pump_lock:
            if self._pumping or not self._journal.backlog:
                return
            self._pumping = True
        self._context.schedule(self._pump)

    def awaited(self) -> tuple[str, ...]:
        """Whom the run waits for before it begins; empty when it has begun, or not known right now."""
        if self._stale or self._driver.stage != "open":
            return ()
        return self._driver.missing()

    def missing(self) -> tuple[str, ...] | None:
        """Whose message the run waits for; None when it ended because it cannot be rebuilt."""
        with self._work:
            if self._stale and not self._rebuild():
                self._purge()
                return None
            return self._driver.missing()

    def fail(self, error: FedValueError) -> None:
        """End the run from outside the role."""
        with self._work:
            if self._journal.ended:
                return
            # A driver that cannot be rebuilt knows enough to tell everybody that the run is over.
            if not self._stale or self.unreadable or self._rebuild():
                try:
                    self._end(self._journal.processed, error)
                except EngineError:
                    self._stale = True
                    raise
        self._purge()

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
                self._pumping = False
        if self._journal.ended:
            self._purge()
        elif not self._stale:
            self.wake()  # a message may have arrived between the last step and here

    def _one_step(self) -> bool:
        """Handle the next accepted message; False when there is none."""
        with self._work:
            if not self._journal.backlog:
                return False
            if self._stale and not self._rebuild():
                return False
            stored = self._journal.message(self._journal.processed)
            self.unreadable = False
            n_declared = self._driver.n_declared
            try:
                # A message that comes from disk is compared with its digest again.
                outputs = self._driver.feed(stored.sender, stored.number, stored.body, checked=stored.fresh)
            except FedValueError as error:
                if _own_disk(error):
                    raise
                self._end(stored.k + 1, error)
            except Exception as error:  # noqa: BLE001  # a bug of ours ends one run, not the server
                self._log("internal", level="error", reason=type(error).__name__)
                self._end(stored.k + 1, EngineError("an error inside the server", code="E_ENGINE"))
            else:
                self._commit(stored.k + 1, outputs)
                if self._driver.n_declared > n_declared:
                    self._log("declared", peer=stored.sender)
        return True

    def _rebuild(self) -> bool:
        """Bring a new driver to where the journal ends; False if that ended the run."""
        self._driver = self._new_driver()
        replayed: Counter[str] = Counter()
        try:
            for number in range(self._journal.processed):
                stored = self._journal.message(number)
                outputs = self._driver.feed(stored.sender, stored.number, stored.body)
                replayed.update(recipient for recipient, _ in outputs)
        except FedValueError as error:
            if _own_disk(error):
                self.unreadable = True
                raise
            # The message was accepted once, so it has changed on disk.
            self._end(self._journal.processed, error)
            return False
        for one in self._journal.manifest.participants:
            if replayed[one.name] != self._journal.mail_size(one.name):
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
        self._commit(processed, self._driver.fail(error), error)
        missing = ",".join(missing_of(error))
        self._log("failed", level="warning", code=error.code, reason=str(error), missing=missing)

    def _commit(
        self, processed: int, outputs: list[tuple[str, bytes]], error: FedValueError | None = None
    ) -> None:
        stage = "failed" if error is not None else self._driver.stage
        if not self._journal.commit(processed, outputs, stage, error):
            return
        self._log("stage", state=self._journal.state, stage=stage)
        if self._journal.ended:
            self._context.metrics.runs_ended.labels(self._journal.state, self._journal.code).inc()

    def _purge(self) -> None:
        """Delete the uploads, and the role with its secrets."""
        self._driver = self._new_driver()
        try:
            self._journal.purge()
        except FedValueError as error:
            self._log("purge", level="error", code=error.code)

    def _new_driver(self) -> RoleDriver:
        context, manifest, run_id = self._context, self._journal.manifest, self._journal.run_id
        chunks = SpooledChunks(context.store, run_id)

        def make(settings: Settings) -> Role:
            credentials = credentials_of(manifest, context.identity, context.store.seed(run_id))
            return context.make_role(manifest, settings, credentials, chunks)

        return RoleDriver(manifest, context.identity.card.role, chunks, make)

    def _log(self, event: str, *, level: str = "info", **fields: str | int) -> None:
        self._context.log.event(event, level=level, run=self._journal.run_id.hex()[:12], **fields)


def _own_disk(error: FedValueError) -> bool:
    """Whether this server's disk failed. A peer may end its run with the same code, but not this class."""
    return isinstance(error, EngineError) and error.code == "E_STORAGE"
