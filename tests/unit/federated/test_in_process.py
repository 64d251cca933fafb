"""The transport inside one process: drives, tells everybody of a failure, and notices a standstill."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import TransportError, VerificationError
from fedvalue.federated.in_process import InProcessTransport
from fedvalue.protocol import codec
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.messages import Abort
from fedvalue.protocol.transitions import State
from fedvalue.simulation.drill.mirror_cheats import FiddlingCounting, merge
from fedvalue.simulation.drill.plot import Plot, cheating
from tests.simulation.world import World

WORLD = World.drawn(1)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("wire", [True, False])
def test_a_run_ends_with_every_role_done(threads: int, wire: bool) -> None:
    cast = WORLD.cast()
    InProcessTransport(threads=threads, wire=wire).run(cast.everyone())
    assert {role.state for role in cast.everyone()} == {State.DONE}


def test_the_tap_sees_every_envelope() -> None:
    seen: list[bytes] = []
    cast = WORLD.cast()
    InProcessTransport(tap=seen.append).run(cast.everyone())
    kinds = {type(codec.decode(data).message).__name__ for data in seen}
    assert {"EphemeralKey", "Chunk", "ResultSeal", "AgreeRoster"} <= kinds


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failure_is_raised_and_told_to_everybody(threads: int) -> None:
    """Nothing is released anywhere; the parties know the code."""
    plot = Plot(np.random.default_rng(0))
    cheat = cheating(ComputationServer, FiddlingCounting, plot, fiddle=merge)
    cast = WORLD.cast(servers={"computation": cheat})
    seen: list[bytes] = []
    with pytest.raises(VerificationError) as failed:
        InProcessTransport(threads=threads, tap=seen.append).run(cast.everyone())
    assert failed.value.code == "E_MIRROR"
    for party in (cast.task, *cast.parties):
        assert party.state is State.FAILED
        assert party.failure is not None
        assert party.failure.code == "E_MIRROR"
        assert party.outcome is None
    assert any(isinstance(codec.decode(data).message, Abort) for data in seen)


def test_a_standstill_is_an_error_that_names_who_waits() -> None:
    cast = WORLD.cast()
    with pytest.raises(TransportError, match="p1"):
        InProcessTransport().run(role for role in cast.everyone() if role.name != "p0")
