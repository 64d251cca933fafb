"""Whom a server names as missing: exactly those whose next message has not come, at every stage."""

from __future__ import annotations

import pytest

from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.server import Server
from fedvalue.protocol.transitions import State
from tests.support.consortium import signed
from tests.support.roles import party_input, run_everybody
from tests.support.town import columns

N = 120


def awaited(silent: str, from_message: type[m.Message], **terms: object) -> dict[str, tuple[str, ...]]:
    """Whom each server waits for when one party goes silent right before a message of some kind."""
    codes = columns(N)
    inputs = {name: party_input(codes[name]) for name in ("telco", "shop")}
    inputs["bank"] = party_input(codes["task"], codes["label"])
    dead = False

    def lose(sender: str, to: str, body: bytes) -> bytes | None:
        nonlocal dead
        dead = dead or (sender == silent and isinstance(codec.decode(body).message, from_message))
        return None if dead and sender == silent else body

    roles = run_everybody(signed(n_samples=N, **terms), inputs, lose)
    assert dead, "the party never sent such a message"
    return {name: roles[name].awaited() for name in ("compute", "validate")}


@pytest.mark.parametrize("kind", [m.EphemeralKey, m.Ready, m.Confirm, m.Declaration, m.Chunk, m.Agree])
def test_the_party_that_went_silent_is_named_and_nobody_else(kind):
    assert awaited("shop", kind)["compute"] == ("shop",)


def test_before_the_task_party_has_shared_the_key_it_alone_is_awaited():
    """Also when another one has died by then: nobody knows yet."""
    assert awaited("bank", m.WrappedKeys)["compute"] == ("bank",)


def test_a_server_says_nobody_in_the_moment_in_which_all_ids_are_aligned(monkeypatch):
    """A caller's thread asks while the worker's is between two lines: the party would have got E_ENGINE."""
    asked = []
    become = Server._become

    def asking(role: Server, state: State) -> None:
        if role.state is State.ALIGNING:
            asked.append(role.awaited())
        become(role, state)

    monkeypatch.setattr(Server, "_become", asking)
    assert awaited("shop", m.Chunk, align="intersect")["compute"] == ("shop",)
    assert asked == [(), ()]


@pytest.mark.parametrize("kind", [m.Ready, m.Declaration, m.Chunk])
def test_the_validation_server_names_it_too(kind):
    assert awaited("shop", kind)["validate"] == ("shop",)


@pytest.mark.parametrize("kind", [m.ShareKeys, m.CodebookChunk])
def test_what_belongs_to_an_upload_is_awaited_with_it(kind):
    assert awaited("bank", kind) == {"compute": ("bank",), "validate": ("bank",)}
