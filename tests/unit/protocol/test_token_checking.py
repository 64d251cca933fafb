"""The validation server takes from the computation server no more than it can need."""

from __future__ import annotations

import pytest

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.tokens.validating import TokenChecking
from tests.simulation.world import World


def chunk(query: int, n_tokens: int, n_authenticators: int) -> m.IntersectionChunk:
    tokens, sums = bytes(16 * n_tokens), bytes(8 * n_authenticators)
    name = query.to_bytes(16, "big")
    return m.IntersectionChunk(0, 1, b"", bytes(16), name, tokens, sums).with_digest()


@pytest.mark.parametrize(
    ("harden", "n_authenticators"), [(True, 0), (True, 2), (True, 4), (True, 500_000), (False, 3)]
)
def test_authenticators_that_do_not_fit_are_refused_at_arrival(harden: bool, n_authenticators: int) -> None:
    settings = World.drawn(1).settings("paper", harden=harden)
    checking = TokenChecking(settings, bytes(32))
    with pytest.raises(RemoteProtocolError) as refused:
        checking.take(chunk(1, 3, n_authenticators))
    assert refused.value.code == "E_SIZE"


def test_what_waits_for_keys_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intersections without end, none of which the task party has asked for."""
    settings = World.drawn(1, n=10).settings("paper", n_r=1)
    monkeypatch.setattr("fedvalue.protocol.tokens.intersecting.PENDING_BYTES", 10_000)
    checking = TokenChecking(settings, bytes(32))
    one = 30 * 24
    for query in range(10_000 // (one + 64)):
        checking.take(chunk(query, 30, 30))
    with pytest.raises(RemoteProtocolError) as refused:
        checking.take(chunk(99, 30, 30))
    assert refused.value.code == "E_SIZE"
