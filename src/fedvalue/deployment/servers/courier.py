"""Carries messages between two servers of a run: ours to the other one, and its messages back.

Of two servers the earlier one in the manifest's order is the client of the later one; nothing connects to a
party.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.errors import FedValueError, RemoteProtocolError, TransportError
from fedvalue.protocol.transitions import State

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Participant
    from fedvalue.deployment.servers.observability import Log
    from fedvalue.deployment.servers.run_host import RunHost
    from fedvalue.deployment.servers.server_store import ServerStore
    from fedvalue.identity.cards import Identity

_LOOK_SECONDS = 2.0
"""How often to ask the other server for its messages while none is expected, and how long to wait for one
that is."""

_PAUSE_SECONDS = 0.05
"""Between two such waits."""

_AGAIN_SECONDS = 1.0
"""Before the next attempt, after one that failed."""

_JOIN_SECONDS = 5.0
"""How long each thread may take to stop."""


class Courier:
    """Two threads per active run and other server: one delivers, one fetches. They end with the run.

    Args:
        identity: This server's.
        target: The other server.
        host: The run.
        manifest: The signed manifest, as it is submitted.
        store: Where our messages are.
        log: For the operator.
    """

    def __init__(
        self,
        identity: Identity,
        target: Participant,
        host: RunHost,
        manifest: bytes,
        store: ServerStore,
        log: Log,
    ) -> None:
        self._host = host
        self._target = target.name
        self._client = ServerClient(identity, target, host.manifest, patience=0.0)
        self._manifest = manifest
        self._store = store
        self._log = log
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(work,), name="courier", daemon=True)
            for work in (self._deliver, self._fetch)
        ]
        self._running = len(self._threads)
        self._lock = threading.Lock()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop soon; undelivered messages stay in the outbox."""
        self._stop.set()
        self._host.journal.release_waiters()
        self._client.close()  # a call that is under way is made again by the next start
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def _run(self, work: Callable[[], None]) -> None:
        noted = ""
        try:
            while not self._stop.is_set():
                try:
                    return work()
                except FedValueError as error:
                    if self._is_over(error):
                        return None
                    if not isinstance(error, TransportError) and error.code != noted:
                        noted = error.code
                        self._log.event("courier", level="warning", code=error.code, reason=str(error))
                    # Not reachable, our disk, or a refusal: the run's deadlines decide how long we try.
                    self._stop.wait(_AGAIN_SECONDS)
        finally:
            self._leave()

    def _is_over(self, error: FedValueError) -> bool:
        """Whether there is nothing left to carry: the run is over, here or there."""
        if isinstance(error, TransportError):
            return error.code == "E_DEADLINE"
        # What our disk does not give now is still to be delivered.
        return self._host.ended and error.code != "E_STORAGE"

    def _leave(self) -> None:
        """The thread that ends last closes the connection."""
        with self._lock:
            self._running -= 1
            last = not self._running
        if last:
            self._client.close()
            self._forget()

    def _deliver(self) -> None:
        # What has arrived there is asked at every start: a notice may have replaced what we would send next.
        number = self._client.submit(self._manifest).next
        while not self._stop.is_set():
            ended = self._host.ended
            bodies = self._store.mail(self._host.run_id, self._target, number, 1)
            if bodies:
                self._client.post(self._host.run_id, number, bodies[0])
                number += 1
            elif ended:
                return
            else:
                self._host.journal.wait_for_mail(self._target, number, _LOOK_SECONDS)

    def _fetch(self) -> None:
        if self._host.ended:
            return
        self._client.submit(self._manifest)
        # Count from the store: a notice may have replaced messages over there.
        number = self._store.accepted(self._host.run_id, self._target)
        while not (self._stop.is_set() or self._host.ended):
            stage = self._host.journal.stage
            expected = stage in self._talking
            mail = self._client.poll(self._host.run_id, number, _LOOK_SECONDS if expected else 0.0)
            for body in mail.bodies:
                self._take(number, body)
                number += 1
            if not mail.bodies:
                # An empty answer before its time: the other server is full or shutting down.
                self._host.journal.wait_for_stage(stage, _PAUSE_SECONDS if expected else _LOOK_SECONDS)

    def _take(self, number: int, body: bytes) -> None:
        """Accept a message of the other server, or end the run: asked again, it would send the same."""
        try:
            self._host.accept(self._target, number, body)
        except RemoteProtocolError as error:
            breach = f"server {self._target!r} sent a message that is not accepted: {error}"
            self._host.fail(RemoteProtocolError(breach, code=error.code))
            raise

    @property
    def _talking(self) -> tuple[str, ...]:
        """The stages in which servers wait for each other's messages."""
        during_upload = (State.UPLOADING.value,) if self._host.manifest.protocol == "gram" else ()
        return (*during_upload, State.COMPARING.value)

    def _forget(self) -> None:
        """Erase what reveals the exact values of an ended run with noise."""
        if self._host.manifest.epsilon is None or not self._host.ended:
            return
        try:
            self._store.forget_mail_to(self._host.run_id, self._target)
        except FedValueError as error:
            self._log.event("purge", level="error", code=error.code)
