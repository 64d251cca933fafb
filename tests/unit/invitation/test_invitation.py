"""The invitation as text: what is refused, and that its secret stays out of sight."""

from __future__ import annotations

import base64
import datetime as dt
import zlib

import pytest
from msgspec.structs import replace

from fedvalue import documents
from fedvalue.errors import FedValueError
from fedvalue.identity.cards import Identity
from fedvalue.identity.tls_certificates import tls_name
from fedvalue.invitation.invitation import Invitation, Seat, make_invitation
from fedvalue.invitation.words import N_WORDS, WORDS, words_of
from fedvalue.protocol.settings import MAX_PARTIES
from tests.unit.invitation.exchanging import identity, invitation


def code_of(text: str) -> str:
    with pytest.raises(FedValueError) as caught:
        Invitation.from_text(text)
    return caught.value.code


def text_of(one: Invitation) -> str:
    return one.to_text()


def test_an_invitation_survives_a_mail():
    one = invitation()
    mail = f"Hello,\r\n\r\nplease join:\r\n{one.to_text()}\r\nBest wishes".replace("\n", "\r\n")
    read = Invitation.from_text(mail)
    assert read.to_text() == one.to_text()
    assert read.id == one.id
    assert read.proposal.purpose == "a test"
    assert [seat.name for seat in read.guests] == ["shop", "telco", "compute", "validate"]


def test_a_wrong_altered_or_damaged_invitation_is_refused():
    one = invitation()
    assert code_of("no invitation") == "E_INVITATION"
    lines = one.to_text().splitlines()
    assert code_of("\n".join([*lines[:2], *lines[3:]])) == "E_INVITATION"
    assert code_of("\n".join(lines[:-1])) == "E_INVITATION"
    for change in (
        {"terms": {**one.terms, "purpose": "something else"}},
        {"terms": {**one.terms, "policy": "counts"}},
        {"seats": one.seats[:-1]},
        {"secret": bytes(32)},
        {"signature": bytes(64)},
        {"card": identity("bank", 1).card},
        {"card": identity("telco").card},
    ):
        assert code_of(text_of(replace(one, **change))) == "E_INVITATION"


def test_terms_that_make_no_sense_are_refused_even_if_the_task_party_signed_them():
    one = invitation()
    for terms in ({**one.terms, "n_samples": 0}, {**one.terms, "nonce": "AAAA"}, {"purpose": "x"}):
        wrong = replace(one, terms=terms, signature=b"")
        signed = replace(wrong, signature=identity("bank").sign("invitation", wrong._content()))
        assert code_of(text_of(signed)) == "E_INVITATION"


def test_more_seats_than_a_run_may_have_are_refused_before_a_key_is_made_for_each(monkeypatch):
    """The old rule: 15,000 seats in 55 kB of text cost 9 s of CPU, and were accepted."""
    one, made = invitation(), []

    def counted(*seat: str) -> Identity:
        made.append(seat)
        return identity("telco")

    monkeypatch.setattr("fedvalue.invitation.invitation.create_identity", counted)
    more = tuple(Seat(name=f"party-{k}", role="data") for k in range(MAX_PARTIES))
    wide = replace(one, seats=one.seats + more, signature=b"")
    signed = replace(wide, signature=identity("bank").sign("invitation", wide._content()))
    assert code_of(text_of(signed)) == "E_INVITATION"
    assert not made


def test_a_bomb_is_not_unpacked():
    packed = base64.b64encode(zlib.compress(bytes(1 << 24))).decode()
    text = f"-----BEGIN FEDVALUE INVITATION-----\n{packed}\n-----END FEDVALUE INVITATION-----\n"
    assert code_of(text) == "E_INVITATION"


def test_terms_of_any_depth_end_in_a_typed_error():
    """Just before JSON itself became too deep, its canonical form ended in a traceback."""
    content = documents.canonical(replace(invitation(), terms={"purpose": "HERE"})).decode()
    for depth in (50, 99, 100, *range(900, 1000), 5_000, 100_000):
        deep = content.replace('"HERE"', "[" * depth + "]" * depth)
        packed = base64.b64encode(zlib.compress(deep.encode())).decode()
        text = f"-----BEGIN FEDVALUE INVITATION-----\n{packed}\n-----END FEDVALUE INVITATION-----"
        with pytest.raises(FedValueError) as refused:
            Invitation.from_text(text)
        assert refused.value.code == "E_INVITATION"


def test_an_expired_invitation_and_one_for_another_version_are_refused():
    one = invitation()
    late = one.proposal.expires + dt.timedelta(seconds=1)
    with pytest.raises(FedValueError, match="ask 'bank' for a new one") as caught:
        one.check_now(late)
    assert caught.value.code == "E_INVITATION"
    terms = {**one.terms, "versions": {**one.terms["versions"], "values": 99, "software": "9.9.0"}}
    newer = replace(one, terms=terms)
    with pytest.raises(FedValueError, match=r"as in FedValue 9\.9\.0") as caught:
        newer.check_now(newer.proposal.created)
    assert caught.value.code == "E_VERSION"
    terms = {**one.terms, "schema": "fedvalue.manifest/99"}
    with pytest.raises(FedValueError, match=r"every participant needs the release") as caught:
        Invitation.from_text(replace(one, terms=terms).to_text())
    assert caught.value.code == "E_VERSION"


def test_the_secret_is_in_no_repr_and_everybody_derives_the_same_lobby():
    one = invitation()
    assert one.secret.hex() not in repr(one)
    assert base64.b64encode(one.secret).decode() not in repr(one)
    again = Invitation.from_text(one.to_text())
    assert again.lobby_identity.card == one.lobby_identity.card
    assert again.lobby_identity.tls_key == one.lobby_identity.tls_key
    other = make_invitation(identity("bank"), one.proposal, b"\x07" * 32)
    assert other.lobby_identity.card.spki != one.lobby_identity.card.spki
    assert tls_name("alpha", "compute", one.lobby_identity.card.name)
    assert documents.canonical(again) == documents.canonical(one)


def test_words_are_distinct_and_cannot_be_misheard_by_one_letter():
    assert len(WORDS) == len(set(WORDS)) == 256
    for k, one in enumerate(WORDS):
        assert one.isalpha()
        assert one.islower()
        for other in WORDS[k + 1 :]:
            assert len(one) != len(other) or sum(a != b for a, b in zip(one, other, strict=True)) > 1


def test_words_are_a_function_of_the_whole_id():
    words = words_of(bytes(32))
    assert len(words) == N_WORDS == 6
    assert words == words_of(bytes(32))
    assert words != words_of(bytes(31) + b"\x01")
