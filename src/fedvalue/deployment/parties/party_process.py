"""Taking part in a run: check everything, run, write the result."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue import documents
from fedvalue.agreement.manifest_files import read_manifest
from fedvalue.agreement.manifest_rules import check_pins, check_terms
from fedvalue.agreement.run_settings import terms_of
from fedvalue.deployment.evidence import add_signature, envelope_of
from fedvalue.deployment.parties.abandon import decline
from fedvalue.deployment.parties.party_journal import PartyResult
from fedvalue.deployment.parties.run_numbers import likely_run, numbered
from fedvalue.deployment.process import page_in
from fedvalue.deployment.run_results import data_valuation, task_valuation, with_own_table
from fedvalue.deployment.valuation_certificate import make_certificate
from fedvalue.errors import ConfigError, FedValueError
from fedvalue.identity.identity_files import read_identity, read_pinned, read_private
from fedvalue.local.origin import described_source, provenance
from fedvalue.protocol.error_codes import safe_code
from fedvalue.protocol.readiness import check_own_table, check_rows
from fedvalue.storage.durable_files import PRIVATE, exclusive_lock, write_durably

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest, SignedManifest
    from fedvalue.deployment.config import PartyConfig
    from fedvalue.deployment.parties.ledger import Charging
    from fedvalue.deployment.parties.party_input import PartyInput
    from fedvalue.deployment.parties.party_run import Report
    from fedvalue.deployment.parties.party_store import PartyStore
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.outcome import Outcome
    from fedvalue.valuation.result import Valuation


_WORK_BYTES = 56
"""Memory that the work on a row takes: its hash, the key of its place, its place, and its uploads."""


def take_part(
    config: PartyConfig,
    role: str,
    report: Report = lambda stage, words: None,
    psk: Path | None = None,
    *,
    again: bool = False,
    command: str = "",
) -> Valuation | None:
    """Take part in the manifest's run and write what was learned.

    1. Check the identity and the manifest: all signatures, valid now, pinned keys, accepted terms.
    2. Read the table, code it, check the gates.
    3. Check that the ledger has room for the run, exact or with noise. It is charged right before the
       upload, so that a run that ends earlier costs nothing.
    4. Run, from the beginning or from where an earlier start was interrupted.
    5. Write result, audit log and receipts; for the task party also certificate and report.

    Args:
        config: What `read_party_config` returns.
        role: task or data.
        report: Called with (stage, words) as the run proceeds.
        psk: File of 32 bytes that all parties share, mixed into every pairwise key.
        again: Repeat a run that has failed, under the same agreement with the next number.
        command: The command line without secrets, for the provenance of the result.

    Returns:
        All values for the task party, its own for a data party; None for a data party whose agreement
        gives the values to the task party alone.

    Raises:
        FedValueError: One of these steps failed. Nothing was released.
    """
    from fedvalue.deployment.parties.party_input import feature_columns, read_input
    from fedvalue.federated.warm_up import warm_up

    identity = read_identity(config.identity)
    _erase_expired(config.state)
    signed = _agreed(config, identity, role)
    manifest = signed.manifest
    feature_columns(config.table, identity.card.name, role)  # a mistyped name must not end the run
    report("reading", "reading the table")
    source = described_source(
        config.table.source, "" if role == "task" else identity.card.name, config.table.file
    )
    likely = likely_run(signed, config, again=again)
    with _declining(likely, config, identity, report):
        given = read_input(config.table, manifest, identity.card.name, role, config.state)
        source = replace(source, n_rows=given.rows)
        for note in given.notes:
            report("note", note)
        terms = terms_of(manifest)
        check_rows(terms, identity.card.name, given.rows)
        if manifest.align == "equal":
            check_own_table(terms, identity.card.name, given.samples)
    warm_up(values=False)
    with _charging(config, given) as charging:
        # Before any byte leaves: the number of the run is found by joining it.
        with _declining(likely, config, identity, report):
            charging.check(likely.manifest, report)
        signed = numbered(signed, config, identity, again=again)
        if signed.manifest.run > 1:
            report("run", f"number {signed.manifest.run} under this agreement")
        page_in(_WORK_BYTES * given.rows)
        with exclusive_lock(config.state / f"party-{signed.run_id.hex()[:12]}.lock"):
            return _run(
                config,
                identity,
                signed,
                given,
                report,
                psk,
                charging,
                at_home=lambda valuation: with_own_table(
                    valuation, given.columns, provenance(command, sources=(source,)), given.warnings
                ),
            )


def _run(
    config: PartyConfig,
    identity: Identity,
    signed: SignedManifest,
    given: PartyInput,
    report: Report,
    psk: Path | None,
    charging: Charging,
    at_home: Callable[[Valuation], Valuation],
) -> Valuation | None:
    """Steps 4 and 5. `at_home` adds what only this party may know to its own result."""
    from fedvalue.deployment.parties.party_run import PartyRun
    from fedvalue.deployment.parties.party_store import PartyStore

    store = PartyStore(config.state)
    party = PartyRun(
        identity,
        signed,
        given,
        store,
        finish=lambda outcome: _result(outcome, signed, identity, at_home),
        report=report,
        addresses=config.addresses,
        psk=None if psk is None else _shared_key(psk),
        before_upload=lambda: charging.charge(signed.manifest),
        patience=_patience(config, signed.manifest),
    )
    try:
        result = party.run()
        _write(config, result, identity)
    finally:
        _write_logs(config, store, signed.run_id)
        store.close()
    return result.valuation


@contextmanager
def _declining(
    signed: SignedManifest, config: PartyConfig, identity: Identity, report: Report
) -> Iterator[None]:
    """Tell those who wait for us that we cannot take part, unless the same command may succeed soon."""
    from fedvalue.deployment.parties.party_run import NOT_FINAL

    try:
        yield
    except (FedValueError, MemoryError) as error:
        code = safe_code(error) if isinstance(error, FedValueError) else "E_ENGINE"
        if code not in NOT_FINAL and decline(identity, signed, code, config.state, config.addresses):
            report(
                "next",
                "the others waited and have been told: correct it and start the same command; they "
                "repeat the run with --again",
            )
        raise


@contextmanager
def _charging(config: PartyConfig, given: PartyInput) -> Iterator[Charging]:
    """The ledger's account of the samples, with what the party allows."""
    from fedvalue.deployment.parties.ledger import Allowance, Charging, Ledger

    ledger = Ledger(config.state)
    try:
        account = ledger.account(given.samples.ids_in_batches())
        yield Charging(account, Allowance(config.privacy.epsilon_budget, config.privacy.exact_runs))
    finally:
        ledger.close()


def _patience(config: PartyConfig, manifest: Manifest) -> float:
    """Until when we wait for late participants, in seconds since 1970; 0: the manifest's deadline."""
    if not config.wait_hours:
        return 0.0
    return min(time.time() + 3600 * config.wait_hours, manifest.expires.timestamp())


def _shared_key(path: Path) -> bytes:
    key = read_private(path)
    if len(key) != 32:
        raise ConfigError(f"{path}: a shared key must have 32 bytes, got {len(key)}", code="E_IDENTITY")
    return key


def _erase_expired(state: Path) -> None:
    """Erase the seeds of runs that cannot continue any more, whoever kept them from ending."""
    from fedvalue.deployment.parties.party_store import PartyStore

    store = PartyStore(state)
    try:
        store.erase_expired(time.time())
    finally:
        store.close()


def _agreed(config: PartyConfig, identity: Identity, role: str) -> SignedManifest:
    if identity.card.role != role:
        raise ConfigError(
            f"the identity in {config.identity} has role {identity.card.role!r}, not {role!r}",
            code="E_IDENTITY",
        )
    signed = read_manifest(config.manifest)
    manifest = signed.verify(now=dt.datetime.now(dt.UTC))
    check_pins(manifest, read_pinned(config.peers, identity.card))
    check_terms(manifest, config.accept)
    servers = tuple(server.name for server in manifest.servers)
    for name in config.addresses:
        if name not in servers:
            raise ConfigError(f"addresses.{name}: the servers of this run are {' and '.join(servers)}")
    own = manifest.participant(identity.card.name)
    if own.role != role:
        raise ConfigError(f"the manifest gives {own.name!r} the role {own.role!r}", code="E_MANIFEST")
    return signed


def _result(
    outcome: Outcome,
    signed: SignedManifest,
    identity: Identity,
    at_home: Callable[[Valuation], Valuation],
) -> PartyResult:
    """What a party keeps of a good run, made before the run is marked as done.

    The certificate is for others: it holds the result without the party's columns and files.
    """
    manifest, evidence = signed.manifest, outcome.evidence
    assert evidence is not None
    if identity.card.role != "task":
        own = data_valuation(manifest, identity.card.name, outcome)
        return PartyResult(valuation=None if own is None else at_home(own))
    valuation = task_valuation(manifest, outcome)
    certificate = make_certificate(identity, signed, evidence, valuation, outcome.order)
    return PartyResult(valuation=at_home(valuation), certificate=certificate)


def _write(config: PartyConfig, result: PartyResult, identity: Identity) -> None:
    """Write the files, for this party only, like the sealed share they come from."""
    if result.valuation is not None:
        write_durably(config.output.result, documents.encode(result.valuation))
    if result.certificate is None or result.valuation is None:
        return
    proof = documents.encode(result.certificate)
    if config.output.certificate is not None:
        write_durably(config.output.certificate, proof)
        envelope_of(config.output.certificate).unlink(missing_ok=True)  # about an earlier run
        if result.certificate.manifest.manifest.policy == "valuation":  # checking counts takes as long again
            add_signature(config.output.certificate, identity)
    if config.output.report is not None:
        from fedvalue.reports import html

        config.output.report.parent.mkdir(parents=True, exist_ok=True)
        # The certificate holds the result, so only the report can hold the certificate's digest.
        details = {**result.valuation.details, "certificate_digest": hashlib.sha256(proof).hexdigest()}
        page = html.render(replace(result.valuation, details=details))
        html.write_page(page, config.output.report, mode=PRIVATE)


def _write_logs(config: PartyConfig, store: PartyStore, run_id: bytes) -> None:
    """Write the audit log and the receipts, however the run ended."""
    for name, lines in (("audit", store.audit(run_id)), ("receipts", store.receipts(run_id))):
        if lines:
            path = config.state / f"{name}-{run_id.hex()[:12]}.jsonl"
            write_durably(path, "".join(line + "\n" for line in lines).encode())
