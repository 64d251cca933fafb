"""The small parts: layout, cells, queries, outcome, settings, chunk store."""

from __future__ import annotations

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import InputError, RemoteProtocolError, VerificationError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.opaque_cells import DENSE_LIMIT, OpaqueCellCounter, collapse
from fedvalue.protocol.mirror.row_layout import LANE_LIMIT, RowLayout
from fedvalue.protocol.mirror.server_result import CountsResult
from fedvalue.protocol.outcome import same_numbers
from fedvalue.protocol.settings import Adversarial, NoiseKind
from fedvalue.protocol.tokens import queries
from tests.simulation.world import World, run


@given(st.lists(st.integers(1, 2**24), min_size=3, max_size=40), st.randoms(use_true_random=False))
def test_layout_writes_and_reads_every_digit(radices: list[int], random: object) -> None:
    """Digits of all coordinates come back, and no lane is larger than its limit."""
    layout = RowLayout.of(radices)
    codes = [[random.randrange(r) for r in radices] for _ in range(5)]  # type: ignore[attr-defined]
    words = np.zeros((5, layout.n_lanes), dtype=np.uint64)
    for k in range(len(radices)):
        for row in range(5):
            words[row, layout.lane[k]] += np.uint64(layout.stride[k] * codes[row][k])
    for k in range(len(radices)):
        assert layout.digits(words, k).tolist() == [row[k] for row in codes]
    assert (words < layout.limits()).all()
    assert max(int(limit) for limit in layout.limits()) <= LANE_LIMIT
    assert math.prod(int(limit) for limit in layout.limits()) == math.prod(radices)


@pytest.mark.parametrize("radices", [(2, 2, 3), (2, 2, DENSE_LIMIT), (3, 2, 2**24, 2**24, 2**20)])
def test_cells_equal_a_counter(radices: tuple[int, ...]) -> None:
    """Dense, sparse and several lanes: the same as counting tuples, over many chunks."""
    rng = np.random.default_rng(0)
    layout = RowLayout.of(radices)
    counter, expected = OpaqueCellCounter(layout), Counter()
    for _ in range(7):
        words = np.column_stack([rng.integers(0, min(int(m), 40), 500) for m in layout.limits()])
        counter.add(words.astype(np.uint64))
        expected.update(map(tuple, words.tolist()))
    cells, counts = counter.cells()
    assert {tuple(row): n for row, n in zip(cells.tolist(), counts.tolist(), strict=True)} == expected
    assert [tuple(row) for row in cells.tolist()] == sorted(expected)


def test_collapse_of_nothing() -> None:
    words, counts = collapse(np.empty((0, 2), dtype=np.uint64), np.empty(0, dtype=np.int64))
    assert len(words) == len(counts) == 0


@pytest.mark.parametrize(
    ("words", "counts", "n_samples", "code"),
    [
        ([0, 1], [2, 3], 5, ""),
        ([0, 12], [2, 3], 5, "E_RANGE"),
        ([0, 1], [2, 0], 2, "E_RANGE"),
        ([0, 1], [-1, 6], 5, "E_RANGE"),
        ([0, 1], [2, 2**62], 5, "E_RANGE"),
        ([0, 1], [2, 2], 5, "E_TOTAL"),
        ([0], [2, 3], 5, "E_DECLARED"),
        ([], [], 0, "E_DECLARED"),
    ],
)
def test_counts_from_a_server_are_checked(words: list, counts: list, n_samples: int, code: str) -> None:
    cells = np.array(words, "<u8").tobytes(), np.array(counts, "<i8").tobytes()
    result = CountsResult(n_samples, *cells, bytes(16))
    layout = RowLayout.of((2, 2, 3))
    if not code:
        assert result.cells(layout)[1].tolist() == counts
        return
    with pytest.raises((RemoteProtocolError, VerificationError)) as refused:
        result.cells(layout)
    assert refused.value.code == code


def test_estimate_is_what_a_run_sends() -> None:
    """Tokens on the wire, counted in real runs."""
    world = World.drawn(1, n=30, sizes=(2, 3))
    for protocol, options in (
        ("single", {}),
        ("paper", {"q": 2, "n_r": 3}),
        ("paper", {"q": 3, "n_r": "50%", "harden": False}),
        ("paper", {"q": 2, "n_r": 1, "by_coalition": True}),
    ):
        cast = world.cast(protocol, **options)
        cost = queries.estimate(world.settings(protocol, **options))
        n_tokens = n_bytes = 0
        asked = set()
        for data in run(cast).log:
            message = codec.decode(data).message
            if isinstance(message, m.TokenChunk):
                n_tokens += len(message.tokens) // 16
                asked.add(message.query)
            if isinstance(message, m.TokenChunk | m.IntersectionChunk):
                n_bytes += len(message.tokens) + len(message.authenticators)
        assert (cost.n_tokens, cost.n_queries, cost.n_bytes) == (n_tokens, len(asked), n_bytes)


def test_estimate_of_the_analysis() -> None:
    """A million samples, five binary data parties, m_t = 4, q = 3: 1.06e9 tokens, 17 GB
    for the grand coalition (n_r = 0), 89 GB coalition by coalition."""
    world = World.drawn(1, n=4, sizes=(2,) * 5)
    base = world.settings("paper", q=3, n_r=0, harden=False, max_tokens=10**12)
    grand = queries.estimate(msgspec.structs.replace(base, max_samples=10**6, n_samples=10**6))
    assert grand.n_tokens == pytest.approx(1.06e9, rel=0.01)
    assert 16 * grand.n_tokens == pytest.approx(17e9, rel=0.01)
    every = queries.estimate(
        msgspec.structs.replace(base, max_samples=10**6, n_samples=10**6, by_coalition=True)
    )
    assert 16 * every.n_tokens == pytest.approx(89e9, rel=0.02)


def test_n_r_as_users_write_it() -> None:
    assert Adversarial.parse(5) == Adversarial(NoiseKind.CONSTANT, 5)
    assert Adversarial.parse("5") == Adversarial(NoiseKind.CONSTANT, 5)
    for share in ("90%", 0.9):
        assert Adversarial.parse(share) == Adversarial(NoiseKind.SHARE, 900_000)
        assert Adversarial.parse(share).counted(10_000) == Adversarial(NoiseKind.TOTAL, 90_000)
    assert Adversarial.parse("random:8") == Adversarial(NoiseKind.RANDOM, 8)
    assert Adversarial.parse("random:8").counted(100) == Adversarial(NoiseKind.RANDOM, 8)
    assert Adversarial.parse(None) == Adversarial(NoiseKind.CONSTANT, 1)
    assert Adversarial.parse(Adversarial()) == Adversarial()
    for wrong in ("x", "random:", "-1", "1e3", 1.5, float("nan"), float("inf")):
        with pytest.raises(InputError):
            Adversarial.parse(wrong)
    with pytest.raises(InputError, match="below 100%, got 100%"):
        Adversarial.parse("100%")


def test_numbers_of_two_servers_are_compared_to_the_last_bit() -> None:
    assert same_numbers({"a": [1.0, {"b": None}]}, {"a": [1.0, {"b": None}]})
    assert not same_numbers({"a": 1.0}, {"a": 1.0 + 5e-16})
    assert same_numbers({"a": 1.0}, {"a": 1.0 + 5e-10}, 1e-9)
    assert not same_numbers({"a": 1.0}, {"a": 1.0 + 2e-9}, 1e-9)
    assert not same_numbers({"a": 1}, {"a": 2})
    assert not same_numbers({"n_samples": 300}, {"n_samples": 300.0000000001})
    assert not same_numbers({"n_samples": 300}, {"n_samples": 300.0})
    assert not same_numbers({"a": 1.0}, {"b": 1.0})
    assert not same_numbers([1.0], [1.0, 2.0])
    assert not same_numbers(float("nan"), float("nan"))
    assert not same_numbers(float("inf"), float("inf"))
    assert not same_numbers(True, 1)
    assert not same_numbers("a", "b")
    assert same_numbers("a", "a")
    assert not same_numbers("1", 1)


def test_cut_parts_carry_all_bytes_in_order() -> None:
    """15 bytes in parts of 4: three full ones and the rest; no bytes, no parts."""
    data = bytes(range(15))
    parts = list(m.cut(data, 4))
    assert [(index, total, len(part)) for index, total, part in parts] == [
        (0, 4, 4), (1, 4, 4), (2, 4, 4), (3, 4, 3),
    ]  # fmt: skip
    assert b"".join(part for _, _, part in parts) == data
    assert not list(m.cut(b"", 4))


def test_parts_are_taken_in_order_up_to_the_total_of_the_first() -> None:
    def chunk(index: int, total: int) -> m.ResultChunk:
        return m.ResultChunk(index, total, b"", bytes([index])).with_digest()

    parts: m.OrderedParts[m.ResultChunk] = m.OrderedParts("the result", 3)
    parts.add(chunk(0, 2))
    assert not parts.complete
    for wrong in (chunk(0, 2), chunk(2, 2), chunk(1, 3)):
        with pytest.raises(RemoteProtocolError, match="the result: a part is out of order"):
            parts.add(wrong)
    parts.add(chunk(1, 2))
    assert parts.complete
    assert [part.data for part in parts.messages] == [b"\0", b"\1"]
    with pytest.raises(RemoteProtocolError, match="out of order"):
        parts.add(chunk(2, 2))


def test_parts_are_not_more_than_an_honest_sender_makes() -> None:
    """Receivers look at all parts with each new one: 40,000 took 14 s, and 2^21 were allowed."""
    parts: m.OrderedParts[m.ResultChunk] = m.OrderedParts("the result", m.n_parts(9, 4))
    with pytest.raises(RemoteProtocolError, match="the result: 4 parts, expected at most 3") as refused:
        parts.add(m.ResultChunk(0, 4, b"", b"x").with_digest())
    assert refused.value.code == "E_DECLARED"
    assert not parts.messages
    parts.add(m.ResultChunk(0, 3, b"", b"x").with_digest())
