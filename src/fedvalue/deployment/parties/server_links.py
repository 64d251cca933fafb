"""A party's connections to its servers: one thread per server fetches mail, one delivers.

Messages and failures arrive in one queue, read by the thread that drives the run. A server that cannot
be reached is tried again until the run's time is up.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fedvalue.errors import FedValueError, RemoteProtocolError, TransportError
from fedvalue.protocol import codec

if TYPE_CHECKING:
    from fedvalue.deployment.network.rpc_client import ServerClient
    from fedvalue.deployment.network.wire import Standing
    from fedvalue.protocol.messages import Envelope

T = TypeVar("T")
Received = tuple[str, int, bytes]
"""Server, number, body."""

POLL_SECONDS = 10.0
_FIRST_POLL_SECONDS = 0.5
"""Only by a poll a server learns how long we wait, and can tell the deadline: the first answer comes soon."""
_THREAD_END_SECONDS = 10.0
"""How long all threads may take to end after their calls were cancelled."""
_PASSING = ("E_UNREACHABLE", "E_BUSY", "E_STORAGE")
"""Failures of a call that another try may not have."""


class Outgoing:
    """Messages to one server, in order. Those that the server has acknowledged are freed."""

    def __init__(self) -> None:
        self._envelopes: list[Envelope | None] = []
        self._released = 0
        self._delivered = 0
        self._abandoned = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._envelopes)

    def append(self, envelope: Envelope) -> None:
        """Add a message; it does not leave before `release`."""
        self._envelopes.append(envelope)

    def release(self) -> None:
        """Let everything so far leave: the fingerprints are on disk."""
        with self._changed:
            self._released = len(self._envelopes)
            self._changed.notify_all()

    def skip(self, number: int) -> None:
        """The server has the first `number` messages from an earlier start."""
        with self._changed:
            self._changed.wait_for(lambda: self._released >= number, timeout=60.0)
        self.delivered(number)

    def get(self, number: int, seconds: float) -> Envelope | None:
        """Message `number`, or None if it is not released within `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._released > number, timeout=seconds)
            return self._envelopes[number] if self._released > number else None

    def delivered(self, number: int) -> None:
        """The server has the first `number` messages.

        Raises:
            RemoteProtocolError: E_STATE: it claims more than have left.
        """
        with self._changed:
            if number > self._released:
                raise RemoteProtocolError(
                    f"a server claims {number} messages of ours, {self._released} have left", code="E_STATE"
                )
            for k in range(self._delivered, number):
                self._envelopes[k] = None
            self._delivered = number
            self._changed.notify_all()

    def abandon(self) -> None:
        """Nothing is delivered any more."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def wait_empty(self, seconds: float) -> None:
        """Return when everything is delivered, delivery has ended, or time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._abandoned or self._delivered >= self._released, timeout=max(seconds, 0)
            )


class ServerLinks:
    """All connections of one party in one run.

    Args:
        run_id: The run.
        manifest: The signed manifest, as it is submitted.
        clients: By server.
        until: Monotonic seconds until which unreachable servers are tried again.
        on_wait: Called with a sentence when a server cannot be reached.
        on_poll: Called with a server and its standing after each poll.
        patience: Until when we agree to wait for late participants, as in `wire.Poll`.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        run_id: bytes,
        manifest: bytes,
        clients: Mapping[str, ServerClient],
        *,
        until: float,
        on_wait: Callable[[str], object] = lambda words: None,
        on_poll: Callable[[str, Standing], object] = lambda server, standing: None,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_id = run_id
        self._manifest = manifest
        self._clients = clients
        self._until = until
        self._on_wait = on_wait
        self._on_poll = on_poll
        self._patience = patience
        self._clock = clock
        self._events: queue.Queue[Received | FedValueError] = queue.Queue(maxsize=64)
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._unreachable: dict[str, str] = {}  # by thread: a server may answer one and refuse the other
        self.outgoing = {server: Outgoing() for server in clients}

    def start(self, received: Mapping[str, int]) -> None:
        """Deliver and fetch from here on; `received` is the number of messages known from each server."""
        for server, client in self._clients.items():
            self._thread(self._deliver, client, self.outgoing[server])
            self._thread(self._fetch, client, received[server])

    def next(self, seconds: float) -> Received | None:
        """The next message of any server, or None when there is none within `seconds`.

        Raises:
            FedValueError: A connection has failed for good.
        """
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, FedValueError):
            raise event
        return event

    @property
    def trouble(self) -> list[str]:
        """Why servers cannot be used now, one sentence each."""
        return sorted(set(self._unreachable.values()))

    def flush(self, seconds: float) -> None:
        """Wait until everything is delivered, at most `seconds` in all."""
        end = time.monotonic() + seconds
        for outgoing in self.outgoing.values():
            outgoing.wait_empty(end - time.monotonic())

    def close(self) -> None:
        """End all threads and connections."""
        self._stop.set()
        for client in self._clients.values():
            client.close()
        # gRPC may crash when the interpreter ends under a thread that is still inside a call.
        end = time.monotonic() + _THREAD_END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _thread(self, target: Callable[..., None], *arguments: object) -> None:
        def guarded() -> None:
            try:
                target(*arguments)
            except FedValueError as error:
                # A run that failed at the server refuses posts at once, while the reason, with the
                # right class, is still in our mail: let it arrive first.
                if not self._stop.wait(1.0):
                    self._put(error)

        name = f"{target.__name__.strip('_')} {len(self._threads)}"
        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _deliver(self, client: ServerClient, outgoing: Outgoing) -> None:
        try:
            number = self._try(client, lambda: client.submit(self._manifest)).next
            outgoing.skip(number)
            while not self._stop.is_set():
                envelope = outgoing.get(number, 0.5)
                if envelope is None:
                    continue
                parts = codec.encode_parts(envelope)
                self._try(client, lambda: client.post(self._run_id, number, *parts))  # noqa: B023
                number += 1
                outgoing.delivered(number)
        finally:
            outgoing.abandon()

    def _fetch(self, client: ServerClient, number: int) -> None:
        self._try(client, lambda: client.submit(self._manifest))
        seconds = _FIRST_POLL_SECONDS
        while not self._stop.is_set():
            mail = self._try(client, lambda: client.poll(self._run_id, number, seconds, self._patience))  # noqa: B023
            seconds = POLL_SECONDS
            self._on_poll(client.name, mail.standing)
            for body in mail.bodies:
                self._put((client.name, number, body))
                number += 1
            if not mail.bodies:
                # An empty answer before its time: the server is full or shutting down.
                self._stop.wait(0.05)

    def _put(self, event: Received | FedValueError) -> None:
        """Hand over an event, unless nobody reads any more."""
        while not self._stop.is_set():
            with suppress(queue.Full):
                self._events.put(event, timeout=0.5)
                return

    def _try(self, client: ServerClient, call: Callable[[], T]) -> T:
        """Repeat a call while its server cannot be reached, as long as the run may last."""
        thread = threading.current_thread().name
        while True:
            try:
                answer = call()
            except TransportError as error:
                if error.code not in _PASSING or self._clock() > self._until:
                    raise
                said, self._unreachable[thread] = self.trouble, str(error)
                if str(error) not in said:
                    self._on_wait(f"{error}; trying again")
                if self._stop.wait(0.2):
                    raise
            else:
                self._unreachable.pop(thread, None)
                return answer
