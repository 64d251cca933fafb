"""A party's process: two servers, a journal, and a driver between them.

One thread per server fetches mail, one per server delivers; the driver runs in the main thread
alone. Nothing leaves before its fingerprint is on disk, nothing reaches the driver before it is.
Killed at any point and started again with the same command, it continues with the same bytes.
"""

from __future__ import annotations

import datetime as dt
import queue
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.parties.driver import Parcel, PartyDriver
from fedvalue.deployment.parties.heads import Heads
from fedvalue.deployment.parties.outgoing import Outgoing
from fedvalue.deployment.parties.scratch import ScratchError
from fedvalue.errors import ConfigError, FedValueError, TransportError
from fedvalue.identity.audit_log import ChainWriter, Receipt, last_receipt
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import SignedManifest
    from fedvalue.deployment.network.wire import Standing
    from fedvalue.deployment.parties.input import PartyInput
    from fedvalue.deployment.parties.store import PartyRun, PartyStore
    from fedvalue.identity.cards import Identity

T = TypeVar("T")
Report = Callable[[str, str], None]
"""Told (stage, words) as a run proceeds."""

POLL_SECONDS = 10.0
THREAD_END_SECONDS = 3.0
NOT_FINAL = ("E_STORAGE", "E_IDENTITY", "E_MANIFEST", "E_VERSION", "E_UNREACHABLE", "E_BUSY", "E_CLOSED")
"""Failures here, or refused calls, that do not end the run: a full disk, a card that an operator has not
pinned yet. A server's word that the run is over ends it whatever its code, so that no server can make
us keep the seed."""
_FROM_UPLOAD = ("uploading", "agreeing", "done")
_NOTICE_SECONDS = 5.0
"""How long a failing party tries to tell the servers."""


class Party:
    """One party in one run.

    Args:
        identity: Who we are.
        signed: The agreement; verified by the caller.
        given: Our table.
        store: Our journal.
        finish: Makes the result bytes from the driver at the end of a good run.
        report: Told how far we are.
        addresses: Another host:port for a server than the manifest's.
        psk: 32 bytes that all parties share, instead of the key agreement.
        before_upload: Called right before anything of our table leaves, after a restart again. What it raises
            ends the run.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        identity: Identity,
        signed: SignedManifest,
        given: PartyInput,
        store: PartyStore,
        *,
        finish: Callable[[PartyDriver], bytes],
        report: Report = lambda stage, words: None,
        addresses: dict[str, str] | None = None,
        psk: bytes | None = None,
        before_upload: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity = identity
        self._signed = signed
        self._manifest = signed.manifest
        self._run_id = signed.run_id
        self._given = given
        self._store = store
        self._finish = finish
        self._report = report
        self._addresses = addresses or {}
        self._psk = psk
        self._before_upload = before_upload
        self._uploading = False
        self._clock = clock
        self._events: queue.Queue[tuple[str, int, bytes] | FedValueError] = queue.Queue(maxsize=64)
        self._threads: list[threading.Thread] = []
        self._heads = Heads(self._manifest, map(Receipt.from_line, store.receipts(self._run_id)))
        self._final = False
        self._stop = threading.Event()
        self._unreachable: set[str] = set()
        self._awaited = ""
        self._head = last_receipt(store.audit(self._run_id))

    def run(self) -> bytes:
        """Take part until the end and return the result bytes; the same ones if the run is over.

        Raises:
            FedValueError: The run has failed, now or at an earlier start.
        """
        limits = self._manifest.deadlines
        longest = limits.keying * 2 + limits.upload + limits.compute * 2
        run = self._store.begin(
            self._run_id,
            seed=secrets.token_bytes(32),
            digest=self._given.digest,
            expires=self._manifest.expires.timestamp() + longest,
        )
        if run.state == "done":
            assert run.result is not None
            return run.result
        if run.state == "failed":
            raise stored_failure(run)
        self._end = self._clock() + longest
        driver = PartyDriver(self._identity, self._manifest, self._given, run.seed, self._psk)
        try:
            return self._drive(driver)
        except FedValueError as error:
            self._keep_receipts()
            if error.code in NOT_FINAL and not self._final:
                raise  # the journal stands; the same command continues
            line = self._audit(f"failed {error.code}", "")
            self._store.finish(
                self._run_id, state="failed", code=error.code, reason=str(error), kind=type(error).__name__,
                audit=[line],
            )  # fmt: skip
            raise
        finally:
            self._stop.set()

    def _drive(self, driver: PartyDriver) -> bytes:
        self._outgoing = {server: Outgoing() for server in driver.servers}
        counts = dict.fromkeys(driver.servers, 0)
        received = 0
        clients = {server: self._client(server) for server in driver.servers}
        try:
            self._dispatch(driver.begin())
            for server, number, body in self._store.inbox(self._run_id):
                counts[server], received = number + 1, received + 1
                self._dispatch(self._fed(driver, server, body))
            self._report(driver.stage, "resumed" if received else "started")
            for server, client in clients.items():
                self._thread(self._deliver, client, self._outgoing[server])
                self._thread(self._fetch, client, counts[server])
            while not driver.done:
                server, number, body = self._next(driver)
                line = self._audit(f"received {server}", sha256_hex(body))
                self._store.receive(self._run_id, received, server, number, body, [line])
                received += 1
                self._feed(driver, server, body)
            result = self._finish(driver)
            self._store.finish(
                self._run_id, state="done", result=result, audit=[self._audit("done", sha256_hex(result))]
            )
            self._keep_receipts()
            return result
        finally:
            self._stop.set()
            for client in clients.values():
                client.close()
            # gRPC may crash when the interpreter ends under a thread that is still inside a call.
            for thread in self._threads:
                thread.join(THREAD_END_SECONDS)

    def _feed(self, driver: PartyDriver, server: str, body: bytes) -> None:
        before = driver.stage
        try:
            parcels = self._fed(driver, server, body)
        except FedValueError as error:
            if self._final or error.code not in NOT_FINAL:
                self._give_notice(driver, error)
            raise
        self._dispatch(parcels)
        self._keep_receipts()
        if driver.stage != before:
            self._report(driver.stage, "")

    def _fed(self, driver: PartyDriver, server: str, body: bytes) -> list[Parcel]:
        """What the driver makes of a message; an error of the driver is the end of the run."""
        try:
            parcels = driver.feed(server, body)
        except ScratchError:
            raise  # our own disk, and nothing has left: the same command continues
        except FedValueError:
            self._final = True
            raise
        if not self._uploading and driver.stage in _FROM_UPLOAD:
            self._before_upload()
            self._uploading = True
        return parcels

    def _next(self, driver: PartyDriver) -> tuple[str, int, bytes]:
        while True:
            try:
                event = self._events.get(timeout=0.5)
            except queue.Empty:
                if self._clock() > self._end:
                    late = TransportError("the servers did not finish in time", code="E_DEADLINE")
                    self._give_notice(driver, late)
                    raise late from None
                continue
            if isinstance(event, FedValueError):
                raise event
            return event

    def _dispatch(self, parcels: list[Parcel]) -> None:
        """Put messages on disk by fingerprint, then on their way; compare what an earlier start sent."""
        fresh: list[tuple[str, int, bytes]] = []
        known = {server: self._store.sent(self._run_id, server) for server in {p.server for p in parcels}}
        for parcel in parcels:
            outgoing = self._outgoing[parcel.server]
            number, earlier = len(outgoing), known[parcel.server]
            if number < len(earlier):
                if earlier[number] != parcel.fingerprint:
                    raise ConfigError(
                        f"message {number} to {parcel.server!r} differs from the one sent before the "
                        "restart; nothing more is sent",
                        code="E_CONFLICT",
                    )
            else:
                fresh.append((parcel.server, number, parcel.fingerprint))
            outgoing.append(parcel)
        if fresh:
            digest = sha256_hex(b"".join(one[2] for one in fresh))
            self._store.send(self._run_id, fresh, [self._audit("sending", digest)])
        for server in known:
            self._outgoing[server].release()

    def _give_notice(self, driver: PartyDriver, error: FedValueError) -> None:
        """Tell the servers that we failed, if they can be reached soon."""
        parcels = driver.fail(error)
        if not parcels:
            return
        self._dispatch(parcels)
        end = time.monotonic() + _NOTICE_SECONDS
        for outgoing in self._outgoing.values():
            outgoing.wait_empty(end - time.monotonic())

    # Threads.

    def _thread(self, target: Callable[..., None], *arguments: object) -> None:
        def guarded() -> None:
            try:
                target(*arguments)
            except FedValueError as error:
                # A run that failed at the server refuses posts at once, while its reason, with the
                # right class, is still in our mail: let it come first.
                if not self._stop.wait(1.0):
                    self._events.put(error)

        thread = threading.Thread(target=guarded, name=target.__name__.strip("_"), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _deliver(self, client: ServerClient, outgoing: Outgoing) -> None:
        try:
            number = self._try(client, lambda: client.submit(self._signed.to_json().encode())).next
            outgoing.skip(number)
            while not self._stop.is_set():
                parcel = outgoing.get(number, 0.5)
                if parcel is None:
                    continue
                self._try(client, lambda: client.post(self._run_id, number, *parcel.parts()))  # noqa: B023
                number += 1
                outgoing.delivered(number)
        finally:
            outgoing.abandon()

    def _fetch(self, client: ServerClient, number: int) -> None:
        self._try(client, lambda: client.submit(self._signed.to_json().encode()))
        while not self._stop.is_set():
            mail = self._try(client, lambda: client.poll(self._run_id, number, POLL_SECONDS))  # noqa: B023
            for body in mail.bodies:
                self._events.put((client.name, number, body))
                number += 1
            if not mail.bodies:
                # An empty answer before its time: the server is full or going down.
                self._stop.wait(0.05)

    def _try(self, client: ServerClient, call: Callable[[], T]) -> T:
        """Repeat a call while its server cannot be reached, as long as the run may last."""
        while True:
            try:
                answer = call()
            except TransportError as error:
                if error.code not in ("E_UNREACHABLE", "E_BUSY", "E_STORAGE") or self._clock() > self._end:
                    raise
                if client.name not in self._unreachable:  # two threads try
                    self._unreachable.add(client.name)
                    self._report("waiting", f"{error}, trying again")
                if self._stop.wait(0.2):
                    raise
            else:
                self._unreachable.discard(client.name)
                return answer

    # Small parts.

    def _client(self, server: str) -> ServerClient:
        participant = self._manifest.participant(server)
        return ServerClient(
            self._identity,
            participant,
            self._manifest,
            patience=2.0,
            address=self._addresses.get(server),
            on_standing=self._take_standing,
        )

    def _take_standing(self, server: str, standing: Standing) -> None:
        """The receipt, and for whom the computation server waits, when that has changed."""
        self._heads.take(server, standing)
        if server != self._manifest.compute.name or standing.state != "open":
            return
        if standing.reason and standing.reason != self._awaited:
            self._awaited = standing.reason
            self._report("waiting", printable(standing.reason))

    def _keep_receipts(self) -> None:
        self._store.keep_receipts(self._run_id, self._heads.fresh())

    def _audit(self, event: str, digest: str) -> str:
        last = self._head
        seq, prev = (0, "0" * 64) if last is None else (last.seq + 1, last.head)
        writer = ChainWriter(self._identity, self._run_id.hex(), seq=seq, prev=prev)
        line = writer.append(event, digest, dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._head = writer.receipt
        return line


def stored_failure(run: PartyRun) -> FedValueError:
    """The failure of an earlier start, again."""
    from fedvalue import errors

    kind = getattr(errors, run.kind, TransportError)
    error = kind(f"{run.reason} (this run is over; a new one needs a new manifest)", code=run.code)
    assert isinstance(error, FedValueError)
    return error


def sha256_hex(data: bytes) -> str:
    """SHA-256, as it stands in audit logs."""
    import hashlib

    return hashlib.sha256(data).hexdigest()
