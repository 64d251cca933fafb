"""Item 36: every decoder of bytes from outside, beside those of envelopes and results (`test_codec`).

100,000 inputs each: real ones with a few bytes changed, cut out, put in or doubled. A typed error or a
message, nothing else, and no memory beyond a small multiple of the input.
"""

from __future__ import annotations

import math
import random
import tracemalloc
from collections.abc import Callable

import pytest

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.deployment.network import wire
from fedvalue.errors import ConfigError, FedValueError, RemoteProtocolError, VerificationError
from fedvalue.identity.audit_log import ChainWriter, Receipt, read_log
from fedvalue.identity.identity_files import read_card
from tests.support.consortium import identity, signed
from tests.unit.protocol.test_codec import N_FUZZ, mutated

SIZES = [2_000, pytest.param(N_FUZZ, marks=pytest.mark.slow)]
"""For decoders of files, which take longer: all inputs in `make test-all`."""
SERIALS = pytest.mark.filterwarnings("ignore:Parsed a serial number")
"""A changed certificate may have a negative one: `cryptography` warns, which is an error in tests only."""
HEAD = wire.SignedHead("compute", 3, bytes(32), bytes(64))
FRAMES = (
    wire.Submit(1, b"{}"),
    wire.Post(1, bytes(32), 0, b"body"),
    wire.Poll(1, bytes(32), 0, 1000),
    wire.Status(1, bytes(32)),
    wire.Health(1),
    wire.Leave(1, bytes(32), "telco", "acceptance", b"sealed"),
    wire.Look(1, bytes(32), 2),
    wire.Notes(1, (wire.Note("telco", "acceptance", b"sealed"),)),
    wire.Standing(1, "open", 0, 2, "E_SIZE", "too large", HEAD),
    wire.Mail(1, (b"one", b"two"), wire.Standing(1, "open", 0, 2)),
    wire.Alive(1, "compute", "1.0", 2, 1),
)


def refusals(
    decode: Callable[[bytes], object], samples: list[bytes], n: int, *kinds: type[FedValueError]
) -> int:
    """How many of n changed inputs are refused; any other error than these kinds comes out."""
    rng = random.Random(36)
    refused = 0
    for _ in range(n):
        try:
            decode(mutated(rng, rng.choice(samples)))
        except kinds:
            refused += 1
    return refused


def bounded(decode: Callable[[bytes], object], samples: list[bytes]) -> bool:
    """Whether 1,000 changed inputs need no more memory at once than 64 times the largest, and 256 KiB.

    The least of three measurements: what threads of earlier tests allocate meanwhile counts too.
    """
    return min(peak(decode, samples) for _ in range(3)) < 64 * max(map(len, samples)) + (256 << 10)


def peak(decode: Callable[[bytes], object], samples: list[bytes]) -> int:
    """Most bytes allocated at once while 1,000 changed inputs are decoded."""
    tracemalloc.start()
    try:
        refusals(decode, samples, 1000, FedValueError)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_reply_in_a_log_or_traceback_shows_no_message():
    mail = wire.Mail(1, (b"token", b"more"), wire.Standing(1, "open", 0, 2))
    assert repr(mail) == "Mail(2 messages, 9 bytes)"
    assert "token" not in repr(wire.Post(1, bytes(32), 0, memoryview(b"token")))


def test_the_samples_are_all_kinds_of_messages():
    kinds = {kind for kind in vars(wire).values() if isinstance(kind, type) and issubclass(kind, wire.Frame)}
    assert {type(one) for one in FRAMES} == kinds - {wire.Frame}


@pytest.mark.parametrize("moment", [math.nan, math.inf, -math.inf, -1.0, 1e300])
def test_a_moment_is_one_that_a_calendar_has(moment):
    """Either side turns these into dates; what is no date would end a party's run without a typed error."""
    for frame in (
        wire.Submit(1, b"{}", moment),
        wire.Poll(1, bytes(32), 0, 1000, moment),
        wire.Standing(1, "open", 0, 2, deadline=moment),
        wire.Standing(1, "open", 0, 2, time=moment),
        wire.Alive(1, "compute", "1.0", 2, 1, moment),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            wire.decode(wire.encode(frame), type(frame))
        assert caught.value.code == "E_MALFORMED"


def test_frames_stand_a_hundred_thousand_inputs():
    """Each input as every kind of frame in turn: a server does not know what will come."""
    rng = random.Random(1)
    kinds = [type(one) for one in FRAMES]

    def decode(data: bytes) -> object:
        return wire.decode(data, rng.choice(kinds))

    samples = [wire.encode(one) for one in FRAMES]
    assert N_FUZZ > refusals(decode, samples, N_FUZZ, RemoteProtocolError) > N_FUZZ // 2
    assert bounded(decode, samples)


def test_refusals_of_a_peer_stand_a_hundred_thousand_inputs():
    """The details of a gRPC status: an error of ours, or None for gRPC's own words; always printable."""
    samples = [b"RemoteProtocolError|E_SIZE|too large", b"TransportError|E_BUSY|more than 8 calls at once"]
    rng = random.Random(2)
    understood = 0
    for _ in range(N_FUZZ):
        error = wire.error_from(mutated(rng, rng.choice(samples)).decode("latin-1"))
        understood += error is not None
        assert error is None or (str(error).isprintable() and error.code.isprintable())
    assert 0 < understood < N_FUZZ


@pytest.mark.parametrize("n", SIZES)
def test_lines_of_logs_and_receipts_stand_a_hundred_thousand_inputs(n):
    writer = ChainWriter(identity("compute"), "ab" * 32)
    line = writer.append("accepted", "cd" * 32, "2030-01-01T00:00:00Z").encode()
    assert writer.receipt is not None
    receipt = writer.receipt.to_line().encode()
    key = identity("compute").card.sign_key

    def text(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    found = refusals(lambda data: read_log([text(data)], key), [line], n, VerificationError)
    assert found > n * 9 // 10
    found = refusals(lambda data: Receipt.from_line(text(data)), [receipt], n, ConfigError)
    assert n > found > n // 2


@SERIALS
@pytest.mark.parametrize("n", SIZES)
def test_manifests_stand_a_hundred_thousand_inputs(n):
    """No changed manifest passes as the one that was signed: refused, or its run id is another's."""
    agreed = signed()
    sample = agreed.to_json().encode()

    def decode(data: bytes) -> object:
        found = SignedManifest.from_json(data)
        # Where it still is a manifest: a signature was hit, a space put in, or it is another agreement.
        return found.run_id

    assert n > refusals(decode, [sample], n, ConfigError, VerificationError) > n // 2
    assert bounded(decode, [sample])


@SERIALS
@pytest.mark.parametrize("n", SIZES)
def test_cards_stand_a_hundred_thousand_inputs(tmp_path, n):
    sample = identity("telco").card.to_json()
    path = tmp_path / "card.json"

    def decode(data: bytes) -> object:
        path.write_bytes(data)
        return read_card(path)

    assert n > refusals(decode, [sample], n, ConfigError) > n // 2
    assert bounded(decode, [sample])
