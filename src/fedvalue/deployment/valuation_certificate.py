"""The valuation certificate: a result with everything that proves it, in one file.

It holds the manifest with all signatures, every party's signed Ready with the commitment to its input,
both servers' signed results as they sent them, the keys that open those results, and every data
party's signed statement of which column it owns. `certificate_check` checks it offline.

- Under `mirror` a third person can see that both servers, independently, signed these values for this
  agreement, and that the names belong to them; nothing rests on the task party's word.
- Under `paper` and `single` the servers sign counts that are not in the file: the values are the task
  party's word, and the check says so.
- No file can show that a party's table was true, or that servers or parties did not work together.
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
from fedvalue.valuation.result import Valuation

if TYPE_CHECKING:
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.outcome import Evidence, SignedResult

SCHEMA = "fedvalue.certificate/2"
MAX_BYTES = 64 << 20
PURPOSE = "certificate"
"""What the task party's signature is for."""


class ServerRecord(Document, frozen=True, kw_only=True):
    """A server's signed result as it sent it, and the keys that open it.

    Args:
        result: The chunks of the result.
        digest: What the server signed.
        signature: Its signature.
        task_key: Opens the task party's part.
        share_keys: Open the data parties' parts, in the servers' order of columns.
    """

    result: tuple[bytes, ...]
    digest: bytes
    signature: bytes
    task_key: bytes | None = None
    share_keys: tuple[bytes, ...] = ()


class Certificate(Document, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """The file. The task party's signature covers everything else in it."""

    software: str
    manifest: SignedManifest
    readies: tuple[Ready, ...]
    servers: dict[str, ServerRecord]
    order: tuple[str, ...]
    endorsements: tuple[Endorsement, ...]
    result: Valuation
    signature: bytes = b""

    @property
    def match_rates(self) -> dict[str, float]:
        """Part of each party's rows that all parties have, as the parties signed it."""
        return {ready.party: ready.rows / ready.brought for ready in self.readies}


def make_certificate(
    identity: Identity,
    signed: SignedManifest,
    evidence: Evidence,
    result: Valuation,
    order: tuple[str, ...],
) -> Certificate:
    """The certificate of a finished run, signed by the task party."""
    certificate = Certificate(
        software=__version__,
        manifest=signed,
        readies=evidence.roster,
        servers={server: _server_record(evidence.results[server]) for server in sorted(evidence.results)},
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
        ConfigError: E_CERTIFICATE: not a certificate, or not in its one spelling.
    """
    try:
        certificate = documents.convert(Certificate, data, schema=SCHEMA, error=ConfigError)
    except ConfigError as error:
        raise ConfigError(f"not a certificate: {error}", code="E_CERTIFICATE") from None
    # What is read is what was signed: nothing in the file is ignored, and no default is filled in.
    if data != documents.parse(documents.encode(certificate)):
        raise ConfigError("not a certificate: a field is not in its one spelling", code="E_CERTIFICATE")
    return certificate


def _server_record(signed: SignedResult) -> ServerRecord:
    share_keys = signed.share_keys
    return ServerRecord(
        result=signed.parts,
        digest=signed.digest,
        signature=signed.signature,
        task_key=None if share_keys is None else share_keys.task,
        share_keys=() if share_keys is None else tuple(share_keys.shares),
    )


def content_digest(certificate: Certificate) -> bytes:
    """What the task party signs: SHA-256 of everything but the signature, as JSON with sorted keys.

    Python writes a float as the shortest text that reads back as the same number.
    """
    data = msgspec.to_builtins(replace(certificate, signature=b""))
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).digest()
