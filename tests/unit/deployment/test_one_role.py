"""A run has one role at a server, whichever threads need it first, and none once it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fedvalue.deployment.network import wire
from fedvalue.deployment.servers.server_role import server_role
from fedvalue.errors import TransportError
from tests.support.processes import PATIENCE
from tests.unit.deployment.test_damaged_disk import AGREED, Run, run  # noqa: F401


def test_a_question_about_a_run_does_not_replace_the_role_that_has_a_message(run: Run, monkeypatch) -> None:  # noqa: F811
    """A caller asks where the run stands while the worker handles the first message.

    Each found no role and made one. The later one stayed, without the message: the run waited until its
    deadline for a party that had sent everything, and named it.
    """
    made: list[threading.Thread] = []
    second = threading.Event()

    def slow(*terms):
        made.append(threading.current_thread())
        if len(made) > 1:
            second.set()
        second.wait(0.5)  # the other thread makes a role meanwhile, if it may
        return server_role("compute", *terms)

    host = run.host
    object.__setattr__(host._worker._context, "make_role", slow)
    host._worker._drop_role()
    asking = threading.Thread(
        target=run.relay.poll, args=(run.peer("bank"), wire.Poll(1, AGREED.run_id, 0, 0)), daemon=True
    )
    asking.start()
    run.handle()
    asking.join(PATIENCE)
    assert len(made) == 1
    assert run.standing.stage == "keying", "all three keys have arrived"


class Contended:
    """A lock before which another thread does something, once."""

    def __init__(self, lock, before: Callable[[], None]) -> None:
        self._lock, self._before = lock, before

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        before, self._before = self._before, lambda: None
        before()
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@pytest.mark.parametrize(
    ("question", "lock"), [("awaited", "_role_lock"), ("awaited_now", "_work"), ("missing", "_work")]
)
def test_a_question_at_the_end_of_a_run_makes_no_role_and_no_seed(run: Run, question: str, lock: str) -> None:  # noqa: F811
    """The run ends, and is purged, right after the caller has seen that it goes on: a new seed would stay."""
    worker, store = run.host._worker, run.relay._store
    assert store._db.rows("SELECT * FROM seeds")

    def end() -> None:
        run.host.fail(TransportError("too late", code="E_DEADLINE"))
        assert not store._db.rows("SELECT * FROM seeds")

    setattr(worker, lock, Contended(getattr(worker, lock), end))
    assert not getattr(worker, question)()
    assert run.host.ended
    assert not store._db.rows("SELECT * FROM seeds")
    assert worker._role_or_none is None
