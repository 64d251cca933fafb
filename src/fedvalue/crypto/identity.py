"""Who a participant is: one Ed25519 signing key and one TLS certificate.

The signing key carries authority (manifest, messages, audit log); the certificate carries the
connection. Both are listed in the manifest and compared on every call, so no certificate authority
has a say in who is who. Certificates are self-signed and pinned (`docs/decisions/0401`).

Bytes in, bytes out: files and their permissions are the business of `deployment.identity_files`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedvalue.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = ("task", "data", "compute", "validate")
"""The paper's four kinds of participants, as they stand in a certificate."""

SERVER_ROLES = ("compute", "validate")

CARD_SCHEMA = "fedvalue.card/1"

# A label of a DNS name, because a server's certificate carries its name in one.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")

# A little slack for a clock that runs behind; a certificate is not valid for longer than asked.
_BACKDATE = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Card:
    """The public half of an identity: what participants exchange before their first run.

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
        """The certificate as PEM, as TLS libraries want it."""
        return pem_of(self.certificate)

    @property
    def fingerprint(self) -> str:
        """What two people read to each other over the phone: SHA-256 over everything above.

        Sixteen groups of four digits of the hash; both keys and the name are bound by it.
        """
        parts = (CARD_SCHEMA.encode(), self.uri.encode(), self.sign_key, self.certificate)
        digest = hashlib.sha256(b"".join(len(p).to_bytes(4, "big") + p for p in parts)).hexdigest()
        return " ".join(digest[k : k + 4] for k in range(0, 64, 4))

    def to_dict(self) -> dict[str, str]:
        """The card as JSON-ready data."""
        return {
            "schema": CARD_SCHEMA,
            "consortium": self.consortium,
            "role": self.role,
            "name": self.name,
            "sign_key": self.sign_key.hex(),
            "certificate": self.certificate.hex(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Card:
        """The inverse of `to_dict`; the certificate must say the same as the card.

        Raises:
            ConfigError: A field is missing or the certificate is not this participant's.
        """
        if not hasattr(data, "get") or data.get("schema") != CARD_SCHEMA:
            raise ConfigError(f"expected an identity card of schema {CARD_SCHEMA!r}", code="E_IDENTITY")
        try:
            card = cls(
                consortium=str(data["consortium"]),
                role=str(data["role"]),
                name=str(data["name"]),
                sign_key=bytes.fromhex(str(data["sign_key"])),
                certificate=bytes.fromhex(str(data["certificate"])),
            )
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"identity card: field {error} is missing or malformed", code="E_IDENTITY"
            ) from None
        if len(card.sign_key) != 32:
            raise ConfigError(
                f"identity card of {card.name!r}: expected a signing key of 32 bytes, "
                f"got {len(card.sign_key)}",
                code="E_IDENTITY",
            )
        check_certificate(card.certificate, card.consortium, card.role, card.name)
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
        """The signing key as PKCS#8 PEM, for a file that only its owner can read."""
        return self.signing.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def create_identity(
    consortium: str,
    role: str,
    name: str,
    *,
    valid_days: int = 365,
    now: dt.datetime | None = None,
) -> Identity:
    """Make new keys and a self-signed certificate.

    TLS uses ECDSA P-256 because gRPC's TLS library does not accept Ed25519 certificates.

    Raises:
        ConfigError: A name that does not fit, or an unknown role.
    """
    check_name("consortium", consortium)
    check_name("name", name)
    if role not in ROLES:
        raise ConfigError(f"role must be one of {', '.join(ROLES)}, got {role!r}", code="E_IDENTITY")
    if not 1 <= valid_days <= 825:
        raise ConfigError(f"valid_days must lie in 1 .. 825, got {valid_days}", code="E_IDENTITY")
    moment = now or dt.datetime.now(dt.UTC)
    tls = ec.generate_private_key(ec.SECP256R1())
    signing = ed25519.Ed25519PrivateKey.generate()
    certificate = _self_signed(tls, consortium, role, name, moment, dt.timedelta(days=valid_days))
    public = signing.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return Identity(
        card=Card(consortium, role, name, public, certificate.public_bytes(serialization.Encoding.DER)),
        signing=signing,
        tls_key=tls.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def load_identity(card: Card, signing_pem: bytes, tls_key: bytes) -> Identity:
    """Put an identity together from its files; the keys must belong to the card.

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
    public = signing.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    spki = tls.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    if public != card.sign_key or hashlib.sha256(spki).digest() != card.spki:
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
            f"the signature of {who!r} on its {purpose} does not fit", code="E_SIGNATURE"
        ) from None


def identity_uri(consortium: str, role: str, name: str) -> str:
    """The URI in a certificate."""
    return f"fedvalue://{consortium}/{role}/{name}"


def tls_name(consortium: str, role: str, name: str) -> str:
    """The DNS name in a server's certificate. It exists for gRPC's host check, not in the DNS."""
    return f"{name}.{role}.{consortium}.fedvalue"


def check_name(what: str, name: str) -> None:
    """Names are lower-case letters, digits and hyphens, at most 32: they appear in certificates.

    Raises:
        ConfigError: The name does not fit.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{what} must be 1 to 32 lower-case letters, digits or inner hyphens, got {name!r}",
            code="E_IDENTITY",
        )


def spki_sha256(certificate: bytes) -> bytes:
    """SHA-256 of the SubjectPublicKeyInfo of a DER or PEM certificate.

    Raises:
        ConfigError: Not a certificate.
    """
    parsed = _parse(certificate)
    try:
        key = parsed.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError("the certificate has no usable public key", code="E_IDENTITY") from None
    return hashlib.sha256(
        key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    ).digest()


def pem_of(certificate: bytes) -> bytes:
    """A DER certificate as PEM."""
    return _parse(certificate).public_bytes(serialization.Encoding.PEM)


def check_certificate(
    certificate: bytes, consortium: str, role: str, name: str, *, now: dt.datetime | None = None
) -> None:
    """Whether a certificate is exactly what this participant's must be.

    1. One URI as subject alternative name, the participant's; a server has its one DNS name too.
    2. Extended key usage: clients authenticate as clients, servers as both.
    3. With `now`: inside its validity.

    The caller still has to compare the public key with the pin.

    Raises:
        ConfigError: E_IDENTITY, saying which rule is broken.
    """
    parsed = _parse(certificate)
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        usage = set(parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except (x509.ExtensionNotFound, ValueError):
        raise ConfigError(
            f"the certificate of {name!r} names no participant or no usage", code="E_IDENTITY"
        ) from None
    if set(names) != set(_alternative_names(consortium, role, name)) or len(names) != len(set(names)):
        raise ConfigError(
            f"the certificate of {name!r} must name {identity_uri(consortium, role, name)} and nobody else",
            code="E_IDENTITY",
        )
    if usage != set(_usages(role)):
        raise ConfigError(
            f"the certificate of {name!r} has the wrong extended key usage for role {role!r}",
            code="E_IDENTITY",
        )
    if now is not None and not parsed.not_valid_before_utc <= now < parsed.not_valid_after_utc:
        raise ConfigError(
            f"the certificate of {name!r} is valid from {parsed.not_valid_before_utc:%Y-%m-%d %H:%M} "
            f"to {parsed.not_valid_after_utc:%Y-%m-%d %H:%M} UTC only",
            code="E_IDENTITY",
        )


def _self_signed(
    key: ec.EllipticCurvePrivateKey,
    consortium: str,
    role: str,
    name: str,
    moment: dt.datetime,
    validity: dt.timedelta,
) -> x509.Certificate:
    # The key's own digest makes the subject unique, so that an old and a renewed certificate of
    # one participant can be trusted side by side during a rotation.
    ski = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, f"{consortium}/{role}/{name}"[:64]),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, ski.digest.hex()),
        ]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _BACKDATE)
        .not_valid_after(moment + validity)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(consortium, role, name)), False)
        .add_extension(x509.ExtendedKeyUsage(_usages(role)), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(ski, False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )


def _alternative_names(consortium: str, role: str, name: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity_uri(consortium, role, name))]
    if role in SERVER_ROLES:
        names.append(x509.DNSName(tls_name(consortium, role, name)))
    return names


def _usages(role: str) -> list[x509.ObjectIdentifier]:
    if role in SERVER_ROLES:
        return [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return [ExtendedKeyUsageOID.CLIENT_AUTH]


def _parse(certificate: bytes) -> x509.Certificate:
    try:
        if certificate.lstrip().startswith(b"-----BEGIN"):
            return x509.load_pem_x509_certificate(certificate)
        return x509.load_der_x509_certificate(certificate)
    except (ValueError, x509.InvalidVersion):
        raise ConfigError("not an X.509 certificate", code="E_IDENTITY") from None


def _tagged(purpose: str, content: bytes) -> bytes:
    """A domain tag in front, so that a signature never serves another purpose."""
    return b"fedvalue/1/" + purpose.encode() + b"\x00" + content
