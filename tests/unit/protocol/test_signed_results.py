"""What a party accepts as the result of a server: whole, in order, and signed for this run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fedvalue.crypto import keys
from fedvalue.errors import FedValueError
from fedvalue.protocol import messages as m
from fedvalue.protocol.signed_results import ResultInbox, make_seal, signed_result
from tests.simulation.world import RUN_ID, World

KEY, STRANGER = bytes([1]) * 32, bytes([2]) * 32
DATA = bytes(range(250)) * 10


def inbox(limit: int = len(DATA)) -> ResultInbox:
    pins = dict.fromkeys(("compute", "validate"), keys.signing_public(KEY))
    return ResultInbox(replace(World.drawn(1).settings(), chunk_bytes=1024), limit, pins)


def sent(data: bytes = DATA, run_id: bytes = RUN_ID) -> tuple[list[m.ResultChunk], m.ResultSeal]:
    return signed_result(KEY, run_id, "compute", data, 1024)


def filled(chunks: list[m.ResultChunk], limit: int = len(DATA)) -> ResultInbox:
    box = inbox(limit)
    for chunk in chunks:
        box.add("compute", chunk)
    return box


def test_a_whole_result_is_what_the_server_sent() -> None:
    chunks, seal = sent()
    assert len(chunks) == 3
    box = filled(chunks)
    box.seal("compute", seal, with_bytes=True)
    assert box.bytes_of("compute") == DATA
    assert box.digest_of("compute") == seal.digest
    assert not box.complete
    box.seal("validate", make_seal(KEY, RUN_ID, "validate", bytes(32)), with_bytes=False, digest=bytes(32))
    assert box.complete


@pytest.mark.parametrize("limit", [0, 1024, 2048])
def test_a_result_of_more_parts_than_fit_the_limit_is_refused_at_the_first(limit: int) -> None:
    with pytest.raises(FedValueError, match=f"3 parts, expected at most {limit // 1024}") as refused:
        inbox(limit).add("compute", sent()[0][0])
    assert refused.value.code == "E_DECLARED"


def test_a_result_above_the_limit_is_refused_part_by_part() -> None:
    with pytest.raises(FedValueError, match="too large, or empty") as refused:
        filled(sent()[0], len(DATA) - 1)
    assert refused.value.code == "E_SIZE"


def test_an_empty_part_and_a_part_out_of_order_are_refused() -> None:
    with pytest.raises(FedValueError) as refused:
        inbox().add("compute", m.ResultChunk(0, 1, b"", b"").with_digest())
    assert refused.value.code == "E_SIZE"
    with pytest.raises(FedValueError) as refused:
        filled(sent()[0][1:])
    assert refused.value.code == "E_DECLARED"


@pytest.mark.parametrize(
    ("seal", "code"),
    [
        (sent(run_id=bytes(32))[1], "E_REPLAY"),
        (make_seal(STRANGER, RUN_ID, "compute", sent()[1].digest), "E_SIGNATURE"),
        (make_seal(KEY, RUN_ID, "validate", sent()[1].digest), "E_SIGNATURE"),
        (sent(DATA[:-1])[1], "E_EQUIVOCATION"),
    ],
    ids=["another run", "stranger", "the other server's", "other content"],
)
def test_a_seal_that_does_not_fit_is_refused(seal: m.ResultSeal, code: str) -> None:
    box = filled(sent()[0])
    with pytest.raises(FedValueError) as refused:
        box.seal("compute", seal, with_bytes=True)
    assert refused.value.code == code
    assert not box.complete


def test_a_seal_of_parts_that_have_not_come_is_refused() -> None:
    chunks, _ = sent()
    early = make_seal(KEY, RUN_ID, "compute", keys.digest(*(chunk.digest for chunk in chunks[:2])))
    with pytest.raises(FedValueError, match="incomplete") as refused:
        filled(chunks[:2]).seal("compute", early, with_bytes=True)
    assert refused.value.code == "E_DECLARED"


def test_a_seal_of_other_answers_than_arrived_is_refused() -> None:
    """Where a party computes the digest of the answers itself."""
    with pytest.raises(FedValueError) as refused:
        inbox().seal("compute", sent()[1], with_bytes=False, digest=bytes(32))
    assert refused.value.code == "E_EQUIVOCATION"
