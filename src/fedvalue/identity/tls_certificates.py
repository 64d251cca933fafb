"""Names and TLS certificates of participants: how they are made and checked.

A certificate is self-signed and pinned; its shape is checked on every call (`docs/decisions/0401`).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedvalue.errors import ConfigError

SERVER_ROLES = ("compute", "validate", "assist")
"""The paper's two servers, and the third one of protocol `gram`."""

ROLES = ("task", "data", *SERVER_ROLES)
"""All kinds of participants, as they stand in a certificate."""

MAX_DAYS = 825
"""Longest validity of a certificate, and of an agreement."""

# A label of a DNS name, because a server's certificate carries its name in one.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")

# Slack for a clock that runs behind; a certificate is not valid for longer than asked.
_BACKDATE = dt.timedelta(hours=1)


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
    if _NAME.fullmatch(name) is None:
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
    return key_digest(key)


def key_digest(key: PublicKeyTypes) -> bytes:
    """SHA-256 of the SubjectPublicKeyInfo of a public key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).digest()


def private_pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    """A private key as PKCS#8 PEM, for a file that only its owner can read."""
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def pem_of(certificate: bytes) -> bytes:
    """A DER certificate as PEM."""
    return _parse(certificate).public_bytes(serialization.Encoding.PEM)


def validity(certificate: bytes) -> tuple[dt.datetime, dt.datetime]:
    """First and last moment at which a certificate is valid, UTC."""
    parsed = _parse(certificate)
    return parsed.not_valid_before_utc, parsed.not_valid_after_utc


def check_tls_certificate(
    certificate: bytes, consortium: str, role: str, name: str, *, now: dt.datetime | None = None
) -> None:
    """Check that a certificate has exactly the form that this participant's must have.

    1. The participant's URI is the only subject alternative name, beside a server's DNS name.
    2. Extended key usage: clients authenticate as clients, servers as both.
    3. With `now`: inside its validity.

    The caller still has to compare the public key with the pin.

    Raises:
        ConfigError: E_IDENTITY, saying which rule is broken.
    """
    parsed = _parse(certificate)
    if not identity_uri(consortium, role, name).isascii():  # no certificate can hold it
        raise ConfigError(f"{name!r} cannot be the name of a participant", code="E_IDENTITY")
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        usage = set(parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        raise ConfigError(
            f"the certificate of {name!r} names no participant or no usage", code="E_IDENTITY"
        ) from None
    if set(names) != set(_alternative_names(consortium, role, name)) or len(names) != len(set(names)):
        raise ConfigError(
            f"the certificate of {name!r} must name {identity_uri(consortium, role, name)} and no other "
            "identity",
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
            f"to {parsed.not_valid_after_utc:%Y-%m-%d %H:%M} UTC only; this clock says {now:%Y-%m-%d %H:%M}",
            code="E_IDENTITY",
        )


def self_signed(
    key: ec.EllipticCurvePrivateKey,
    consortium: str,
    role: str,
    name: str,
    moment: dt.datetime,
    validity: dt.timedelta,
) -> x509.Certificate:
    """A new certificate.

    TLS uses ECDSA P-256 because gRPC's TLS library does not accept Ed25519 certificates.
    """
    # The digest of the key makes the subject unique, so that an old and a renewed certificate of one
    # participant can be trusted side by side during a rotation.
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


@lru_cache(maxsize=256)  # of the same few participants, at every call
def _parse(certificate: bytes) -> x509.Certificate:
    try:
        if certificate.lstrip().startswith(b"-----BEGIN"):
            return x509.load_pem_x509_certificate(certificate)
        return x509.load_der_x509_certificate(certificate)
    except (ValueError, x509.InvalidVersion):
        raise ConfigError("not an X.509 certificate", code="E_IDENTITY") from None
