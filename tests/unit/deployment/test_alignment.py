"""The alignment as pure functions: what each side sends, and who is caught."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from fedvalue.crypto.ids import canonical_ids
from fedvalue.deployment.shell import align_messages as a
from fedvalue.deployment.shell.alignment import PartyAlignment, ServerAlignment
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol.messages import bulk_digest
from tests.support.consortium import identity, manifest

IDS = {
    "bank": [f"p{k}" for k in range(40)],
    "telco": [f"p{k}" for k in range(39, 9, -1)],
    "shop": [f"p{k}" for k in range(5, 35)] + ["stranger"],
}


def align(tamper=lambda server, who, message: message, brought=IDS, **terms):
    """Run the alignment of three parties; `tamper` sees what servers send."""
    agreed = manifest(align="intersect", **({"research": True} | terms))
    parties = {
        name: PartyAlignment(identity(name), agreed, canonical_ids(ids), bytes([k]) * 32)
        for k, (name, ids) in enumerate(brought.items())
    }
    servers = {role: ServerAlignment(agreed, role) for role in ("compute", "validate")}
    sent: dict[str, list[a.AlignTokens]] = {"compute": [], "validate": []}
    mail = deque(
        (name, server, message) for name, party in parties.items() for server, message in party.begin()
    )
    while mail:
        sender, recipient, message = mail.popleft()
        if recipient in servers:
            if isinstance(message, a.AlignTokens):
                sent[recipient].append(message)
            for who, answer in servers[recipient].take(sender, message):
                mail.append((recipient, who, tamper(recipient, who, answer)))
        else:
            for server, answer in parties[recipient].take(sender, message):
                mail.append((recipient, server, answer))
    return parties, sent


def test_every_party_learns_exactly_its_common_rows():
    parties, _ = align()
    for name, party in parties.items():
        kept = [IDS[name][k] for k in party.rows]
        assert sorted(kept) == sorted(f"p{k}" for k in range(10, 35)), name


def test_tokens_of_the_two_servers_have_nothing_in_common_and_show_no_id():
    _, sent = align()
    tokens = {
        server: {one.data[k : k + 16] for one in messages for k in range(0, len(one.data), 16)}
        for server, messages in sent.items()
    }
    assert len(tokens["compute"]) == len(tokens["validate"]) == 41
    assert not tokens["compute"] & tokens["validate"]
    assert not any(b"stranger" in one.data for one in sent["compute"])


@pytest.mark.parametrize("server", ["compute", "validate"])
def test_a_server_that_drops_or_adds_a_common_row_is_found_out(server):
    def tamper(where, who, message):
        if where == server and who == "telco" and isinstance(message, a.AlignMask):
            bits = bytearray(message.bits)
            bits[1] ^= 0b1000
            return a.AlignMask(message.index, message.total, bytes(bits))
        return message

    parties, _ = align(tamper)
    with pytest.raises(VerificationError, match="different common rows") as caught:
        _ = parties["telco"].rows
    assert caught.value.code == "E_MIRROR"


def test_a_swapped_key_is_refused():
    """The computation server cannot put itself between the parties."""

    def tamper(where, who, message):
        if isinstance(message, a.AlignRoster):
            first, *rest = message.keys
            return a.AlignRoster((a.AlignKey(first.party, bytes(range(32)), first.signature), *rest))
        return message

    with pytest.raises(VerificationError) as caught:
        align(tamper)
    assert caught.value.code == "E_SIGNATURE"


def test_a_server_refuses_tokens_that_do_not_fit():
    server = ServerAlignment(manifest(align="intersect", n_samples=100), "validate")

    def tokens(data: bytes, index: int = 0, total: int = 1) -> a.AlignTokens:
        return a.AlignTokens(index, total, bulk_digest(index, total, bytes(16), data), bytes(16), data)

    rising = b"".join(k.to_bytes(16, "big") for k in range(1, 101))
    for wrong, code in (
        (tokens(rising, index=1, total=2), "E_DECLARED"),
        (tokens(rising + bytes([255]) * 16), "E_SIZE"),
        (tokens(rising[:-1]), "E_SIZE"),
        (tokens(rising[::-1]), "E_DECLARED"),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            ServerAlignment(manifest(align="intersect", n_samples=100), "validate").take("telco", wrong)
        assert caught.value.code == code
    assert server.take("telco", tokens(rising)) == []
    with pytest.raises(RemoteProtocolError):
        server.take("telco", tokens(rising))
    assert server.missing() == ("bank", "shop")


def test_a_damaged_part_is_recognised():
    data = bytes(np.arange(16, dtype=np.uint8))
    part = a.AlignTokens(0, 1, bulk_digest(0, 1, bytes(16), data), bytes(16), data)
    assert part.intact
    assert not a.AlignTokens(0, 1, part.digest, part.salt, data[::-1]).intact
    assert not a.AlignTokens(0, 1, part.digest, b"another salt, 16", data).intact


def test_what_servers_log_of_tokens_confirms_no_guess_at_ids():
    """All parties have the key of the tokens: whoever guesses the others' ids could compute their digests."""
    parties, sent = align()
    (theirs,) = [one for one in sent["compute"] if len(one.data) == 16 * len(IDS["shop"])]
    agreed = manifest(align="intersect", research=True)
    knows = PartyAlignment(identity("bank"), agreed, canonical_ids(IDS["shop"]), bytes(32))
    knows._secret = parties["bank"]._secret
    guess = next(one for server, one in knows._uploads() if server == "compute")
    assert guess.data == theirs.data
    assert guess.digest != theirs.digest
    for salt in ((), (b"",), (bytes(16),)):
        assert bulk_digest(0, 1, *salt, guess.data) != theirs.digest


@pytest.mark.parametrize("probe", ["p7", "nobody"])
def test_a_party_that_brings_one_id_learns_nothing(probe):
    """Whether the person is the others' customer or not: the same refusal, before any mask."""
    answers = []
    brought = {name: [f"p{k}" for k in range(300)] for name in ("telco", "shop")}

    def watch(server, who, message):
        answers.extend([message] if isinstance(message, a.AlignMask) else [])
        return message

    with pytest.raises(VerificationError) as caught:
        align(watch, {"bank": [probe], **brought}, research=False)
    assert caught.value.code == "E_GATE"
    assert str(caught.value).startswith("a party brings fewer than 100 samples, or fewer are common")
    assert answers == []


def test_too_few_common_ids_give_no_answer_either():
    brought = {"bank": [f"p{k}" for k in range(300)]}
    brought |= {name: [f"p{k}" for k in range(201, 501)] for name in ("telco", "shop")}
    with pytest.raises(VerificationError) as caught:
        align(brought=brought, research=False)
    assert caught.value.code == "E_GATE"
    brought = {name: [f"p{k}" for k in range(300)] for name in ("bank", "telco", "shop")}
    parties, _ = align(brought=brought, research=False)
    assert len(parties["telco"].rows) == 300


def test_a_server_cannot_break_a_party_by_the_order_or_length_of_its_messages():
    party = PartyAlignment(
        identity("telco"), manifest(align="intersect"), canonical_ids(IDS["telco"]), bytes(32)
    )
    party.begin()
    with pytest.raises(RemoteProtocolError) as caught:
        party.take("compute", a.AlignSecret(bytes(60)))
    assert caught.value.code == "E_STATE"
    party._orders["compute"] = np.arange(30)
    with pytest.raises(RemoteProtocolError) as caught:
        party.take("compute", a.AlignMask(0, 2**20, bytes(5)))
    assert caught.value.code == "E_DECLARED"
    assert party._bits["compute"] == []


def test_intersect_must_be_accepted_by_every_participant():
    from fedvalue.agreement.manifest_rules import Terms, check_terms

    agreed = manifest(align="intersect")
    with pytest.raises(VerificationError, match="not accepted here") as caught:
        check_terms(agreed, Terms())
    assert caught.value.code == "E_MANIFEST"
    check_terms(agreed, Terms(align=("intersect",)))
