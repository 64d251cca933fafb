"""The valuation certificate: a result with everything that proves it, in one file.

It holds the manifest with all signatures, every party's signed Ready with the commitment to its input, the
servers' signed results as they sent them, the keys that open those results, and every data party's signed
statement of which column it owns. `certificate_check` checks it offline.

- Under `mirror` a third person can verify that both servers independently signed these values for this
  agreement, and which party each value belongs to; nothing rests on the task party's word.
- Under `paper` and `single` the servers sign counts that are not in the file: the values are the task
  party's word, and the check says so.
- No file can show that a party's table was true, or that servers or parties did not collude.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fedvalue import documents
from fedvalue._version import __version__
from fedvalue.agreement.manifest import SignedManifest
from fedvalue.documents import Document
from fedvalue.errors import ConfigError
from fedvalue.protocol.endorsement import Endorsement
from fedvalue.protocol.messages import Ready
from fedvalue.protocol.outcome import SignedResult
from fedvalue.valuation.result import Valuation

if TYPE_CHECKING:
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.outcome import Evidence

SCHEMA = "fedvalue.certificate/2"
MAX_BYTES = 64 << 20
PURPOSE = "certificate"
"""Purpose of the task party's signature."""


class Certificate(Document, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """The file. The task party's signature covers everything else in it."""

    software: str
    manifest: SignedManifest
    readies: tuple[Ready, ...]
    servers: dict[str, SignedResult]
    order: tuple[str, ...]
    endorsements: tuple[Endorsement, ...]
    result: Valuation
    signature: bytes = b""


def make_certificate(
    identity: Identity, signed: SignedManifest, evidence: Evidence, result: Valuation, order: tuple[str, ...]
) -> Certificate:
    """The certificate of a finished run, signed by the task party."""
    certificate = Certificate(
        software=__version__,
        manifest=signed,
        readies=evidence.roster,
        servers=dict(sorted(evidence.results.items())),
        order=order,
        endorsements=evidence.endorsements,
        result=result,
    )
    return replace(certificate, signature=identity.sign(PURPOSE, content_digest(certificate)))


def read_certificate(path: Path) -> Certificate:
    """The certificate in a file; only its form is checked.

    Raises:
        ConfigError: E_CERTIFICATE: not a certificate.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="E_CERTIFICATE") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path} is too large for a certificate", code="E_CERTIFICATE")
    try:
        return certificate_from(documents.parse(content, error=ConfigError))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", code="E_CERTIFICATE") from None


def certificate_from(data: Any) -> Certificate:
    """The certificate in parsed JSON.

    Raises:
        ConfigError: E_CERTIFICATE: not a certificate, or not in canonical form.
    """
    try:
        certificate = documents.convert(Certificate, data, schema=SCHEMA, error=ConfigError)
    except ConfigError as error:
        raise ConfigError(f"not a certificate: {error}", code="E_CERTIFICATE") from None
    # Nothing in the file is ignored and no default is filled in, so what is read is what was signed.
    if data != documents.parse(documents.encode(certificate)):
        raise ConfigError("not a certificate: a field is not in canonical form", code="E_CERTIFICATE")
    return certificate


def content_digest(certificate: Certificate) -> bytes:
    """The digest that the task party signs: SHA-256 of the file without the signature, as sorted JSON.

    Python writes a float as the shortest text that reads back as the same number.
    """
    data = msgspec.to_builtins(replace(certificate, signature=b""))
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).digest()
