"""A courier carries messages as long as a run is under way, whatever happens on the way."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fedvalue.deployment.servers import courier as couriers
from fedvalue.errors import EngineError, FedValueError, RemoteProtocolError, TransportError
from tests.support.processes import PATIENCE


@pytest.mark.parametrize(("code", "tries"), [("E_DEADLINE", 1), ("E_UNREACHABLE", 2)])
def test_a_courier_ends_with_the_run_and_tries_again_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch, code: str, tries: int
) -> None:
    """That the run is over there is no failure of the line, on which it waits and tries again."""
    calls: Counter[threading.Thread] = Counter()
    made = threading.Event()

    class Refusing:
        def __init__(self, *_: object, **__: object) -> None: ...

        def submit(self, manifest: bytes) -> None:
            thread = threading.current_thread()
            calls[thread] += 1
            if calls[thread] == 2:
                made.wait(PATIENCE)
                courier._stop.set()
            raise TransportError("no", code=code)

        def close(self) -> None: ...

    monkeypatch.setattr(couriers, "ServerClient", Refusing)
    target = SimpleNamespace(name="validate")
    agreed = SimpleNamespace(epsilon=None)
    host = SimpleNamespace(manifest=agreed, run_id=b"", ended=False, release_waiters=lambda: None)
    store = SimpleNamespace(accepted=lambda run_id, sender: 0)
    courier = couriers.Courier(None, target, host, b"", store, None)  # type: ignore[arg-type]
    made.set()
    for thread in courier._threads:
        thread.join(PATIENCE)
    assert max(calls.values()) == tries


def test_a_courier_that_stops_does_not_wait_for_the_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one does not answer: the call ends with the connection, and no thread is left in it."""
    asked, closed = threading.Semaphore(0), threading.Event()

    class Silent:
        def __init__(self, *_: object, **__: object) -> None: ...

        def submit(self, manifest: bytes) -> None:
            asked.release()
            closed.wait(PATIENCE)
            raise TransportError("the connection was closed", code="E_CLOSED")

        def close(self) -> None:
            closed.set()

    monkeypatch.setattr(couriers, "ServerClient", Silent)
    host = SimpleNamespace(
        manifest=SimpleNamespace(epsilon=None), ended=False,
        journal=SimpleNamespace(release_waiters=lambda: None),
    )  # fmt: skip
    courier = couriers.Courier(None, SimpleNamespace(name="validate"), host, b"", None, None)  # type: ignore[arg-type]
    for _ in courier._threads:
        assert asked.acquire(timeout=PATIENCE)
    monkeypatch.setattr(couriers, "_JOIN_SECONDS", PATIENCE)
    courier.stop()
    assert not any(thread.is_alive() for thread in courier._threads)


class Fetching:
    """A courier whose other server has one message for us, in a run that is under way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, accept: Callable[[int], None]) -> None:
        monkeypatch.setattr(couriers, "_AGAIN_SECONDS", 0.01)
        monkeypatch.setattr(couriers, "ServerClient", lambda *_, **__: self)
        self.accepts = 0
        self.failure: FedValueError | None = None
        self.ended = False
        self.run_id = b""
        self.manifest = SimpleNamespace(epsilon=None, protocol="mirror")
        self.journal = SimpleNamespace(stage="comparing", wait_for_mail=lambda *_: time.sleep(0.01))
        self._accept = accept
        store = SimpleNamespace(accepted=lambda *_: 0, mail=lambda *_: [])
        log = SimpleNamespace(event=lambda *_, **__: None)
        self.courier = couriers.Courier(None, SimpleNamespace(name="validate"), self, b"", store, log)  # type: ignore[arg-type]
        deliver, fetch = self.courier._threads
        fetch.join(PATIENCE)
        self.courier._stop.set()
        deliver.join(PATIENCE)

    def submit(self, manifest: bytes) -> SimpleNamespace:
        return SimpleNamespace(next=0)

    def poll(self, run_id: bytes, number: int, seconds: float) -> SimpleNamespace:
        return SimpleNamespace(bodies=[b"message"])

    def close(self) -> None: ...

    def accept(self, sender: str, number: int, body: bytes) -> None:
        self.accepts += 1
        self._accept(self.accepts)
        self.ended = True  # the message was the last one

    def fail(self, error: FedValueError) -> None:
        self.failure, self.ended = error, True


def test_a_courier_tries_again_when_our_disk_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ended for good, and the run waited for its deadline though the disk had come back."""

    def full_once(attempt: int) -> None:
        if attempt < 3:
            raise EngineError("no space left on device", code="E_STORAGE")

    run = Fetching(monkeypatch, full_once)
    assert run.accepts == 3
    assert run.failure is None


def test_a_message_of_another_server_that_breaks_the_protocol_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once and with the server's name, not at the deadline."""

    def malformed(attempt: int) -> None:
        raise RemoteProtocolError("not an envelope", code="E_MALFORMED")

    run = Fetching(monkeypatch, malformed)
    assert run.accepts == 1
    assert run.failure is not None
    assert run.failure.code == "E_MALFORMED"
    assert "'validate'" in str(run.failure)


def test_a_courier_tries_again_when_an_answer_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([RemoteProtocolError("not a frame", code="E_MALFORMED")])
    honest = Fetching.poll

    def poll(run: Fetching, *call: Any) -> SimpleNamespace:
        for error in answers:
            raise error
        return honest(run, *call)

    monkeypatch.setattr(Fetching, "poll", poll)
    run = Fetching(monkeypatch, lambda attempt: None)
    assert run.accepts == 1
    assert run.failure is None
