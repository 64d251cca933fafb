"""The decoder of bytes from outside: an envelope or a RemoteProtocolError, whatever comes."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from fedvalue._version import PROTOCOL_VERSION
from fedvalue.crypto import keys
from fedvalue.deployment.network import wire
from fedvalue.errors import LocalProtocolError, RemoteProtocolError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    CountsResult,
    ValuesResult,
    decode_result,
    open_share,
)
from tests.simulation.world import World, run

HEAD = codec.MAGIC + bytes([PROTOCOL_VERSION])
"""What every frame begins with."""

N_FUZZ = 100_000
KINDS = sorted(kind.__name__ for kind in m.AnyMessage.__args__)


@cache
def one_of_each() -> dict[str, bytes]:
    """One real envelope of every kind, from real runs."""
    found: dict[str, bytes] = {}
    world = World.drawn(1, n=12).with_features()
    for protocol, options in (
        ("mirror", {"align": "intersect", "columns": "features"}),
        ("mirror", {"epsilon": "1"}),
        ("paper", {"n_r": 1, "columns": "features"}),
        ("gram", {"epsilon": "1"}),
    ):
        for data in run(world.cast(protocol, **options)).log:
            kind = type(codec.decode(data).message).__name__
            found[kind] = min(found.get(kind, data), data, key=len)
    abort = m.Abort("E_DEADLINE", ("shop",), "too late", "TransportError")
    found["Abort"] = codec.encode(m.Envelope(bytes(32), "a", "b", abort))
    return found


def test_runs_use_every_message() -> None:
    assert set(one_of_each()) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind: str) -> None:
    data = one_of_each()[kind]
    envelope = codec.decode(data)
    assert codec.encode(envelope) == data
    assert type(envelope.message).__name__ == kind


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(kind: str) -> None:
    data = one_of_each()[kind]
    for end in range(0, len(data), max(1, len(data) // 200)):
        with pytest.raises(RemoteProtocolError):
            codec.decode(data[:end])
    with pytest.raises(RemoteProtocolError):
        codec.decode(data + b"\0")


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to four changes: a byte, a piece cut out, put in, or doubled."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        what = rng.randrange(4)
        if what == 0 and at < len(out):
            out[at] = rng.choice((0, 0x7F, 0x80, 0xC1, 0xC6, 0xDD, 0xDF, 0xFF, rng.randrange(256)))
        elif what == 1:
            del out[at : at + rng.randint(1, 8)]
        elif what == 2:
            out[at:at] = rng.randbytes(rng.randint(1, 8))
        else:
            out[at:at] = out[at : at + 16]
    return bytes(out)


def refusals(decode: Callable[[bytes], object], samples: list[bytes], seed: int, head: bytes) -> Counter[str]:
    """Codes with which 100,000 inputs are refused: mutated real ones, and noise. No other error passes."""
    rng = random.Random(seed)
    codes: Counter[str] = Counter()
    for k in range(N_FUZZ):
        noise = k % 10 in (0, 5)
        data = (head if k % 10 else b"") + rng.randbytes(rng.randrange(60)) if noise else b""
        try:
            decode(data if noise else mutated(rng, rng.choice(samples)))
        except RemoteProtocolError as error:
            codes[error.code] += 1
    return codes


def test_fuzzed_envelopes_are_envelopes_or_refused() -> None:
    codes = refusals(codec.decode, list(one_of_each().values()), 20, HEAD)
    assert set(codes) <= {"E_MALFORMED", "E_VERSION"}
    assert codes.total() > N_FUZZ // 2


def test_fuzzed_results_are_results_or_refused() -> None:
    encode = msgspec.msgpack.encode
    samples = [
        encode(ValuesResult(5, {"total": 0.5, "method": "exact"}, bytes(40), (bytes(30), bytes(30)))),
        encode(CountsResult(5, bytes(16), bytes(16), bytes(16))),
    ]
    codes = refusals(decode_result, samples, 21, b"\x84")
    assert set(codes) == {"E_MALFORMED"}


def test_fuzzed_shares_are_shares_or_refused() -> None:
    def sealed_and_opened(fields: bytes) -> object:
        key = bytes(32)
        return open_share(key, keys.seal(key, fields, SHARE_CONTEXT), SHARE_CONTEXT)

    fields = msgspec.msgpack.encode({"value": 0.25, "flags": [], "n_codes": 3, "se_data": None})
    codes = refusals(sealed_and_opened, [fields], 22, b"\x84")
    assert set(codes) == {"E_MALFORMED"}


def test_a_hostile_header_does_not_allocate() -> None:
    """A header that promises 4 GB costs nothing."""
    tracemalloc.start()
    for head in (b"\xdd", b"\xdf", b"\xc6", b"\xdb"):
        with pytest.raises(RemoteProtocolError):
            codec.decode(HEAD + b"\x94" + head + b"\xff\xff\xff\xff" + bytes(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"F",
        HEAD,
        HEAD + b"\xdd\xff\xff\xff\xff",
        HEAD + b"\xdf\xff\xff\xff\xff",
        HEAD + b"\xc6\xff\xff\xff\xff",
        HEAD + b"\x91" * 50_000,
        HEAD + b"\x81\xa1a" * 50_000,
        b"XX\x01\x90",
    ],
)
def test_hostile_headers_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        codec.decode(data)
    assert refused.value.code == "E_MALFORMED"


def test_another_version_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match=f"version {PROTOCOL_VERSION + 1}") as refused:
        codec.decode(codec.MAGIC + bytes([PROTOCOL_VERSION + 1]) + one_of_each()["Abort"][3:])
    assert refused.value.code == "E_VERSION"


def test_what_is_too_long_is_refused_on_both_sides() -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        codec.decode(bytes(codec.MAX_MESSAGE_BYTES + 1))
    assert refused.value.code == "E_SIZE"
    huge = m.Chunk(0, 1, bytes(32), bytes(16), memoryview(bytes(codec.MAX_MESSAGE_BYTES)))
    with pytest.raises(LocalProtocolError):
        codec.encode(m.Envelope(bytes(32), "a", "b", huge))


def test_a_chunk_beyond_four_mebibytes_is_refused() -> None:
    data = codec.encode(
        m.Envelope(bytes(32), "a", "b", m.Chunk(0, 1, bytes(32), bytes(16), memoryview(bytes(4 * 2**20 + 1))))
    )
    with pytest.raises(RemoteProtocolError):
        codec.decode(data)


def test_largest_legal_messages_fit() -> None:
    full = memoryview(bytes(4 * 2**20))
    largest = m.TokenChunk(0, 1, bytes(32), bytes(16), bytes(16), ("a", "b"), full, full)
    assert codec.decode(codec.encode(m.Envelope(bytes(32), "a", "b", largest))).message == largest


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, 4 << 20])
def test_rows_that_follow_their_envelope_are_where_an_encoder_puts_them(size: int) -> None:
    """Byte by byte what MessagePack's own encoder writes, at every form of a length."""
    rows = bytes(range(256)) * (size // 256) + bytes(size % 256)
    chunk = m.Chunk(3, 9, bytes(32), bytes(16), memoryview(rows))
    envelope = m.Envelope(bytes(32), "telco", "compute", chunk)
    expected = codec.MAGIC + bytes([codec.VERSION]) + msgspec.msgpack.encode(envelope)
    *head, tail = codec.encode_parts(envelope)
    assert b"".join(head) + bytes(tail) == expected == codec.encode(envelope)
    assert tail.obj is rows
    frame = wire.Post(wire.VERSION, bytes(32), 7, memoryview(expected))
    assert wire.encode_post(bytes(32), 7, *head, tail) == wire.encode(frame)


@pytest.mark.parametrize("code", ["E_RANGE\n", "\nE_RANGE", "E_", "E_RANGE x", 'E_"'])
def test_a_code_is_letters_to_its_end(code: str) -> None:
    """It becomes a label of the servers' metrics, which a line break would make unreadable for ever."""
    with pytest.raises(RemoteProtocolError):
        codec.decode(codec.encode(m.Envelope(bytes(32), "a", "b", m.Abort(code))))


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_536])
def test_tokens_and_authenticators_are_where_an_encoder_puts_them(size: int) -> None:
    """Two large fields, one after the other, and neither of them is copied."""
    tokens, sums = memoryview(bytes([7]) * 2 * size), memoryview(bytes([9]) * size)
    for message in (
        m.TokenChunk(3, 9, bytes(32), bytes(16), bytes(16), ("bank", "telco"), tokens, sums),
        m.IntersectionChunk(3, 9, bytes(32), bytes(16), bytes(16), tokens, memoryview(b"")),
    ):
        envelope = m.Envelope(bytes(32), "telco", "compute", message)
        parts = codec.encode_parts(envelope)
        expected = codec.MAGIC + bytes([codec.VERSION]) + msgspec.msgpack.encode(envelope)
        assert b"".join(parts) == expected
        assert codec.decode(expected).message == message
        views = [part.obj for part in parts if isinstance(part, memoryview)]
        assert views[0] is tokens.obj
        assert views[1] is message.authenticators.obj
