"""One run at one server: a journal in front of a role.

A message is accepted (checked, stored, acknowledged) in the caller's thread and handled later in
the order of acceptance, by one worker at a time. What the role answers is stored together with the
fact that the message was handled. So a process that is killed at any point finds on restart
exactly the accepted messages, feeds them to a new role again, and continues with the same bytes.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import credentials_of
from fedvalue.deployment.network import wire
from fedvalue.deployment.servers.admission import admit, check_allowance
from fedvalue.deployment.servers.role_driver import Output, RoleDriver
from fedvalue.deployment.servers.spool import SpooledChunks
from fedvalue.errors import EngineError, FedValueError, RemoteProtocolError, TransportError
from fedvalue.identity.audit_log import ChainWriter, Receipt, last_receipt
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import missing_of, safe_code

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.servers.logs import Log
    from fedvalue.deployment.servers.metrics import Metrics
    from fedvalue.deployment.servers.store import RunRow, ServerStore
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.mirror.counting import ChunkStore
    from fedvalue.protocol.role import Role
    from fedvalue.protocol.settings import Settings


_NAMED = 10
"""Missing participants whose names are told while a run waits."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run needs from the server around it.

    Args:
        identity: The server's.
        store: Its memory.
        make_role: Builds the protocol's role.
        seed: The secret seed of a run, the same after a restart.
        clock: Seconds since 1970.
        log: For the operator.
        metrics: For the operator.
        schedule: Runs a function in a worker.
    """

    identity: Identity
    store: ServerStore
    make_role: Callable[[Manifest, Settings, Credentials, ChunkStore], Role]
    seed: Callable[[bytes], bytes]
    clock: Callable[[], float]
    log: Log
    metrics: Metrics
    schedule: Callable[[Callable[[], None]], object]


class RunHost:
    """One run at one server."""

    def __init__(self, around: Surroundings, row: RunRow, manifest: Manifest) -> None:
        self.manifest = manifest
        self.run_id = row.run_id
        self.state = row.state
        self._around = around
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # Held while a message is handled or the run is ended: one at a time.
        self._work = threading.Lock()
        self._sender_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._volumes: dict[str, int] = {}
        self._stage, self._stage_since = row.stage, row.stage_since
        self._processed, self._code, self._reason = row.processed, row.code, row.reason
        self._accepted = around.store.inbox_size(row.run_id)
        self._pumping = False
        self._released = False
        self._unreadable = False
        self._driver = self._new_driver()
        # After a crash the driver is behind the journal; the first worker brings it up to date.
        self._stale = row.processed > 0
        self._receipt = last_receipt(around.store.audit(row.run_id))

    @property
    def ended(self) -> bool:
        """Whether nothing more can happen."""
        return self.state in ("done", "failed")

    def refusal(self) -> FedValueError | None:
        """Why nothing more is taken; None while the run is under way."""
        if not self.ended:
            return None
        if self.state == "done":
            return RemoteProtocolError("the run is over", code="E_STATE")
        kind = TransportError if self._code == "E_DEADLINE" else RemoteProtocolError
        return kind(f"the run has failed: {self._reason}", code=self._code or "E_STATE")

    def accept(self, sender: str, number: int, body: bytes | memoryview) -> None:
        """Check a message, store it, and see to it that it is handled. Returning is the promise.

        Raises:
            RemoteProtocolError: Not admitted, out of order, in conflict with an accepted one, or more
                than the manifest allows its sender.
            EngineError: E_STORAGE: nothing was stored.
        """
        store = self._around.store
        fingerprint = admit(self.manifest, self._around.identity.card.name, sender, body)
        with self._sender_locks[sender]:
            known = store.fingerprint(self.run_id, sender, number)
            if known is not None:
                self._same_again(sender, number, known, fingerprint)
                return
            refusal = self.refusal()
            if refusal is not None:
                raise refusal
            expected = store.accepted(self.run_id, sender)
            if number != expected:
                raise RemoteProtocolError(
                    f"{sender!r}: expected message number {expected}, got {number}", code="E_ORDER"
                )
            if store.has(self.run_id, sender, fingerprint):
                # A resend keeps its number; under a new one it would only fill the disk.
                raise RemoteProtocolError(f"{sender!r} sent a message a second time", code="E_CONFLICT")
            volume = self._volumes.get(sender) or store.volume(self.run_id, sender)[1]
            check_allowance(self.manifest, sender, messages=number + 1, n_bytes=volume + len(body))
            spooled = store.spool(self.run_id, sender, number, body)
            kept = None if spooled else bytes(body)
            with self._lock:
                refusal = self.refusal()
                if refusal is not None:
                    # It ended while this was written, and may have been purged already.
                    store.unspool(self.run_id, sender, number)
                    raise refusal
                line, receipt = self._audit(f"received {sender}", fingerprint.hex())
                store.accept(
                    self.run_id, self._accepted, sender, number, fingerprint, kept, len(body), [line]
                )
                self._accepted += 1
                self._receipt = receipt
            self._volumes[sender] = volume + len(body)
        self._around.metrics.add("fedvalue_messages_total")
        self._around.metrics.add("fedvalue_bytes_total", len(body))
        self.wake()

    def standing(self, caller: str) -> wire.Standing:
        """Where the run stands, for one participant."""
        store = self._around.store
        # The numbers first: the head is set after what it covers is stored, so it may be newer, never older.
        accepted, mail = store.accepted(self.run_id, caller), store.mail_size(self.run_id, caller)
        with self._lock:
            receipt, state, code, reason = self._receipt, self.state, self._code, self._reason
        head = None
        if receipt is not None:
            head = wire.SignedHead(receipt.actor, receipt.seq, bytes.fromhex(receipt.head), receipt.signature)
        if state == "open" and not self._stale and self._driver.stage == "open":
            reason = _awaited([name for name in self._driver.missing() if name != caller])
        return wire.Standing(wire.VERSION, state, accepted, mail, code, reason, head)

    def wait_for_mail(self, recipient: str, after: int, seconds: float) -> None:
        """Return when there is mail beyond `after`, the run has ended, or time is up."""
        store = self._around.store
        with self._changed:
            self._changed.wait_for(
                lambda: self._released or self.ended or store.mail_size(self.run_id, recipient) > after,
                timeout=seconds,
            )

    def release_waiters(self) -> None:
        """Let everybody who waits for mail return now: the server is going down."""
        with self._changed:
            self._released = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Make sure that a worker handles what is waiting."""
        with self._lock:
            if self._pumping or self.ended or self._processed >= self._accepted:
                return
            self._pumping = True
        self._around.schedule(self._pump)

    def tick(self, now: float) -> None:
        """End the run when its stage has taken too long, naming who is missing."""
        self.wake()
        with self._lock:
            waiting = self._pumping or self._processed < self._accepted
        if self.ended or now - self._stage_since < self._allowed():
            return
        if self._unreadable:
            self.fail(EngineError("this server cannot use its disk; its log says more", code="E_STORAGE"))
            return
        if waiting:
            return
        with self._work:
            if self._stale and not self._rebuild():
                self._purge()
                return
            missing = self._driver.missing()
        self.fail(
            TransportError(
                f"stage {self._stage!r} took longer than {self._allowed()} s; "
                f"missing: {', '.join(missing) or 'nobody'}",
                code="E_DEADLINE",
                missing=missing,
            )
        )

    def fail(self, error: FedValueError) -> None:
        """End the run from outside the role."""
        with self._work:
            if self.ended:
                return
            # A driver that cannot be rebuilt knows enough to tell everybody that the run is over.
            if not self._stale or self._unreadable or self._rebuild():
                try:
                    self._end(self._processed, error)
                except EngineError:
                    self._stale = True
                    raise
        self._purge()

    def _same_again(self, sender: str, number: int, known: bytes, fingerprint: bytes) -> None:
        """The same message once more is harmless; another one in its place ends the run."""
        if known == fingerprint:
            return
        conflict = RemoteProtocolError(
            f"{sender!r} sent a second, different message number {number}", code="E_CONFLICT"
        )
        self.fail(conflict)
        raise conflict

    def _pump(self) -> None:
        try:
            while self._one_step():
                pass
        except FedValueError as error:
            # The disk: what was handled but not stored is handled again later, from the journal.
            self._log("storage", level="error", code=error.code, reason=str(error))
            self._stale = self._unreadable = True
        finally:
            with self._lock:
                self._pumping = False
        if self.ended:
            self._purge()
        elif not self._stale:
            self.wake()  # a message may have come between the last step and here

    def _one_step(self) -> bool:
        """Handle the next accepted message; False when there is none."""
        with self._work:
            if self.ended or self._processed >= self._accepted:
                return False
            if self._stale and not self._rebuild():
                return False
            stored = self._around.store.message(self.run_id, self._processed)
            assert stored is not None
            self._unreadable = False
            n_declared = self._driver.n_declared
            try:
                # What comes from disk is compared with its digest once more.
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
        """Bring a new driver to where the journal says the old one was; False if that ended the run."""
        self._driver = self._new_driver()
        replayed: Counter[str] = Counter()
        try:
            for k in range(self._processed):
                stored = self._around.store.message(self.run_id, k)
                assert stored is not None
                outputs = self._driver.feed(stored.sender, stored.number, stored.body)
                replayed.update(who for who, _ in outputs)
        except FedValueError as error:
            if _own_disk(error):
                self._unreadable = True
                raise
            # It was taken once, so it is not what it was.
            self._end(self._processed, error)
            return False
        for one in self.manifest.participants:
            if replayed[one.name] != self._around.store.mail_size(self.run_id, one.name):
                # A bug, or a journal that was tampered with: no second answer may leave.
                self._end(
                    self._processed,
                    EngineError("the journal does not reproduce the answers given", code="E_ENGINE"),
                )
                return False
        self._stale = False
        self._log("recovered", state=self.state, stage=self._stage)
        return True

    def _end(self, processed: int, error: FedValueError) -> None:
        self._commit(processed, self._driver.fail(error), error)
        missing = ",".join(missing_of(error))
        self._log("failed", level="warning", code=error.code, reason=str(error), missing=missing)

    def _commit(self, processed: int, outputs: list[Output], error: FedValueError | None = None) -> None:
        stage = "failed" if error is not None else self._driver.stage
        if not outputs and stage == self._stage:
            # Nobody has been told anything: after a crash the message is simply handled once more.
            with self._lock:
                self._processed = processed
            return
        state = {"open": "open", "done": "done", "failed": "failed"}.get(stage, "running")
        since = self._around.clock() if stage != self._stage else self._stage_since
        code, reason = ("", "") if error is None else (safe_code(error), str(error)[:2000])
        with self._changed:
            lines, receipt = [], self._receipt
            if stage != self._stage:
                line, receipt = self._audit(f"{stage} {code}".strip(), "")
                lines.append(line)
            self._around.store.step(
                self.run_id, processed=processed, outputs=outputs, state=state, stage=stage,
                stage_since=since, code=code, reason=reason, audit=lines,
            )  # fmt: skip
            changed = stage != self._stage
            self.state, self._stage, self._stage_since = state, stage, since
            self._processed, self._code, self._reason, self._receipt = processed, code, reason, receipt
            self._changed.notify_all()
        if changed:
            self._log("stage", state=state, stage=stage)
        if self.ended:
            self._around.metrics.add("fedvalue_runs_ended_total", state=state, code=code)

    def _purge(self) -> None:
        """Delete the uploads and the role with its secrets; answers and audit log stay."""
        self._driver = self._new_driver()
        try:
            self._around.store.purge(self.run_id)
            forget_noise(self._around.store, self.manifest, self._around.identity.card.role, self.run_id)
        except FedValueError as error:
            self._log("purge", level="error", code=error.code)

    def _allowed(self) -> int:
        limits = self.manifest.deadlines
        if self._stage in ("open", "keying"):
            # Only the computation server hears who has come to an alignment: it ends the run first, so that
            # those who are missing are named and nobody else.
            second = self.manifest.align == "intersect" and self._around.identity.card.role == "validate"
            return limits.keying * (2 if second else 1)
        if self._stage == "uploading":
            # The validation server waits for uploads while the others still agree on keys. With noise
            # each server then waits for the other's contribution, which comes after computing.
            keying = limits.keying if self._around.identity.card.role == "validate" else 0
            return limits.upload + keying + (limits.compute if self.manifest.epsilon is not None else 0)
        return limits.compute

    def _new_driver(self) -> RoleDriver:
        around = self._around
        chunks = SpooledChunks(around.store, self.run_id)

        def make(settings: Settings) -> Role:
            credentials = credentials_of(self.manifest, around.identity, around.seed(self.run_id))
            return around.make_role(self.manifest, settings, credentials, chunks)

        return RoleDriver(self.manifest, around.identity.card.role, chunks, make)

    def _audit(self, event: str, digest: str) -> tuple[str, Receipt]:
        last = self._receipt
        place = {} if last is None else {"seq": last.seq + 1, "prev": last.head}
        writer = ChainWriter(self._around.identity, self.run_id.hex(), **place)  # type: ignore[arg-type]
        time = dt.datetime.fromtimestamp(self._around.clock(), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = writer.append(event, digest, time)
        assert writer.receipt is not None
        return line, writer.receipt

    def _log(self, event: str, *, level: str = "info", **fields: str | int) -> None:
        self._around.log.event(event, level=level, run=self.run_id.hex()[:12], **fields)


def forget_noise(store: ServerStore, manifest: Manifest, own: str, run_id: bytes) -> None:
    """Erase what this server told the other one about the noise of an ended run.

    Where the run has failed, the other server may not know yet: the notice stays, in the place of everything
    that was said before.

    Raises:
        EngineError: E_STORAGE: it is still there.
    """
    if manifest.epsilon is None:
        return
    other = (manifest.validate if own == "compute" else manifest.compute).name
    # The courier may erase it at the same moment.
    for last in store.mail(run_id, other, max(0, store.mail_size(run_id, other) - 1), 1):
        try:
            notice = isinstance(codec.decode(last).message, m.Abort)
        except FedValueError:
            notice = False
        if notice:
            store.replace_mail_to(run_id, other, last)
        else:
            store.forget_mail_to(run_id, other)


def _own_disk(error: FedValueError) -> bool:
    """Whether it is this server's disk: a peer may end its run with the same code."""
    return isinstance(error, EngineError) and error.code == "E_STORAGE"


def _awaited(names: Sequence[str]) -> str:
    """Whom a run waits for, in words of bounded length."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"for {', '.join(names[:_NAMED])}{more}" if names else ""
