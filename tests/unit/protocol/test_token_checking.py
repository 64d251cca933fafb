"""The validation server takes from the computation server no more than it can need."""

from __future__ import annotations

import pytest

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.tokens import queries
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


def query_key(query: int, coalition: tuple[str, ...]) -> m.QueryKey:
    return m.QueryKey(query.to_bytes(16, "big"), coalition, bytes(16), bytes(16))


def test_a_query_is_asked_once_for_a_coalition_of_the_run_and_no_more_often_than_agreed() -> None:
    """The task party could otherwise read cells that nobody agreed to, one query at a time."""
    settings = World.drawn(1, n=10).settings("paper", n_r=1)
    checking = TokenChecking(settings, bytes(32))
    coalition = queries.coalitions(settings)[0]

    def refused(message: m.QueryKey | m.IntersectionChunk) -> tuple[str, str]:
        with pytest.raises(RemoteProtocolError) as caught:
            checking.take(message)
        return caught.value.code, str(caught.value)

    assert refused(query_key(0, ("task party", "nobody"))) == (
        "E_DECLARED", "a query of a coalition that does not exist",
    )  # fmt: skip
    assert checking.take(query_key(0, coalition)) == []
    assert checking.take(chunk(0, 4, 4)) != []
    for again in (query_key(0, coalition), chunk(0, 4, 4)):
        assert refused(again) == ("E_QUERY", "a query that already has its verdict")
    n_left = queries.check_budget(settings).n_queries - 1
    for query in range(1, n_left + 1):
        checking.take(query_key(query, coalition))
    assert refused(query_key(n_left + 1, coalition)) == ("E_QUERY", "more queries than the run has")


def test_an_intersection_holds_no_more_tokens_than_any_set() -> None:
    """Ten samples and one adversarial one, once per group that tokens are copied to."""
    settings = World.drawn(1, n=10).settings("paper", n_r=1)
    most = 11 * queries.copies(settings)
    TokenChecking(settings, bytes(32)).take(chunk(0, most, most))
    with pytest.raises(RemoteProtocolError, match="larger than any set") as refused:
        TokenChecking(settings, bytes(32)).take(chunk(0, most + 1, most + 1))
    assert refused.value.code == "E_SIZE"
