"""A server: many runs behind one gRPC service.

It accepts manifests that everybody signed, finds run and caller of every call by the pinned key, and
leaves the rest to the run's host. Runs compute in worker threads, so that a long one does not keep the
others from uploading.
"""

from __future__ import annotations

import datetime as dt
import hmac
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue._version import __version__
from fedvalue.agreement.manifest import Manifest, Participant, SignedManifest
from fedvalue.agreement.manifest_rules import Terms, check_pins, check_terms
from fedvalue.deployment.config import Limits
from fedvalue.deployment.network import wire
from fedvalue.deployment.servers.courier import Courier
from fedvalue.deployment.servers.observability import Log, Metrics
from fedvalue.deployment.servers.run_host import RunHost
from fedvalue.deployment.servers.run_journal import forget_noise
from fedvalue.deployment.servers.run_worker import ServerContext
from fedvalue.deployment.servers.server_role import MakeRole, server_role
from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.errors import ConfigError, FedValueError, RemoteProtocolError, TransportError, VerificationError
from fedvalue.identity.cards import Card, Identity
from fedvalue.identity.tls_certificates import check_tls_certificate

if TYPE_CHECKING:
    from fedvalue.deployment.network.rpc_server import Peer


class RelayServer:
    """The backend of the service: everything that a server does except the wire.

    Args:
        identity: Who this server is.
        cards: The pinned cards by name, its own among them.
        folder: Where its state is kept.
        terms: The weakest terms that its operator accepts.
        log: For the operator.
        limits: How much it carries at once.
        make_role: Builds the role of a run; tests put a cheating one here.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        identity: Identity,
        cards: Mapping[str, Card],
        folder: Path,
        *,
        terms: Terms | None = None,
        log: Log | None = None,
        limits: Limits | None = None,
        make_role: MakeRole = server_role,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.metrics = Metrics()
        self._identity = identity
        self._cards = cards
        self._terms = terms or Terms()
        self._limits = limits or Limits()
        self._clock = clock
        self._log = log or Log(identity.card.name)
        self._store = ServerStore(folder)
        self._workers = ThreadPoolExecutor(self._limits.workers, thread_name_prefix="worker")
        self._context = ServerContext(
            identity=identity,
            store=self._store,
            make_role=partial(make_role, identity.card.role),
            clock=clock,
            log=self._log,
            metrics=self.metrics,
            schedule=self._schedule,
        )
        self._hosts: dict[bytes, RunHost] = {}
        self._couriers: dict[bytes, Courier] = {}
        self._joined: set[tuple[bytes, str]] = set()
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(self._limits.waiting)
        self._stopping = threading.Event()
        self.metrics.runs_active.set_function(lambda: len(self._active()))
        self._recover()
        self._ticker = threading.Thread(target=self._tick, name="ticker", daemon=True)
        self._ticker.start()

    # The service.

    def submit(self, peer: Peer, request: wire.Submit) -> wire.Standing:
        """A participant joins a run with its signed manifest; the first one creates the run."""
        signed = SignedManifest.from_json(request.manifest)
        caller = self._caller(signed.manifest, peer)
        if self._store.run(signed.run_id) is None:
            self._check_manifest(signed)
            self._create(signed, caller.name)
        self._note_joined(signed.run_id, caller.name)
        return self._host(signed.run_id).standing(caller.name)

    def post(self, peer: Peer, request: wire.Post) -> wire.Standing:
        """A message for our role."""
        host, caller = self._find(peer, request.run_id)
        if not host.ended and self._now() >= host.manifest.expires:
            raise RemoteProtocolError("the run has expired", code="E_RUN")
        host.accept(caller.name, request.index, request.body)
        return host.standing(caller.name)

    def poll(self, peer: Peer, request: wire.Poll) -> wire.Mail:
        """The caller's mail; waits for it if there is none and fewer than the limit are waiting."""
        host, caller = self._find(peer, request.run_id)
        if request.wait_ms and not self._stopping.is_set() and self._waiting.acquire(blocking=False):
            try:
                host.journal.wait_for_mail(caller.name, request.after, request.wait_ms / 1000)
            finally:
                self._waiting.release()
        bodies = self._store.mail(request.run_id, caller.name, request.after, wire.MAIL_BYTES)
        return wire.Mail(wire.VERSION, tuple(bodies), host.standing(caller.name))

    def status(self, peer: Peer, request: wire.Status) -> wire.Standing:
        """Where the run stands for the caller."""
        host, caller = self._find(peer, request.run_id)
        return host.standing(caller.name)

    def health(self, peer: Peer, request: wire.Health) -> wire.Alive:
        """Liveness check for pinned peers."""
        return wire.Alive(wire.VERSION, self._identity.card.name, __version__)

    def refused(self, peer: Peer | None, method: str, error: FedValueError) -> None:
        """Count and log a refusal."""
        self.metrics.refused.labels(error.code).inc()
        self._log.event(
            "refused",
            level="warning",
            method=method,
            peer="unknown" if peer is None else self._peer_name(peer),
            code=error.code,
            reason=str(error),
        )

    def audit(self, run_id: bytes) -> list[str]:
        """The audit log of a run."""
        return self._store.audit(run_id)

    def drain(self) -> None:
        """Answer waiting callers now, and let nobody wait any more."""
        self._stopping.set()
        for host in self._active():
            host.journal.release_waiters()

    def stop(self) -> None:
        """Stop couriers, timer and workers; what was accepted stays on disk."""
        self.drain()
        for courier in list(self._couriers.values()):
            courier.stop()
        self._ticker.join(5.0)
        self._workers.shutdown(wait=True, cancel_futures=True)
        self._store.close()

    # Callers and runs.

    def _caller(self, manifest: Manifest, peer: Peer) -> Participant:
        """The participant whose pinned key this call was made with."""
        for one in manifest.participants:
            if hmac.compare_digest(one.spki, peer.spki):
                check_tls_certificate(
                    peer.certificate, manifest.consortium, one.role, one.name, now=self._now()
                )
                return one
        raise VerificationError("the caller's key is not pinned for this run", code="E_IDENTITY")

    def _find(self, peer: Peer, run_id: bytes) -> tuple[RunHost, Participant]:
        host = self._host(run_id)
        return host, self._caller(host.manifest, peer)

    def _peer_name(self, peer: Peer) -> str:
        """The pinned name of a caller, or part of its key's hash."""
        names = (name for name, card in self._cards.items() if hmac.compare_digest(card.spki, peer.spki))
        return next(names, peer.spki.hex()[:12])

    def _note_joined(self, run_id: bytes, name: str) -> None:
        with self._lock:
            if (run_id, name) in self._joined:
                return
            self._joined.add((run_id, name))
        self._log.event("joined", run=run_id.hex()[:12], peer=name)

    def _host(self, run_id: bytes) -> RunHost:
        with self._lock:
            host = self._hosts.get(run_id)
            if host is not None:
                return host
            row = self._store.run(run_id)
            if row is None:
                raise RemoteProtocolError("no such run here", code="E_RUN")
            manifest = SignedManifest.from_json(row.manifest).manifest
            host = self._hosts[run_id] = RunHost(self._context, row, manifest)
            if not host.ended and self._identity.card.role == "compute" and manifest.protocol != "single":
                self._couriers[run_id] = Courier(self._identity, host, row.manifest, self._store, self._log)
            return host

    def _check_manifest(self, signed: SignedManifest) -> None:
        """All signatures, valid now, known keys, acceptable terms, and ours to serve."""
        manifest = signed.verify(now=self._now(), code_version=__version__)
        check_pins(manifest, self._cards)
        check_terms(manifest, self._terms)
        own, card = manifest.participant(self._identity.card.name), self._identity.card
        if (own.role, own.sign_key, own.spki) != (card.role, card.sign_key, card.spki):
            raise ConfigError("the manifest lists other keys for this server", code="E_MANIFEST")

    def _create(self, signed: SignedManifest, by: str) -> None:
        if len(self._active()) >= self._limits.runs:
            raise TransportError(
                f"this server already has {self._limits.runs} active runs, its limit", code="E_BUSY"
            )
        with self._lock:
            if self._store.run(signed.run_id) is None:
                self._store.add_run(signed.run_id, signed.to_json().encode(), now=self._clock(), audit=())
                self._log.event("accepted", run=signed.run_id.hex()[:12], peer=by)

    def _active(self) -> list[RunHost]:
        with self._lock:
            return [host for host in self._hosts.values() if not host.ended]

    # Recovery, deadlines, cleaning up.

    def _recover(self) -> None:
        self._purge_ended()
        self._forget_noise()
        for row in self._store.runs("open", "running"):
            self._host(row.run_id).wake()

    def _purge_ended(self) -> None:
        """Delete the uploads of ended runs that could not be deleted before."""
        for run_id in self._store.unpurged():
            try:
                self._store.purge(run_id)
            except FedValueError as error:
                self._log.event("purge", level="error", run=run_id.hex()[:12], code=error.code)

    def _forget_noise(self) -> None:
        """Erase what reveals the noise of runs that ended right before this server was killed."""
        for row in self._store.runs("done", "failed"):
            manifest = SignedManifest.from_json(row.manifest).manifest
            forget_noise(self._store, manifest, self._identity.card.role, row.run_id)

    def _tick(self) -> None:
        swept = 0.0
        while not self._stopping.wait(0.25):
            for host in self._active():
                try:
                    host.tick(self._clock())
                except FedValueError as error:
                    self._log.event("tick", level="error", code=error.code, reason=str(error))
            if self._clock() - swept > 3600:
                swept = self._clock()
                self._sweep(swept)

    def _sweep(self, now: float) -> None:
        """Drop ended runs from memory and delete old answers; run ids and audit logs stay for ever."""
        with self._lock:
            self._hosts = {run_id: host for run_id, host in self._hosts.items() if not host.ended}
            self._couriers = {key: one for key, one in self._couriers.items() if key in self._hosts}
            self._joined = {(run_id, name) for run_id, name in self._joined if run_id in self._hosts}
        try:
            self._store.forget_mail(now - 86400 * self._limits.retention_days)
        except FedValueError as error:
            self._log.event("sweep", level="error", code=error.code)
        self._purge_ended()

    def _schedule(self, work: Callable[[], None]) -> None:
        try:
            self._workers.submit(work)
        except RuntimeError:
            # Shutting down: the message is in the journal, and the next start handles it.
            return

    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._clock(), dt.UTC)
