"""A run has one role at a server, whichever threads need it first."""

from __future__ import annotations

import threading

from fedvalue.deployment.network import wire
from fedvalue.deployment.servers.server_role import server_role
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
