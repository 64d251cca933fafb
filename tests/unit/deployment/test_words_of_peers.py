"""What a peer says about the end of a run: it ends, and its words reach nobody's log or terminal unasked."""

from __future__ import annotations

import pytest

from fedvalue.deployment.network import wire
from fedvalue.errors import TransportError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.unit.deployment.test_damaged_disk import AGREED, Run, run  # noqa: F401


def abort(at: Run, code: str, missing: tuple[str, ...] = ()) -> None:
    """The shop ends the run."""
    body = codec.encode(m.Envelope(AGREED.run_id, "shop", "compute", m.Abort(code, missing)))
    at.relay.post(at.peer("shop"), wire.Post(1, AGREED.run_id, at.numbers["shop"], memoryview(body)))
    at.handle()


def mail(at: Run) -> list[bytes]:
    return list(at.relay.poll(at.peer("bank"), wire.Poll(1, AGREED.run_id, 0, 0)).bodies)


@pytest.mark.parametrize("code", ["E_STORAGE", "E_DIGEST", "E_DEADLINE", "E_BUSY"])
def test_whatever_code_a_party_ends_its_run_with_the_run_ends(run: Run, code: str) -> None:  # noqa: F811
    """Also with one that would mean a broken disk if the server itself had it."""
    run.handle()
    abort(run, code)
    run.host.tick(run.now)
    assert run.standing.state == "failed"


@pytest.mark.parametrize(
    "missing",
    [("x" * 65,), tuple(f"{k:060d}" for k in range(250)), ("\x1b]0;owned\x07\nfedvalue: all is well",)],
    ids=["long", "many", "escapes"],
)
def test_names_of_strangers_are_not_passed_on(run: Run, missing: tuple[str, ...]) -> None:  # noqa: F811
    """Else one party could make a server send what no other party can read, or what commands a terminal."""
    run.handle()
    abort(run, "E_DEADLINE", missing)
    standing = wire.decode(wire.encode(run.standing), wire.Standing)
    assert (standing.state, standing.reason) == ("failed", "'shop' has ended the run")
    bodies = mail(run)
    for body in bodies:
        assert not getattr(codec.decode(body).message, "missing", ())
    told = next(one for one in map(codec.decode, bodies) if isinstance(one.message, m.Abort))
    with pytest.raises(TransportError, match=r"server 'compute': 'shop' has ended the run$"):
        run.parties["bank"].receive(told)


def test_a_server_cannot_command_a_terminal_by_an_abort(run: Run) -> None:  # noqa: F811
    run.handle()
    for body in mail(run):
        run.parties["bank"].receive(codec.decode(body))
    evil = "\x1b]0;owned\x07\nfedvalue: all is well"
    words = m.Abort("E_DEADLINE", (evil,), evil)
    with pytest.raises(TransportError, match=r"^server 'compute': ") as ended:
        run.parties["bank"].receive(m.Envelope(AGREED.run_id, "compute", "bank", words))
    assert str(ended.value).isprintable()
    assert ended.value.missing == ()
