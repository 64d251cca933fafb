"""Evidence that needs no FedValue: in-toto Statements in DSSE envelopes, with several signatures.

- Envelope and signed bytes (PAE) are those of https://github.com/secure-systems-lab/dsse, protocol v1; the
  payload is https://in-toto.io/Statement/v1. Standard tools verify both with the signers' public keys.
- Keys are the participants' Ed25519 signing keys. `keyid` is the SHA-256 of the raw public key: a hint for
  finding the key, never a proof.
- PAE begins with "DSSEv1", every other signature of ours with "fedvalue/": neither can serve as the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec.structs import replace

from fedvalue import documents
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, VerificationError
from fedvalue.identity.cards import Identity

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
MAX_BYTES = 64 << 20


class Signature(Document, frozen=True):
    """One signature of an envelope."""

    keyid: str
    sig: bytes


class Envelope(Document, frozen=True, rename={"payload_type": "payloadType"}):
    """A signed payload, as a file."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...] = ()

    def signed_by(self, identity: Identity) -> Envelope:
        """With this signer's signature, which replaces an earlier one."""
        keyid = key_id(identity.card.sign_key)
        others = tuple(signature for signature in self.signatures if signature.keyid != keyid)
        sig = identity.signing.sign(pae(self.payload_type, self.payload))
        return replace(self, signatures=(*others, Signature(keyid, sig)))

    def to_json(self) -> bytes:
        """The envelope as a file."""
        return documents.encode(self)

    @classmethod
    def from_json(cls, content: bytes | str) -> Envelope:
        """Read an envelope; no signature is checked.

        Raises:
            ConfigError: E_CERTIFICATE: not an envelope with an in-toto statement.
        """
        try:
            envelope = documents.convert(cls, documents.parse(content, error=ConfigError), error=ConfigError)
        except ConfigError as error:
            raise ConfigError(f"not a DSSE envelope: {error}", code="E_CERTIFICATE") from None
        if envelope.payload_type != PAYLOAD_TYPE:
            raise ConfigError(
                f"the envelope holds {envelope.payload_type!r}, not {PAYLOAD_TYPE!r}", code="E_CERTIFICATE"
            )
        return envelope


def statement(subject: Mapping[str, bytes], predicate_type: str, predicate: Mapping[str, Any]) -> Envelope:
    """An unsigned envelope with a statement about files.

    Args:
        subject: Contents of the files by name.
        predicate_type: URI that names the meaning of the predicate.
        predicate: The statement about the files: text and whole numbers.
    """
    content = {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": hashlib.sha256(data).hexdigest()}}
            for name, data in sorted(subject.items())
        ],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }
    return Envelope(PAYLOAD_TYPE, documents.canonical(content))


def verified(envelope: Envelope, keys: Mapping[str, bytes]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The statement of an envelope and the names of its signers.

    `keys` holds raw Ed25519 public keys by name; signatures of other keys are ignored.

    Raises:
        VerificationError: E_SIGNATURE: a signature that claims one of these keys is not valid, or no key
            has signed.
        ConfigError: E_CERTIFICATE: signed, but not a statement.
    """
    signed, names = pae(envelope.payload_type, envelope.payload), {key_id(key): n for n, key in keys.items()}
    signers = []
    for signature in envelope.signatures:
        name = names.get(signature.keyid)
        if name is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(keys[name]).verify(signature.sig, signed)
        except (InvalidSignature, ValueError):
            raise VerificationError(
                f"the signature of {name!r} on the statement is not valid", code="E_SIGNATURE"
            ) from None
        signers.append(name)
    if not signers:
        raise VerificationError("no known key has signed the statement", code="E_SIGNATURE")
    content = documents.parse(envelope.payload, error=ConfigError)
    if not isinstance(content, dict) or content.get("_type") != STATEMENT_TYPE:
        raise ConfigError("the payload is not an in-toto statement", code="E_CERTIFICATE")
    return content, tuple(sorted(set(signers)))


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding, the bytes that are signed."""
    kind = payload_type.encode()
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])


def key_id(sign_key: bytes) -> str:
    """SHA-256 of a raw Ed25519 public key, hex."""
    return hashlib.sha256(sign_key).hexdigest()


def public_pem(sign_key: bytes) -> str:
    """A public key as PEM, for other tools."""
    key = Ed25519PublicKey.from_public_bytes(sign_key)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()
