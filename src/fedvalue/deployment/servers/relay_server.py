"""A server: many runs behind one gRPC service.

It accepts manifests that everybody signed, finds run and caller of every call by the pinned key, and
leaves the rest to the run's host. Runs compute in worker threads, so that a long one does not keep the
others from uploading.
"""

from __future__ import annotations

import datetime as dt
import hmac
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue._version import __version__
from fedvalue.agreement.manifest import Manifest, Participant, SignedManifest, run_id_of
from fedvalue.agreement.manifest_rules import LIMITS, Terms, Versions, check_pins, check_terms
from fedvalue.deployment.config import Limits
from fedvalue.deployment.health import (
    Finding,
    Level,
    check_cards,
    check_clock,
    check_disk,
    clock_difference,
    guarded,
)
from fedvalue.deployment.network import wire
from fedvalue.deployment.servers import abort_requests
from fedvalue.deployment.servers.courier import Courier
from fedvalue.deployment.servers.lobbies import Lobbies
from fedvalue.deployment.servers.observability import Log, Metrics, RunGauge
from fedvalue.deployment.servers.run_host import RunHost
from fedvalue.deployment.servers.run_journal import forget_noise
from fedvalue.deployment.servers.run_worker import ServerContext
from fedvalue.deployment.servers.server_role import MakeRole, server_role
from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.errors import ConfigError, FedValueError, RemoteProtocolError, TransportError, VerificationError
from fedvalue.identity.cards import Card, Identity
from fedvalue.identity.tls_certificates import SERVER_ROLES, check_tls_certificate, validity

if TYPE_CHECKING:
    from fedvalue.deployment.network.rpc_server import Peer

_HEALTH_SECONDS = 10.0
"""How often disk, clock and cards are looked at."""
_SAME_START = 5.0
"""A participant that announces itself again within these seconds has opened another connection."""
_HANDSHAKES = {
    "certificate has expired": "a caller's card has expired: it must make a new identity and send its card",
    "not yet valid": "a caller's card is not valid yet: the caller's clock or ours is wrong",
    "certificate_verify_failed": "a caller's card is not pinned here: compare fingerprints and pin its card",
    "did_not_return_a_certificate": "a caller showed no certificate: it is no participant",
    "alert": "a caller refused our card: its clock is wrong, our card has expired, or it pins another one",
}
"""gRPC's words about a failed handshake (in part, lower case), and ours; the first that fits counts."""


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
        self.metrics = Metrics(self._gauges)
        self.metrics.server.info(
            {"name": identity.card.name, "role": identity.card.role, "version": __version__}
        )
        self._identity = identity
        self.cards = cards
        self._terms = terms or Terms()
        self._limits = limits or Limits()
        self._clock = clock
        self._log = log or Log(identity.card.name)
        self._folder = folder
        self._store = ServerStore(folder)
        self.lobbies = Lobbies(self._store, clock)
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
        self._couriers: dict[bytes, list[Courier]] = {}
        self._joined: dict[tuple[bytes, str], float] = {}
        self._findings: tuple[float, list[Finding]] = (-math.inf, [])
        self._noted: dict[str, float] = {}
        self._aborting: set[bytes] = set()
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(self._limits.waiting)
        self._stopping = threading.Event()
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
            self._give_up_earlier(signed, caller.name)
            self._create(signed, caller.name)
        self._note_joined(signed.run_id, caller.name, request.time)
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
        if request.wait_ms and caller.role not in SERVER_ROLES:
            host.waits(caller.name, request.patience)
        if request.wait_ms and not self._stopping.is_set() and self._waiting.acquire(blocking=False):
            try:
                host.journal.wait_for_mail(caller.name, request.after, request.wait_ms / 1000)
            finally:
                self._waiting.release()
        bodies = self._store.mail(request.run_id, caller.name, request.after, wire.MAIL_BYTES)
        return wire.Mail(wire.VERSION, tuple(bodies), host.standing(caller.name, whole=not bodies))

    def status(self, peer: Peer, request: wire.Status) -> wire.Standing:
        """Where the run stands for the caller."""
        host, caller = self._find(peer, request.run_id)
        return host.standing(caller.name, whole=True)

    def health(self, peer: Peer, request: wire.Health) -> wire.Alive:
        """Liveness check for pinned peers, with our clock and what keeps us from working."""
        trouble = tuple(one.words for one in self.findings() if one.level is Level.FAIL)
        name, own = self._identity.card.name, Versions()
        return wire.Alive(
            wire.VERSION, name, own.software, own.protocol, own.values, self._clock(), trouble
        )  # fmt: skip

    def leave(self, peer: Peer, request: wire.Leave) -> wire.Notes:
        """Take a message for the lobby of an invitation."""
        self.lobbies.leave(peer.spki, request)
        return wire.Notes(wire.VERSION, ())

    def look(self, peer: Peer, request: wire.Look) -> wire.Notes:
        """The messages in the lobby of an invitation."""
        return wire.Notes(wire.VERSION, self.lobbies.look(peer.spki, request))

    def refused(self, peer: Peer | None, method: str, error: FedValueError) -> None:
        """Count and log a refusal."""
        name = "unknown" if peer is None else self._peer_name(peer)
        # A stranger never gets here: TLS lets pinned certificates through only, so names are few.
        self.metrics.refused.labels(error.code, name).inc()
        self._log.event(
            "refused", level="warning", method=method, peer=name, code=error.code, reason=str(error)
        )

    def handshake_failed(self, reason: str) -> None:
        """Count a connection that TLS refused, and log each reason once a minute: clients try again."""
        words = next((words for mark, words in _HANDSHAKES.items() if mark in reason.lower()), None)
        if words is None:
            return  # a scanner, or a connection that broke
        self.metrics.refused.labels("E_IDENTITY", "unknown").inc()
        if self._once_a_minute(words):
            unknown = {"method": "Handshake", "peer": "unknown", "code": "E_IDENTITY"}
            self._log.event("refused", level="warning", **unknown, reason=words)

    def findings(self) -> list[Finding]:
        """The state of our disk, clock and cards, looked at again after some seconds."""
        looked, findings = self._findings
        if time.monotonic() - looked > _HEALTH_SECONDS:
            now = self._clock()
            findings = [
                guarded("disk", lambda: check_disk(self._folder)),
                guarded("clock", lambda: check_clock(now, newest=self._store.newest())),
                *check_cards(self._identity.card, self.cards.values(), now),
            ]
            if not self.alive:
                findings.append(Finding("deadlines", Level.FAIL, "the timer has ended", "restart the server"))
            self._findings = (time.monotonic(), findings)
            self.metrics.show(findings)
            for name, card in self.cards.items():
                self.metrics.card_end.labels(name).set(validity(card.certificate)[1].timestamp())
        return findings

    @property
    def alive(self) -> bool:
        """Whether deadlines are still watched."""
        return self._ticker.is_alive()

    def unready(self) -> str:
        """Why no new run is accepted now; empty when it is."""
        if self._stopping.is_set():
            return "the server is stopping"
        return f"{self._limits.runs} runs are active, which is the limit" if self._full() else ""

    def _full(self) -> bool:
        return len(self._store.runs("open", "running")) >= self._limits.runs

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
        for courier in [one for couriers in list(self._couriers.values()) for one in couriers]:
            courier.stop()
        self._ticker.join(5.0)
        for host in self._active():
            host.interrupt()
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
                self._check_pinned(peer, one.name)
                return one
        raise VerificationError("the caller's key is not pinned for this run", code="E_IDENTITY")

    def _check_pinned(self, peer: Peer, name: str) -> None:
        """A card that the operator has removed is revoked, whatever was agreed with it before."""
        if not any(hmac.compare_digest(card.spki, peer.spki) for card in self.cards.values()):
            raise VerificationError(f"the key of {name!r} is not trusted here any more", code="E_IDENTITY")

    def _find(self, peer: Peer, run_id: bytes) -> tuple[RunHost, Participant]:
        host = self._host(run_id)
        return host, self._caller(host.manifest, peer)

    def _peer_name(self, peer: Peer) -> str:
        """The pinned name of a caller, or part of its key's hash."""
        names = (name for name, card in self.cards.items() if hmac.compare_digest(card.spki, peer.spki))
        return next(names, peer.spki.hex()[:12])

    def _note_joined(self, run_id: bytes, name: str, their_clock: float) -> None:
        """Log who joins, who comes back, and whose clock is wrong."""
        now, run = time.monotonic(), run_id.hex()[:12]
        has_sent = self._store.accepted(run_id, name) > 0  # before another connection of it sends
        with self._lock:
            before = self._joined.get((run_id, name))
            self._joined[run_id, name] = now
        if before is not None and now - before < _SAME_START:
            return  # a participant announces itself once per connection
        known = before is not None or has_sent
        self._log.event("resumed" if known else "joined", run=run, peer=name)
        if words := clock_difference(their_clock, repr(name), self._clock()):
            self._log.event("clock", level="warning", run=run, peer=name, reason=words)

    def _once_a_minute(self, words: str) -> bool:
        now = time.monotonic()
        with self._lock:
            if now - self._noted.get(words, -math.inf) < 60.0:
                return False
            self._noted[words] = now
        return True

    def _note_health(self) -> None:
        """Log what is wrong with disk, clock and cards when it is found, and once an hour."""
        for one in self.findings():
            about = (
                f"{one.check} {one.level}" if one.check in ("disk", "clock") else one.words
            )  # these change
            if one.level is not Level.OK and self._clock() - self._noted.get(about, -math.inf) > 3600:
                self._noted[about] = self._clock()
                self._log.event("health", level="warning", state=one.level.value, reason=str(one))

    def _gauges(self) -> list[RunGauge]:
        return [
            RunGauge(
                host.run_id.hex()[:12], host.journal.stage, host.journal.stage_since, host.deadline,
                {
                    (one.role, one.name): self._store.volume(host.run_id, one.name)
                    for one in host.manifest.participants
                },
            )
            for host in self._active()
        ]  # fmt: skip

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
            if not host.ended:
                self._couriers[run_id] = [
                    Courier(self._identity, target, host, row.manifest, self._store, self._log)
                    for target in self._later_servers(manifest)
                ]
            return host

    def _later_servers(self, manifest: Manifest) -> tuple[Participant, ...]:
        """The servers that we call; those before us in the manifest's order call us."""
        own = SERVER_ROLES.index(self._identity.card.role)
        return tuple(one for one in manifest.servers if SERVER_ROLES.index(one.role) > own)

    def _check_manifest(self, signed: SignedManifest) -> None:
        """All signatures, valid now, known keys, acceptable terms, and ours to serve."""
        manifest = signed.verify(now=self._now())
        check_pins(manifest, self.cards)
        check_terms(manifest, self._terms)
        self._check_repeat(signed)
        own, card = manifest.participant(self._identity.card.name), self._identity.card
        if (own.role, own.sign_key, own.spki) != (card.role, card.sign_key, card.spki):
            raise ConfigError("the manifest lists other keys for this server", code="E_MANIFEST")

    def _check_repeat(self, signed: SignedManifest) -> None:
        """A run is repeated only if no other one under the same agreement gave a result or came after it.

        So an agreement has at most one active run, and nobody can fill this server with its numbers.

        Raises:
            RemoteProtocolError: E_REPLAY: one gave a result. E_SUPERSEDED: a later one has begun.
        """
        agreement, (_, most) = signed.manifest.agreement_id, LIMITS["run"]
        for number in range(1, most + 1):
            row = self._store.run(run_id_of(agreement, number))
            if row is not None and row.state == "done":
                raise RemoteProtocolError(
                    f"run {number} under this agreement has given its result; another needs a new agreement",
                    code="E_REPLAY",
                )
            if row is not None and number > signed.manifest.run:
                raise RemoteProtocolError(
                    f"run {number} under this agreement has begun; run {signed.manifest.run} is over",
                    code="E_SUPERSEDED",
                )

    def _give_up_earlier(self, signed: SignedManifest, by: str) -> None:
        """End the earlier runs under an agreement that are still open: a participant has left them."""
        agreement = signed.manifest.agreement_id
        for number in range(1, signed.manifest.run):
            row = self._store.run(run_id_of(agreement, number))
            if row is not None and row.state in ("open", "running"):
                self._host(row.run_id).fail(
                    RemoteProtocolError(
                        f"{by!r} has started run {signed.manifest.run} under the same agreement",
                        code="E_SUPERSEDED",
                    )
                )

    def _create(self, signed: SignedManifest, by: str) -> None:
        with self._lock:  # other threads create runs too, and another participant perhaps this one
            if self._store.run(signed.run_id) is not None:
                return
            if self._full():
                raise TransportError(
                    f"this server already has {self._limits.runs} active runs, its limit", code="E_BUSY"
                )
            self._check_repeat(signed)
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
                self._try(lambda host=host: host.tick(self._clock()))  # type: ignore[misc]
            self._try(self._end_aborted)
            if time.monotonic() - self._findings[0] > _HEALTH_SECONDS:
                self._note_health()
            if self._clock() - swept > 3600:
                swept = self._clock()
                self._sweep(swept)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except FedValueError as error:
            self._log.event("tick", level="error", code=error.code, reason=str(error))

    def _end_aborted(self) -> None:
        """End the runs that the operator has asked to end."""
        for run_id, request in abort_requests.requests(self._folder):
            if self._store.run(run_id) is None or (host := self._host(run_id)).ended:
                abort_requests.forget(request)
                continue
            host.stop_computing(abort_requests.aborted_by_operator())
            if run_id not in self._aborting:
                self._aborting.add(run_id)
                self._schedule(lambda host=host: self._abort(host))  # type: ignore[misc]

    def _abort(self, host: RunHost) -> None:
        """In a worker thread: it may have to wait, and deadlines of other runs must not."""
        try:
            self._try(lambda: host.fail(abort_requests.aborted_by_operator()))
        finally:
            self._aborting.discard(host.run_id)

    def _sweep(self, now: float) -> None:
        """Drop ended runs from memory and delete old answers; run ids and audit logs stay for ever."""
        with self._lock:
            self._hosts = {run_id: host for run_id, host in self._hosts.items() if not host.ended}
            self._couriers = {key: one for key, one in self._couriers.items() if key in self._hosts}
            self._joined = {key: moment for key, moment in self._joined.items() if key[0] in self._hosts}
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
