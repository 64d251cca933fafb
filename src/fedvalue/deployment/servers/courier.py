"""Carries messages from the computation server to the validation server, and its messages back.

The computation server is a client of the validation server; nothing connects to a party.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.errors import FedValueError, TransportError
from fedvalue.protocol.transitions import State

if TYPE_CHECKING:
    from fedvalue.deployment.servers.observability import Log
    from fedvalue.deployment.servers.run_host import RunHost
    from fedvalue.deployment.servers.server_store import ServerStore
    from fedvalue.identity.cards import Identity

_LOOK_SECONDS = 2.0
"""How often to ask the validation server for its messages while this server does not wait for one."""

_COMPARE_SECONDS = 0.05
"""The same while it does: long enough for the message that has come to be handled."""


class Courier:
    """One thread per active run of the computation server. It ends with the run."""

    def __init__(
        self, identity: Identity, host: RunHost, manifest: bytes, store: ServerStore, log: Log
    ) -> None:
        self._host = host
        self._identity = identity
        self._manifest = manifest
        self._store = store
        self._log = log
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop soon; undelivered messages stay in the outbox."""
        self._stop.set()
        self._host.journal.release_waiters()
        self._thread.join(5.0)

    def _run(self) -> None:
        target = self._host.manifest.validate
        client = ServerClient(self._identity, target, self._host.manifest, patience=0.0)
        # After a restart, count from the store: a notice may have replaced messages over there.
        delivered, taken, known = 0, self._store.accepted(self._host.run_id, target.name), False
        try:
            while not self._stop.is_set():
                ended = self._host.ended
                try:
                    if not known:
                        standing = client.submit(self._manifest)
                        delivered, known = standing.next, True
                    delivered = self._deliver(client, delivered)
                    taken = self._fetch(client, taken)
                except TransportError as error:
                    if error.code == "E_DEADLINE":
                        return  # the run is over, here or there
                    # Not reachable now; the run's deadlines decide how long we try. Ask again what has
                    # arrived there: a notice may have replaced what we would send next.
                    known = False
                    self._stop.wait(1.0)
                except FedValueError as error:
                    self._log.event("courier", level="warning", code=error.code, reason=str(error))
                    return
                else:
                    if ended:
                        return
                    self._host.journal.wait_for_mail(target.name, delivered, self._patience())
        finally:
            client.close()
            self._forget()

    def _patience(self) -> float:
        """Seconds to wait for mail of our own before the other server is asked for its."""
        return _COMPARE_SECONDS if self._comparing else _LOOK_SECONDS

    @property
    def _comparing(self) -> bool:
        return self._host.journal.stage == State.COMPARING.value

    def _forget(self) -> None:
        """Erase what reveals the exact values of an ended run with noise."""
        manifest = self._host.manifest
        if manifest.epsilon is None or not self._host.ended:
            return
        try:
            self._store.forget_mail_to(self._host.run_id, manifest.validate.name)
        except FedValueError as error:
            self._log.event("purge", level="error", code=error.code)

    def _deliver(self, client: ServerClient, number: int) -> int:
        recipient = self._host.manifest.validate.name
        while not self._stop.is_set():
            bodies = self._store.mail(self._host.run_id, recipient, number, 1)
            if not bodies:
                break
            client.post(self._host.run_id, number, bodies[0])
            number += 1
        return number

    def _fetch(self, client: ServerClient, number: int) -> int:
        # While the servers compare results, nothing goes on here until the other's message has come.
        mail = client.poll(self._host.run_id, number, _LOOK_SECONDS if self._comparing else 0.0)
        for body in mail.bodies:
            self._host.accept(self._host.manifest.validate.name, number, body)
            number += 1
        return number
