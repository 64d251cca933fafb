"""Identities: names, certificates, fingerprints, signatures."""

from __future__ import annotations

import datetime as dt
import hashlib
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from fedvalue.errors import ConfigError, EngineError, VerificationError
from fedvalue.identity import identity_files
from fedvalue.identity.cards import Card, create_identity, load_identity, verify
from fedvalue.identity.identity_files import read_identity, save_identity
from fedvalue.identity.tls_certificates import check_tls_certificate, spki_sha256
from tests.support.consortium import NOW, identity


def certificate(names: list[x509.GeneralName], usages: list[x509.ObjectIdentifier]) -> bytes:
    """A certificate made here, by hand, so that the check meets something it did not make itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anything")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


TELCO = x509.UniformResourceIdentifier("fedvalue://alpha/data/telco")


def test_party_certificate_names_the_party_and_nothing_else():
    """The only subject alternative name of a party is its URI; it may authenticate as a client only."""
    parsed = x509.load_der_x509_certificate(identity("telco").card.certificate)
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(names) == [TELCO]
    assert list(usage) == [Usage.CLIENT_AUTH]


def test_server_certificate_has_its_uri_and_one_dns_name_for_the_host_check():
    """A server authenticates both ways; its DNS name follows from its URI."""
    parsed = x509.load_der_x509_certificate(identity("compute").card.certificate)
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["fedvalue://alpha/compute/compute"]
    assert names.get_values_for_type(x509.DNSName) == ["compute.compute.alpha.fedvalue"]
    assert len(names) == 2
    usage = parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {Usage.CLIENT_AUTH, Usage.SERVER_AUTH}


def test_a_certificate_made_elsewhere_with_the_right_name_and_usage_passes():
    check_tls_certificate(certificate([TELCO], [Usage.CLIENT_AUTH]), "alpha", "data", "telco", now=NOW)


@pytest.mark.parametrize(
    ("names", "usages"),
    [
        ([TELCO, x509.DNSName("telco.example")], [Usage.CLIENT_AUTH]),
        ([TELCO, TELCO], [Usage.CLIENT_AUTH]),
        ([TELCO, x509.UniformResourceIdentifier("fedvalue://alpha/data/shop")], [Usage.CLIENT_AUTH]),
        ([x509.UniformResourceIdentifier("fedvalue://alpha/data/shop")], [Usage.CLIENT_AUTH]),
        ([x509.UniformResourceIdentifier("fedvalue://alpha/task/telco")], [Usage.CLIENT_AUTH]),
        ([x509.UniformResourceIdentifier("fedvalue://beta/data/telco")], [Usage.CLIENT_AUTH]),
        ([TELCO], [Usage.SERVER_AUTH]),
        ([TELCO], [Usage.CLIENT_AUTH, Usage.SERVER_AUTH]),
    ],
)
def test_a_certificate_with_another_name_two_names_or_another_usage_is_refused(names, usages):
    """Item 21 of the test list: wrong EKU, two SANs."""
    with pytest.raises(ConfigError) as caught:
        check_tls_certificate(certificate(names, usages), "alpha", "data", "telco")
    assert caught.value.code == "E_IDENTITY"


@pytest.mark.parametrize("moment", [NOW - dt.timedelta(days=2), NOW + dt.timedelta(days=366)])
def test_a_certificate_outside_its_validity_is_refused(moment):
    with pytest.raises(ConfigError, match="is valid from"):
        check_tls_certificate(identity("telco").card.certificate, "alpha", "data", "telco", now=moment)


def test_spki_is_the_hash_of_the_public_key_alone():
    """The pin is SHA-256 of the SubjectPublicKeyInfo, from DER and from PEM alike."""
    card = identity("telco").card
    key = x509.load_der_x509_certificate(card.certificate).public_key()
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert card.spki == hashlib.sha256(der).digest() == spki_sha256(card.pem)


def test_card_survives_its_json_form_and_keys_are_hidden():
    one = identity("telco")
    assert Card.from_json(one.card.to_json()) == one.card
    assert "signing" not in repr(one)
    assert "tls_key" not in repr(one)
    assert one.tls_key.decode().splitlines()[1] not in repr(one)


def test_fingerprint_changes_with_every_part_of_the_card():
    card = identity("telco").card
    others = [
        replace(card, name="telca"),
        replace(card, role="task"),
        replace(card, consortium="beta"),
        replace(card, sign_key=identity("shop").card.sign_key),
        replace(card, certificate=identity("shop").card.certificate),
    ]
    prints = {card.fingerprint, *(one.fingerprint for one in others)}
    assert len(prints) == 6


def test_fingerprint_is_the_whole_hash_in_sixteen_groups_of_four():
    """Every part with its length before it, in 4 bytes."""
    card = identity("telco").card
    parts = [b"fedvalue.card/1", b"fedvalue://alpha/data/telco", card.sign_key, card.certificate]
    content = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    groups = card.fingerprint.split(" ")
    assert [len(group) for group in groups] == [4] * 16
    assert "".join(groups) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "shop"},
        {"name": "telc\u00f6"},
        {"consortium": "\u00fc"},
        {"sign_key": "AAAA"},
        {"certificate": "zzzz"},
        {"schema": "x"},
        {"more": 1},
    ],
)
def test_a_card_that_contradicts_its_certificate_is_refused(change):
    with pytest.raises(ConfigError) as caught:
        Card.from_json(json.dumps(json.loads(identity("telco").card.to_json()) | change))
    assert caught.value.code == "E_IDENTITY"


def test_keys_of_somebody_else_do_not_load():
    one, other = identity("telco"), identity("shop")
    assert load_identity(one.card, one.signing_pem(), one.tls_key).card == one.card
    for signing, tls in ((other.signing_pem(), one.tls_key), (one.signing_pem(), other.tls_key)):
        with pytest.raises(ConfigError, match="do not belong"):
            load_identity(one.card, signing, tls)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_identity(one.card, b"nonsense", one.tls_key)
    with pytest.raises(ConfigError, match="not an Ed25519 key") as caught:
        load_identity(one.card, one.tls_key, one.tls_key)
    assert caught.value.code == "E_IDENTITY"


def test_a_signature_serves_one_purpose_one_content_one_signer():
    one = identity("telco")
    signature = one.sign("manifest", b"content")
    verify(one.card.sign_key, "manifest", b"content", signature, who="telco")
    wrong = [
        (one.card.sign_key, "audit", b"content", signature),
        (one.card.sign_key, "manifest", b"contend", signature),
        (identity("shop").card.sign_key, "manifest", b"content", signature),
        (one.card.sign_key, "manifest", b"content", signature[:-1]),
        (b"\x00" * 3, "manifest", b"content", signature),
    ]
    for key, purpose, content, given in wrong:
        with pytest.raises(VerificationError) as caught:
            verify(key, purpose, content, given, who="telco")
        assert caught.value.code == "E_SIGNATURE"


@pytest.mark.parametrize("name", ["", "Telco", "tel co", "-telco", "telco-", "a" * 33, "té", "a/b"])
def test_names_that_do_not_fit_a_certificate_are_refused(name):
    with pytest.raises(ConfigError, match="lower-case"):
        create_identity("alpha", "data", name)


def test_an_unknown_role_and_a_certificate_without_end_are_refused():
    with pytest.raises(ConfigError, match="role"):
        create_identity("alpha", "auditor", "telco")
    for days in (0, 826):
        with pytest.raises(ConfigError, match="valid_days must be from 1 to 825"):
            create_identity("alpha", "data", "telco", valid_days=days)
    for days in (1, 825):
        card = create_identity("alpha", "data", "telco", valid_days=days, now=NOW).card
        end, second = NOW + dt.timedelta(days=days), dt.timedelta(seconds=1)
        check_tls_certificate(card.certificate, "alpha", "data", "telco", now=end - second)
        with pytest.raises(ConfigError, match="is valid from"):
            check_tls_certificate(card.certificate, "alpha", "data", "telco", now=end)


def test_a_certificate_with_an_extension_twice_is_refused(monkeypatch):
    """The X.509 library raises an error of its own kind for it."""
    der = certificate([TELCO], [Usage.CLIENT_AUTH])
    san = x509.oid.ExtensionOID.SUBJECT_ALTERNATIVE_NAME.dotted_string
    eku = x509.oid.ExtensionOID.EXTENDED_KEY_USAGE.dotted_string
    assert (san, eku) == ("2.5.29.17", "2.5.29.37")
    twice = der.replace(bytes([0x55, 0x1D, 37]), bytes([0x55, 0x1D, 17]))
    assert twice != der
    with pytest.raises(ConfigError) as caught:
        check_tls_certificate(twice, "alpha", "data", "telco")
    assert caught.value.code == "E_IDENTITY"


def test_an_identity_that_a_full_disk_interrupted_is_made_by_the_same_command(tmp_path, monkeypatch):
    """Keys without a card would be refused for ever as an identity that is there."""
    ours = create_identity("credit", "data", "telco")

    def full(card: object, path: object) -> None:
        raise EngineError(f"cannot write to {path}: No space left on device", code="E_STORAGE")

    with monkeypatch.context() as patch:
        patch.setattr(identity_files, "write_card", full)
        with pytest.raises(EngineError, match="No space left"):
            save_identity(ours, tmp_path)
    save_identity(ours, tmp_path)
    assert read_identity(tmp_path).card == ours.card


def test_keys_without_their_card_are_kept_and_the_remedy_is_named(tmp_path):
    save_identity(create_identity("credit", "data", "telco"), tmp_path)
    key = (tmp_path / "sign.key").read_bytes()
    (tmp_path / "card.json").unlink()
    with pytest.raises(
        ConfigError, match=r"private keys without card\.json: put it back, or rename the folder"
    ):
        save_identity(create_identity("credit", "data", "telco"), tmp_path)
    assert (tmp_path / "sign.key").read_bytes() == key
