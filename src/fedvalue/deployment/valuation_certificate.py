"""The valuation certificate: a result with everything that proves it, in one file, checked offline.

It holds the manifest with all signatures, every party's signed Ready with the commitment to its input,
both servers' signed results as they sent them, the keys that open those results, and every data
party's signed statement of which column it owns.

- Under `mirror` a third person can see that both servers, independently, signed these values for this
  agreement, and that the names belong to them; nothing rests on the task party's word.
- Under `paper` and `single` the servers sign counts that are not in the file: the values are the task
  party's word, and the check says so.
- No file can show that a party's table was true, or that servers or parties did not work together.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fedvalue import documents
from fedvalue._version import __version__
from fedvalue.agreement.manifest import Manifest, SignedManifest
from fedvalue.agreement.run_settings import pins_of, terms_of
from fedvalue.crypto import keys
from fedvalue.deployment.run_results import task_valuation
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, FedValueError, VerificationError
from fedvalue.identity.cards import verify
from fedvalue.protocol import messages as m
from fedvalue.protocol.endorsement import Endorsement, check_endorsements
from fedvalue.protocol.messages import Ready
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    TASK_CONTEXT,
    CountsResult,
    ValuesResult,
    decode_fields,
    decode_result,
)
from fedvalue.protocol.outcome import Outcome, same_numbers
from fedvalue.protocol.readiness import check_roster
from fedvalue.valuation.result import Valuation

if TYPE_CHECKING:
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.outcome import Evidence, SignedResult

SCHEMA = "fedvalue.certificate/2"
MAX_BYTES = 64 << 20
_PURPOSE = "certificate"


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
    return replace(certificate, signature=identity.sign(_PURPOSE, content_digest(certificate)))


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


@dataclass(frozen=True, slots=True)
class CertificateCheck:
    """What a check of a certificate has shown.

    Args:
        proved: One sentence per thing that was checked.
        unproved: What a reader might believe to be checked, and is not.
    """

    proved: tuple[str, ...]
    unproved: tuple[str, ...]


def check_certificate(certificate: Certificate) -> CertificateCheck:
    """Check a certificate offline.

    1. Every participant signed the manifest.
    2. The task party signed this certificate.
    3. Every party signed its Ready, and all pass the manifest's gates.
    4. Each server signed exactly the result that is in the file, for this run.
    5. Under `mirror`: every data party signed which column of these results is its own.
    6. Under `mirror`: each server's values, opened (or recomputed from its counts), are the
       certificate's values. Under `paper` and `single` this is not possible, and said.
    7. The values add up to the total.

    The reader still has to decide whether the keys in the manifest belong to whom they name
    (compare the fingerprints).

    Raises:
        VerificationError: E_CERTIFICATE (or the code of the check that failed).
        ConfigError: The file does not have the form of a certificate.
    """
    try:
        return _checked(certificate)
    except FedValueError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise ConfigError(f"malformed certificate: {type(error).__name__}", code="E_CERTIFICATE") from None


def _checked(certificate: Certificate) -> CertificateCheck:
    signed, result = certificate.manifest, certificate.result
    # Step 1. Validity is judged at the time of the agreement: certificates outlive manifests.
    manifest = signed.verify(now=signed.manifest.created, code_version=signed.manifest.code_version)
    proved = [f"all {len(manifest.participants)} participants signed the manifest"]
    # Step 2.
    task = manifest.task
    verify(task.sign_key, _PURPOSE, content_digest(certificate), certificate.signature, who=task.name)
    proved.append(f"task party {task.name!r} signed the certificate")
    # Step 3.
    readies = {ready.party: ready for ready in certificate.readies}
    check_roster(terms_of(manifest), readies, pins_of(manifest))
    proved.append(f"all {len(readies)} parties signed their input commitments")
    rates = certificate.match_rates if manifest.align == "intersect" else None
    if not same_numbers(result.details.get("match_rates"), rates):
        raise VerificationError("the match rates are not the signed ones", code="E_CERTIFICATE")
    if result.run_id != manifest.run_id.hex():
        raise VerificationError("the result belongs to another run", code="E_REPLAY")
    # Step 4.
    expected = [manifest.compute.name] + ([manifest.validate.name] if manifest.protocol != "single" else [])
    if set(certificate.servers) != set(expected):
        raise VerificationError("a server's result is missing, or one too many", code="E_CERTIFICATE")
    for server in expected:
        record, pin = certificate.servers[server], manifest.participant(server).sign_key
        keys.check_signature(pin, record.signature, "result", manifest.run_id, server, record.digest)
    # Steps 5 and 6.
    unproved = []
    if manifest.protocol == "mirror":
        terms, pins = terms_of(manifest), pins_of(manifest)
        digests = {server: certificate.servers[server].digest for server in expected}
        check_endorsements(terms, certificate.endorsements, certificate.order, digests, pins)
        proved.append("every data party signed which column of the results is its own")
        for server in expected:
            _check_values(certificate, manifest, server, readies)
            proved.append(f"server {server!r} computed and signed these values")
    else:
        proved += [f"server {server!r} signed the digest of its counts" for server in expected]
        unproved.append(
            f"the values are NOT verified by server signatures: protocol {manifest.protocol!r} puts no "
            "signed result into the file; the values are the task party's word"
        )
    # Step 7. Sampled values add up exactly too, permutation by permutation.
    if abs(sum(result.values.values()) - result.total) > 1e-9:
        raise VerificationError("the values do not add up to the total", code="E_TOTAL")
    if manifest.epsilon is not None:
        proved.append(f"all agreed on values with noise: {_noise(result)}")
        unproved.append("that the servers drew the noise honestly: nobody but they knows it")
    return CertificateCheck((*proved, "the values add up to the total"), tuple(unproved))


def _noise(result: Valuation) -> str:
    """What the result says about the noise; it was compared with the agreement."""
    privacy = result.privacy
    if privacy is None:
        raise VerificationError("the result says nothing about its noise", code="E_CERTIFICATE")
    return (
        f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, scale {privacy.noise_scale:.6g} nats; "
        f"adjacency: {privacy.adjacency}; observer: {privacy.observer}"
    )


def _check_values(
    certificate: Certificate, manifest: Manifest, server: str, readies: Mapping[str, Ready]
) -> None:
    """Whether the certificate's values are those in the result that the server signed."""
    record, order = certificate.servers[server], certificate.order
    chunks = record.result
    if not chunks:
        raise VerificationError(f"the result of server {server!r} is not in the file", code="E_CERTIFICATE")
    whole = keys.digest(*(m.bulk_digest(k, len(chunks), part) for k, part in enumerate(chunks)))
    if whole != record.digest:
        raise VerificationError(f"server {server!r} signed another result", code="E_SIGNATURE")
    result = decode_result(b"".join(chunks))
    if isinstance(result, ValuesResult) != (manifest.policy == "valuation"):
        raise VerificationError(f"server {server!r} signed a result of another policy", code="E_CERTIFICATE")
    if isinstance(result, CountsResult):
        outcome = _counted(manifest, result, readies, order)
    else:
        outcome = _opened(result, record, order)
    rates = certificate.match_rates if manifest.align == "intersect" else None
    opened = task_valuation(manifest, outcome, rates)
    if not same_numbers(opened.to_dict(), certificate.result.to_dict()):
        raise VerificationError(f"server {server!r} signed other values", code="E_MIRROR")
    if result.n_samples != readies[manifest.task.name].rows:
        raise VerificationError(f"server {server!r} counted another table", code="E_TOTAL")


def _counted(
    manifest: Manifest, result: CountsResult, readies: Mapping[str, Ready], order: tuple[str, ...]
) -> Outcome:
    """The signed counts under the parties' names. Codes keep their aliases: no value depends on them."""
    sizes = {name: ready.sizes for name, ready in readies.items()}
    layout = RowLayout.of((*sizes[manifest.task.name], *(sizes[name][0] for name in order)))
    cells = layout.joint_counts(*result.cells(layout))
    names = tuple(party.name for party in manifest.data)
    places = [order.index(name) for name in names]
    counts = dataclasses.replace(
        cells,
        parties=cells.parties[:, places].copy(),
        names=names,
        n_codes=tuple(sizes[name][0] for name in names),
    )
    return Outcome(counts=counts)


def _opened(result: ValuesResult, record: ServerRecord, order: tuple[str, ...]) -> Outcome:
    shares = {
        name: decode_fields(keys.unseal(key, sealed, SHARE_CONTEXT))
        for name, key, sealed in zip(order, record.share_keys, result.shares, strict=True)
    }
    task = decode_fields(keys.unseal(record.task_key or b"", result.task, TASK_CONTEXT))
    return Outcome(public=result.public, task=task, shares=shares, order=order)


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
