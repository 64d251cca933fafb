"""Keys: derivation, agreement, signatures, sealing. Bytes in, bytes out.

Every derived key is HKDF-SHA256(secret, salt = run id, info = "fedvalue/1/" + purpose + parts), each part
prefixed with its length, so that no two purposes collide. Nothing here draws randomness: the caller draws
the seed of a private key.
"""

from __future__ import annotations

import hmac
import struct
from hashlib import sha256

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedvalue.errors import RemoteProtocolError, VerificationError

PADDED_BYTES = 1024
"""Padded messages have a multiple of this length, so that no length reveals flags or a number of features."""
_NONCE = bytes(12)  # every sealing key is used for one message only


def hkdf(secret: bytes, *, salt: bytes, info: bytes, length: int = 32) -> bytes:
    """HKDF-SHA256 (RFC 5869)."""
    return HKDF(hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


def info(purpose: str, *parts: bytes | str) -> bytes:
    """The context of a derived key or a signature: purpose and parts, unambiguous."""
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return (
        b"fedvalue/1/" + purpose.encode() + b"\0" + b"".join(struct.pack(">I", len(p)) + p for p in encoded)
    )


def subkey(secret: bytes, run_id: bytes, purpose: str, *parts: bytes | str, length: int = 32) -> bytes:
    """The key of one purpose within one run."""
    return hkdf(secret, salt=run_id, info=info(purpose, *parts), length=length)


def agreement_public(private: bytes) -> bytes:
    """The X25519 public key of a 32-byte private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreement_secret(private: bytes, peer: bytes) -> bytes:
    """The X25519 shared secret.

    Raises:
        VerificationError: The peer's key is a point of low order (E_SIGNATURE).
    """
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:
        raise VerificationError("a peer's ephemeral key is not usable", code="E_SIGNATURE") from None


def signing_public(private: bytes) -> bytes:
    """The Ed25519 public key of a 32-byte private key."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def sign(private: bytes, purpose: str, *parts: bytes | str) -> bytes:
    """Ed25519 signature over purpose and parts."""
    return Ed25519PrivateKey.from_private_bytes(private).sign(info("sign/" + purpose, *parts))


def check_signature(public: bytes, signature: bytes, purpose: str, *parts: bytes | str) -> None:
    """Check a signature.

    Raises:
        VerificationError: E_SIGNATURE: it is not the pinned key's.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, info("sign/" + purpose, *parts))
    except (InvalidSignature, ValueError):
        raise VerificationError(
            f"a signature ({purpose}) was not made with the pinned key", code="E_SIGNATURE"
        ) from None


def seal(key: bytes, plain: bytes, context: bytes) -> bytes:
    """Encrypt and authenticate one message under a key that is used once (ChaCha20-Poly1305)."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, plain, context)


def unseal(key: bytes, sealed: bytes, context: bytes, *, what: str = "a sealed message") -> bytes:
    """The inverse of `seal`; `what` names the message and its sender in an error.

    Raises:
        VerificationError: Another key, context or content (E_SEAL).
    """
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, context)
    except InvalidTag:
        raise VerificationError(f"{what} does not open", code="E_SEAL") from None


def padded(plain: bytes, longest: int) -> bytes:
    """The bytes, a 0x80, and zeros up to the next multiple of 1024 after `longest` (ISO/IEC 7816-4)."""
    size = (longest // PADDED_BYTES + 1) * PADDED_BYTES
    return (plain + b"\x80").ljust(size, b"\0")


def unpadded(plain: bytes, *, what: str = "a sealed message") -> bytes:
    """The inverse of `padded`; `what` names the message and its sender in an error.

    Raises:
        RemoteProtocolError: There is no padding (E_MALFORMED).
    """
    content, mark, zeros = plain.rpartition(b"\x80")
    if not mark or zeros.strip(b"\0"):
        raise RemoteProtocolError(f"{what} is not padded", code="E_MALFORMED")
    return content


def mac(key: bytes, purpose: str, *parts: bytes | str) -> bytes:
    """HMAC-SHA256 over purpose and parts."""
    return hmac.digest(key, info("mac/" + purpose, *parts), "sha256")


def check_mac(expected: bytes, received: bytes, *, who: str) -> None:
    """Compare two authentication codes in constant time.

    Raises:
        VerificationError: They differ.
    """
    if not hmac.compare_digest(expected, received):
        raise VerificationError(f"the message of {who!r} is not authentic", code="E_CONFIRM")


def digest(*parts: bytes) -> bytes:
    """SHA-256 over the parts, each prefixed with its length."""
    state = sha256()
    for part in parts:
        state.update(struct.pack(">Q", len(part)))
        state.update(part)
    return state.digest()
