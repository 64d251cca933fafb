"""The identity of a participant: one Ed25519 signing key and one TLS certificate.

The signing key carries authority (manifest, messages, audit log); the certificate carries the
connection. Both are listed in the manifest and compared on every call, so no certificate authority
decides who is who. Certificates are self-signed and pinned (`docs/decisions/0401`).

Bytes in, bytes out: files and their permissions are in `identity_files`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from fedvalue import documents
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, VerificationError
from fedvalue.identity.tls_certificates import (
    MAX_DAYS,
    ROLES,
    check_name,
    check_tls_certificate,
    identity_uri,
    key_digest,
    pem_of,
    private_pem,
    self_signed,
    spki_sha256,
)

CARD_SCHEMA = "fedvalue.card/2"


class Card(Document, frozen=True, kw_only=True, tag_field="schema", tag=CARD_SCHEMA):
    """The public half of an identity, which participants exchange before their first run.

    Args:
        consortium: Name of the group that runs valuations together.
        role: One of `ROLES`.
        name: Name of the participant, unique in the consortium.
        sign_key: Raw Ed25519 public key, 32 bytes.
        certificate: TLS certificate, DER.
    """

    consortium: str
    role: str
    name: str
    sign_key: bytes
    certificate: bytes

    @property
    def uri(self) -> str:
        """`fedvalue://<consortium>/<role>/<name>`, the subject alternative name."""
        return identity_uri(self.consortium, self.role, self.name)

    @property
    def spki(self) -> bytes:
        """SHA-256 of the certificate's public key: the pin."""
        return spki_sha256(self.certificate)

    @property
    def pem(self) -> bytes:
        """The certificate as PEM, for TLS libraries."""
        return pem_of(self.certificate)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over name, role and both keys, for two people who compare it over the phone.

        Sixteen groups of four hex digits.
        """
        parts = (b"fedvalue.card/1", self.uri.encode(), self.sign_key, self.certificate)
        digest = hashlib.sha256(b"".join(len(p).to_bytes(4, "big") + p for p in parts)).hexdigest()
        return " ".join(digest[k : k + 4] for k in range(0, 64, 4))

    def to_json(self) -> bytes:
        """The card as a file."""
        return documents.encode(self)

    @classmethod
    def from_json(cls, content: bytes | str) -> Card:
        """Read a card; its certificate must name the same participant.

        Raises:
            ConfigError: E_IDENTITY: not a card, or the certificate is not this participant's.
        """
        try:
            card = documents.decode(cls, content, schema=CARD_SCHEMA, error=ConfigError)
        except ConfigError as error:
            raise ConfigError(f"not an identity card: {error}", code="E_IDENTITY") from None
        if len(card.sign_key) != 32:
            raise ConfigError(
                f"identity card of {card.name!r}: the signing key must have 32 bytes, "
                f"got {len(card.sign_key)}",
                code="E_IDENTITY",
            )
        check_tls_certificate(card.certificate, card.consortium, card.role, card.name)
        return card


@dataclass(frozen=True, slots=True)
class Identity:
    """A card with its private keys. The keys never appear in `repr`."""

    card: Card
    signing: ed25519.Ed25519PrivateKey = field(repr=False)
    tls_key: bytes = field(repr=False)

    def sign(self, purpose: str, content: bytes) -> bytes:
        """An Ed25519 signature of `content` for one purpose; other purposes do not accept it."""
        return self.signing.sign(_tagged(purpose, content))

    def signing_pem(self) -> bytes:
        """The signing key as PEM."""
        return private_pem(self.signing)


def create_identity(
    consortium: str, role: str, name: str, *, valid_days: int = 365, now: dt.datetime | None = None
) -> Identity:
    """Make new keys and a self-signed certificate.

    Raises:
        ConfigError: An invalid name, or an unknown role.
    """
    check_name("consortium", consortium)
    check_name("name", name)
    if role not in ROLES:
        raise ConfigError(f"role must be one of {', '.join(ROLES)}, got {role!r}", code="E_IDENTITY")
    if not 1 <= valid_days <= MAX_DAYS:
        raise ConfigError(f"valid_days must be from 1 to {MAX_DAYS}, got {valid_days}", code="E_IDENTITY")
    moment = now or dt.datetime.now(dt.UTC)
    tls = ec.generate_private_key(ec.SECP256R1())
    signing = ed25519.Ed25519PrivateKey.generate()
    certificate = self_signed(tls, consortium, role, name, moment, dt.timedelta(days=valid_days))
    card = Card(
        consortium=consortium,
        role=role,
        name=name,
        sign_key=signing.public_key().public_bytes_raw(),
        certificate=certificate.public_bytes(serialization.Encoding.DER),
    )
    return Identity(card=card, signing=signing, tls_key=private_pem(tls))


def load_identity(card: Card, signing_pem: bytes, tls_key: bytes) -> Identity:
    """An identity from the content of its files; the keys must belong to the card.

    Raises:
        ConfigError: A key cannot be read or is not the card's.
    """
    try:
        signing = serialization.load_pem_private_key(signing_pem, password=None)
        tls = serialization.load_pem_private_key(tls_key, password=None)
    except (ValueError, TypeError):
        raise ConfigError(f"the private keys of {card.name!r} cannot be read", code="E_IDENTITY") from None
    if not isinstance(signing, ed25519.Ed25519PrivateKey):
        raise ConfigError(f"the signing key of {card.name!r} is not an Ed25519 key", code="E_IDENTITY")
    public = (signing.public_key().public_bytes_raw(), key_digest(tls.public_key()))
    if public != (card.sign_key, card.spki):
        raise ConfigError(f"the private keys of {card.name!r} do not belong to its card", code="E_IDENTITY")
    return Identity(card=card, signing=signing, tls_key=tls_key)


def verify(sign_key: bytes, purpose: str, content: bytes, signature: bytes, *, who: str) -> None:
    """Check a signature made by `Identity.sign`.

    Raises:
        VerificationError: E_SIGNATURE, naming `who`.
    """
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(sign_key).verify(signature, _tagged(purpose, content))
    except (InvalidSignature, ValueError):
        raise VerificationError(
            f"the signature of {who!r} on its {purpose} is not valid", code="E_SIGNATURE"
        ) from None


def _tagged(purpose: str, content: bytes) -> bytes:
    """A domain tag in front, so that a signature never serves another purpose."""
    return b"fedvalue/1/" + purpose.encode() + b"\x00" + content
