"""The alignment as pure functions: what each side sends, and which lies are caught."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from fedvalue.crypto.ids import canonical_ids
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.alignment import PartyAlignment, ServerAlignment
from fedvalue.protocol.keyring import AlignmentKeys
from fedvalue.protocol.settings import Align, Gates, ProtocolName, RunTerms

RUN_ID = bytes(32)
IDS = {
    "bank": [f"p{k}" for k in range(40)],
    "telco": [f"p{k}" for k in range(39, 9, -1)],
    "shop": [f"p{k}" for k in range(5, 35)] + ["stranger"],
}
GATES = Gates(min_samples=100, min_rows_per_code=5, min_cell=10)


def terms(**changed) -> RunTerms:
    agreed = {
        "run_id": RUN_ID, "protocol": ProtocolName.MIRROR, "task": "bank", "parties": ("telco", "shop"),
        "max_samples": 1000, "align": Align.INTERSECT,
    }  # fmt: skip
    return RunTerms(**(agreed | changed))


def party(name: str, ids: list[str], own: int = 0, **changed) -> PartyAlignment:
    """All parties share K_run; `own` is a secret of each."""
    keys = AlignmentKeys(RUN_ID, bytes(range(32)), bytes([own]) * 32)
    return PartyAlignment(terms(**changed), name, [canonical_ids(ids)], keys)


def align(tamper=lambda envelope: envelope, brought=IDS, **changed):
    """Run the alignment of three parties; `tamper` sees what servers send."""
    parties = {name: party(name, ids, k, **changed) for k, (name, ids) in enumerate(brought.items())}
    servers = {name: ServerAlignment(terms(**changed), name) for name in ("compute", "validate")}
    sent: dict[str, list[m.AlignTokens]] = {"compute": [], "validate": []}
    mail = deque(envelope for one in parties.values() for envelope in one.begin())
    while mail:
        envelope = mail.popleft()
        message = envelope.message
        if envelope.recipient in servers:
            sent[envelope.recipient].append(message)
            mail.extend(map(tamper, servers[envelope.recipient].take(envelope.sender, message)))
        else:
            parties[envelope.recipient].take(envelope.sender, message)
    return parties, sent


def mask(index: int, total: int, bits: bytes) -> m.AlignMask:
    return m.AlignMask(index, total, b"", bits).with_digest()


@pytest.mark.parametrize("chunk_bytes", [1024, 1 << 22])
def test_every_party_learns_exactly_its_common_rows(chunk_bytes):
    brought = {name: [*ids, *(f"more {k}" for k in range(200))] for name, ids in IDS.items()}
    parties, sent = align(brought=brought, chunk_bytes=chunk_bytes)
    assert (len(sent["compute"]) > 3) is (chunk_bytes == 1024)
    for name, one in parties.items():
        kept = [brought[name][k] for k in one.rows]
        assert kept == [
            i for i in brought[name] if i.startswith("more") or (i[0] == "p" and 10 <= int(i[1:]) < 35)
        ]


def test_tokens_and_masks_come_in_no_more_parts_than_they_need():
    server = ServerAlignment(terms(max_samples=1000, chunk_bytes=1024), "compute")
    token = m.AlignTokens(0, 1000, b"", bytes(16), memoryview(bytes(16))).with_digest()
    one = party("telco", IDS["telco"], max_samples=1000, chunk_bytes=1024)
    one.begin()
    for take, sender, part, most in (
        (server.take, "telco", token, 16),  # 16,000 bytes in parts of 1024
        (one.take, "compute", mask(0, 4, b"x"), 1),  # four bytes
    ):
        with pytest.raises(RemoteProtocolError, match=f"parts, expected at most {most}") as refused:
            take(sender, part)
        assert refused.value.code == "E_DECLARED"


def test_tokens_of_the_two_servers_have_nothing_in_common_and_show_no_id():
    _, sent = align()
    tokens = {
        server: {bytes(one.data[k : k + 16]) for one in messages for k in range(0, len(one.data), 16)}
        for server, messages in sent.items()
    }
    assert len(tokens["compute"]) == len(tokens["validate"]) == 41
    assert not tokens["compute"] & tokens["validate"]
    assert not any(b"stranger" in bytes(one.data) for one in sent["compute"])


@pytest.mark.parametrize("server", ["compute", "validate"])
def test_a_server_that_drops_or_adds_a_common_row_is_found_out(server):
    def tamper(envelope):
        if envelope.sender != server or envelope.recipient != "telco":
            return envelope
        bits = bytearray(envelope.message.bits)
        bits[1] ^= 0b1000
        return m.Envelope(RUN_ID, server, "telco", mask(0, 1, bytes(bits)))

    parties, _ = align(tamper)
    with pytest.raises(VerificationError, match="different common rows") as caught:
        _ = parties["telco"].rows
    assert caught.value.code == "E_MIRROR"


def test_parties_without_a_common_id_end_the_run():
    parties, _ = align(brought={"bank": ["a"], "telco": ["b"], "shop": ["c"]})
    with pytest.raises(VerificationError, match="no id in common") as caught:
        _ = parties["telco"].rows
    assert caught.value.code == "E_POPULATION"


def tokens(data: bytes, index: int = 0, total: int = 1) -> m.AlignTokens:
    return m.AlignTokens(index, total, b"", bytes(16), memoryview(data)).with_digest()


def test_a_server_refuses_tokens_that_do_not_fit():
    rising = b"".join(k.to_bytes(16, "big") for k in range(1, 101))
    for wrong, code in (
        (tokens(rising, index=1, total=2), "E_DECLARED"),
        (tokens(rising + bytes([255]) * 16), "E_SIZE"),
        (tokens(rising[:-1]), "E_SIZE"),
        (tokens(b""), "E_SIZE"),
        (tokens(rising[::-1]), "E_DECLARED"),
        (tokens(rising[:16] * 2), "E_DECLARED"),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            ServerAlignment(terms(max_samples=100), "validate").take("telco", wrong)
        assert caught.value.code == code
    server = ServerAlignment(terms(max_samples=100), "validate")
    assert server.take("telco", tokens(rising)) == []
    with pytest.raises(RemoteProtocolError):
        server.take("telco", tokens(rising))
    assert server.missing() == ("bank", "shop")


def test_a_damaged_part_is_recognised():
    data = bytes(np.arange(16, dtype=np.uint8))
    part = tokens(data)
    assert part.intact
    assert not m.AlignTokens(0, 1, part.digest, part.salt, memoryview(data[::-1])).intact
    assert not m.AlignTokens(0, 1, part.digest, b"another salt, 16", memoryview(data)).intact


def test_what_servers_log_of_tokens_confirms_no_guess_at_ids():
    """All parties have the key of the tokens: whoever guesses the others' ids could compute their digests."""
    _, sent = align()
    (theirs,) = [one for one in sent["compute"] if len(one.data) == 16 * len(IDS["shop"])]
    knows = party("bank", IDS["shop"], own=7)
    guess = next(one.message for one in knows.begin() if one.recipient == "compute")
    assert guess.data == theirs.data
    assert guess.digest != theirs.digest
    for salt in ((), (b"",), (bytes(16),)):
        assert m.bulk_digest(0, 1, *salt, guess.data) != theirs.digest


@pytest.mark.parametrize("probe", ["p7", "nobody"])
def test_a_party_that_brings_one_id_learns_nothing(probe):
    """Whether the person is the others' customer or not: the same refusal, before any mask."""
    answers = []
    brought = {name: [f"p{k}" for k in range(300)] for name in ("telco", "shop")}

    def watch(envelope):
        answers.append(envelope)
        return envelope

    with pytest.raises(VerificationError) as caught:
        align(watch, {"bank": [probe], **brought}, gates=GATES)
    assert caught.value.code == "E_GATE"
    assert str(caught.value).startswith("a party brings fewer than 100 samples, or fewer are common")
    assert answers == []


def test_too_few_common_ids_give_no_answer_either():
    brought = {"bank": [f"p{k}" for k in range(300)]}
    brought |= {name: [f"p{k}" for k in range(201, 501)] for name in ("telco", "shop")}
    with pytest.raises(VerificationError) as caught:
        align(brought=brought, gates=GATES)
    assert caught.value.code == "E_GATE"
    brought = {name: [f"p{k}" for k in range(300)] for name in ("bank", "telco", "shop")}
    parties, _ = align(brought=brought, gates=GATES)
    assert len(parties["telco"].rows) == 300


@pytest.mark.parametrize(
    "wrong", [mask(0, 2**20, bytes(5)), mask(1, 2, b"x"), mask(0, 1, b""), mask(0, 2, b""), mask(0, 1, b"x")]
)
def test_a_server_cannot_break_a_party_by_the_order_or_length_of_its_masks(wrong):
    one = party("telco", IDS["telco"])
    one.begin()
    with pytest.raises(RemoteProtocolError) as caught:
        one.take("compute", wrong)
    assert caught.value.code == "E_DECLARED"
    assert one.rows is None


def test_intersect_must_be_accepted_by_every_participant():
    from fedvalue.agreement.manifest_rules import Terms, check_terms
    from tests.support.consortium import manifest

    agreed = manifest(align="intersect")
    with pytest.raises(VerificationError, match="not accepted here") as caught:
        check_terms(agreed, Terms(align=("equal",)))
    assert caught.value.code == "E_MANIFEST"
    check_terms(agreed, Terms(align=("intersect",)))
