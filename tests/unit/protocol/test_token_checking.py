"""Servers of `paper` take no more than a run can need, and only what belongs together."""

from __future__ import annotations

import pytest

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.tokens import queries
from fedvalue.protocol.tokens.intersecting import TokenCounting
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


PAPER = World.drawn(1, n=10).settings("paper", n_r=1)
GRAND, *SMALLER = queries.coalitions(PAPER)


def part(
    tokens: list[int], *, query: int = 0, coalition: tuple[str, ...] = GRAND, index: int = 0, total: int = 1
) -> m.TokenChunk:
    """Part of a set; tokens are numbers, first word first."""
    data = b"".join(token.to_bytes(8, "little") + bytes(8) for token in tokens)
    name = query.to_bytes(16, "big")
    return m.TokenChunk(
        index, total, b"", bytes(16), name, coalition, data, bytes(8 * len(tokens))
    ).with_digest()


def test_a_server_counts_sets_in_rising_order_of_a_query_that_the_run_has() -> None:
    counting = TokenCounting(PAPER, Credentials(bytes(32), bytes(32), {}))
    assert counting.add("p0", part([1, 2], total=2)) == []
    assert counting.add("p0", part([3, 4], index=1, total=2)) == []


@pytest.mark.parametrize(
    ("parts", "code", "words"),
    [
        ([part([2, 1])], "E_DECLARED", "sent tokens out of order"),
        ([part([1, 1])], "E_DECLARED", "sent tokens out of order"),
        ([part([1, 5], total=2), part([5, 6], index=1, total=2)], "E_DECLARED", "sent tokens out of order"),
        ([part([1, 5], total=2), part([4, 6], index=1, total=2)], "E_DECLARED", "sent tokens out of order"),
        ([part([1], index=1, total=2)], "E_DECLARED", "sent a token chunk out of order"),
        ([part([1], total=2), part([2], index=1, total=3)], "E_DECLARED", "sent a token chunk out of order"),
        ([part([1]), part([2])], "E_DECLARED", "sent a token chunk out of order"),
        ([part([], total=2)], "E_SIZE", "do not match"),
        ([part([1], total=2), part([2], index=1, total=2, coalition=SMALLER[0])], "E_DECLARED", "different"),
        ([part([1], coalition=("task party", "nobody"))], "E_QUERY", "does not have"),
    ],
)
def test_sets_that_do_not_belong_together_are_refused(
    parts: list[m.TokenChunk], code: str, words: str
) -> None:
    counting = TokenCounting(PAPER, Credentials(bytes(32), bytes(32), {}))
    for each in parts[:-1]:
        counting.add("p0", each)
    with pytest.raises(RemoteProtocolError, match=words) as refused:
        counting.add("p0", parts[-1])
    assert refused.value.code == code


def test_a_party_speaks_only_for_coalitions_that_it_is_in_and_has_no_more_cells_than_they_have() -> None:
    without = next(coalition for coalition in SMALLER if "p0" not in coalition)
    counting = TokenCounting(PAPER, Credentials(bytes(32), bytes(32), {}))
    with pytest.raises(RemoteProtocolError, match="names a different coalition") as refused:
        counting.add("p0", part([1], coalition=without))
    assert refused.value.code == "E_DECLARED"
    counting = TokenCounting(PAPER, Credentials(bytes(32), bytes(32), {}))
    (n_cells,) = (table.n_cells for table in queries.tables(PAPER) if table.coalition == GRAND)
    for query in range(n_cells):
        counting.add("p0", part([1], query=query))
    with pytest.raises(RemoteProtocolError, match="does not have") as refused:
        counting.add("p0", part([1], query=n_cells))
    assert refused.value.code == "E_QUERY"
