"""Statements about a run that anybody can verify: about a certificate, and about an audit log.

The file determines every byte of the statement about it. So every participant that has the file can check it,
make the same statement and add its signature; nobody has to trust a statement that somebody else wrote.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedvalue import documents
from fedvalue.agreement.manifest_rules import check_pins
from fedvalue.agreement.run_settings import pins_of
from fedvalue.deployment.certificate_check import CertificateCheck, check_certificate
from fedvalue.deployment.valuation_certificate import Certificate, certificate_from
from fedvalue.errors import ConfigError, FedValueError, VerificationError
from fedvalue.identity import dsse
from fedvalue.identity.audit_log import Receipt, check_receipts, read_line, read_log
from fedvalue.identity.cards import Card, Identity
from fedvalue.identity.timestamps import time_stamped
from fedvalue.storage.durable_files import write_durably

VALUATION = "https://github.com/fedvalue/fedvalue/blob/main/docs/operate.md#valuation-v1"
AUDIT_LOG = "https://github.com/fedvalue/fedvalue/blob/main/docs/operate.md#audit-log-v1"
SUFFIX = ".intoto.json"
STAMP = ".tsr"


def envelope_of(path: Path) -> Path:
    """Where the statement about a file is kept: beside it."""
    return path.with_name(path.name + SUFFIX)


def certificate_statement(content: bytes) -> tuple[dsse.Envelope, Certificate, CertificateCheck]:
    """The unsigned statement about a certificate, after checking it.

    Raises:
        VerificationError: The certificate does not hold.
        ConfigError: E_CERTIFICATE: not a certificate.
    """
    certificate = certificate_from(documents.parse(content, error=ConfigError))
    checked = check_certificate(certificate)
    manifest, result = certificate.manifest.manifest, certificate.result
    predicate = {
        "run": manifest.run_id.hex(),
        "consortium": manifest.consortium,
        "purpose": manifest.purpose,
        "protocol": manifest.protocol,
        "policy": manifest.policy,
        "created": f"{manifest.created:%Y-%m-%dT%H:%M:%SZ}",
        "participants": [
            {"name": participant.name, "role": participant.role, "keyid": dsse.key_id(participant.sign_key)}
            for participant in manifest.participants
        ],
        "unit": "nats",
        "samples": result.n_samples,
        # As text: JSON numbers with fractions have more than one spelling.
        "total": repr(result.total),
        "values": [{"party": name, "value": repr(value)} for name, value in result.values.items()],
        "proved": list(checked.proved),
        "unproved": list(checked.unproved),
    }
    return dsse.statement({"certificate.json": content}, VALUATION, predicate), certificate, checked


def log_statement(content: bytes, sign_key: bytes) -> dsse.Envelope:
    """The unsigned statement about the audit log of one run, after checking its chain and signatures.

    Raises:
        VerificationError: E_AUDIT: the log is broken, or another key wrote it.
    """
    lines = content.decode("utf-8", "replace").splitlines()
    entries = read_log(lines, sign_key)
    if not entries:
        raise VerificationError("the log is empty", code="E_AUDIT")
    predicate = {
        "run": entries[0].run_id,
        "actor": entries[0].actor,
        "keyid": dsse.key_id(sign_key),
        "entries": len(entries),
        "first": entries[0].time,
        "last": entries[-1].time,
        "head": entries[-1].head,
        "end": entries[-1].event,
    }
    return dsse.statement({"audit.jsonl": content}, AUDIT_LOG, predicate)


def statement_about(content: bytes, card: Card) -> tuple[dsse.Envelope, dict[str, bytes]]:
    """The unsigned statement about a certificate or an audit log, after checking it.

    Returns:
        The statement, and the keys of its possible signers by name: the owner of `card` and, for a
        certificate, its participants.
    """
    if is_log(content):
        return log_statement(content, card.sign_key), {card.name: card.sign_key}
    statement, certificate, _ = certificate_statement(content)
    return statement, {card.name: card.sign_key} | pins_of(certificate.manifest.manifest)


def is_log(content: bytes) -> bool:
    """Whether a file looks like an audit log."""
    try:
        read_line(content.partition(b"\n")[0].decode("utf-8", "replace"))
    except FedValueError:
        return False
    return True


def add_signature(path: Path, identity: Identity) -> tuple[Path, tuple[str, ...]]:
    """Check a file and sign the statement about it, keeping the signatures of others.

    The statement repeats values, so it is as private as the file.

    Returns:
        The path of the statement, and the names of its valid signers: participants, and ourselves.

    Raises:
        FedValueError: The file does not hold, the statement beside it is about something else, or a
            participant's signature there is not valid.
    """
    target = envelope_of(path)
    statement, keys = statement_about(path.read_bytes(), identity.card)
    if target.exists():
        stored = dsse.Envelope.from_json(target.read_bytes())
        if stored.payload != statement.payload:
            raise ConfigError(
                f"{target} states something else about {path.name}; move it away to start again",
                code="E_CERTIFICATE",
            )
        statement = stored
    signed = statement.signed_by(identity)
    _, signers = dsse.verified(signed, keys)
    write_durably(target, signed.to_json(), mode=stat.S_IMODE(path.stat().st_mode))
    return target, signers


def certificate_page(path: Path, cards: Mapping[str, Card] | None) -> tuple[list[str], Certificate]:
    """The findings of a check of a certificate, one line each, and the certificate.

    Args:
        path: The certificate.
        cards: Pinned cards, or None to show the fingerprints for the reader to compare.

    Raises:
        FedValueError: It does not hold.
    """
    statement, certificate, checked = certificate_statement(path.read_bytes())
    manifest = certificate.manifest.manifest
    if cards is not None:
        check_pins(manifest, cards)
    page = [f"ok  {sentence}" for sentence in checked.proved]
    page += [f"NOT CHECKED  {sentence}" for sentence in checked.unproved]
    page += _statement_lines(path, statement, pins_of(manifest)) + _time_lines(path)
    if cards is not None:
        page.append("ok  all keys are the ones on the pinned cards")
    else:
        page.append("NOT CHECKED  whose keys these are (no --peers): compare the fingerprints")
        shown = map(manifest.card_of, manifest.participants)
        page += [f"    {card.uri}  {card.fingerprint}" for card in shown]
    return page, certificate


def log_page(path: Path, card: Card, receipts: Sequence[Receipt]) -> list[str]:
    """The findings of a check of an audit log, one line each.

    Raises:
        FedValueError: It does not hold, or a receipt contradicts it.
    """
    content = path.read_bytes()
    statement = log_statement(content, card.sign_key)
    entries = read_log(content.decode().splitlines(), card.sign_key)
    first, last = entries[0], entries[-1]
    page = [
        f"Audit log of {first.actor} ({card.role}), run {first.run_id[:12]}",
        f"    from {first.time} to {last.time}, ends with {last.event!r}",
        f"ok  {len(entries)} entries, unbroken, each signed with the key on the card",
    ]
    received = Counter(entry.event.split()[1] for entry in entries if entry.event.startswith("received "))
    if received:
        page.append(f"    messages from {', '.join(f'{name} ({n})' for name, n in received.items())}")
    if receipts:
        page.append(f"ok  {check_receipts(entries, receipts, card.sign_key)} receipts agree")
    else:
        page.append("NOT CHECKED  entries cut off at the end (no --receipts of others to compare with)")
    return page + _statement_lines(path, statement, {card.name: card.sign_key}) + _time_lines(path)


def _statement_lines(path: Path, statement: dsse.Envelope, keys: Mapping[str, bytes]) -> list[str]:
    target = envelope_of(path)
    if not target.exists():
        return []
    stored = dsse.Envelope.from_json(target.read_bytes())
    _, signers = dsse.verified(stored, keys)
    if stored.payload != statement.payload:
        raise VerificationError(f"{target} states something else about {path.name}", code="E_CERTIFICATE")
    return [f"ok  {', '.join(signers)} signed the statement in {target.name}"]


def _time_lines(path: Path) -> list[str]:
    reply = path.with_name(path.name + STAMP)
    if not reply.exists():
        return []
    moment = time_stamped(path.read_bytes(), reply.read_bytes())
    return [
        f"ok  {reply.name} says that the file existed at {moment:%Y-%m-%d %H:%M:%S} UTC",
        "NOT CHECKED  the authority's signature on it: openssl ts -verify -in "
        f"{reply.name} -data {path.name} -CAfile AUTHORITY.pem",
    ]
