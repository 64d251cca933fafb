"""What `fedvalue join` and `fedvalue run` do: check everything, take part, write the result."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedvalue._version import __version__
from fedvalue.agreement.manifest_files import read_manifest
from fedvalue.agreement.manifest_rules import check_pins, check_terms
from fedvalue.agreement.run_settings import check_cells, check_gates, check_rows
from fedvalue.deployment.answers import data_share, json_bytes, task_valuation
from fedvalue.deployment.valuation_certificate import make_certificate
from fedvalue.errors import ConfigError
from fedvalue.identity.identity_files import read_cards, read_identity, read_private
from fedvalue.storage.durable_files import exclusive_lock, write_durably

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fedvalue.agreement.manifest import Manifest, SignedManifest
    from fedvalue.deployment.config import PartyConfig
    from fedvalue.deployment.parties.driver import PartyDriver
    from fedvalue.deployment.parties.input import PartyInput
    from fedvalue.deployment.parties.ledger import Ledger
    from fedvalue.deployment.parties.party import Report
    from fedvalue.deployment.parties.store import PartyStore
    from fedvalue.identity.cards import Identity


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a good run: the result as data, and the exact bytes that were stored."""

    result: dict[str, Any]
    bytes: bytes
    notes: tuple[str, ...]


def take_part(config: PartyConfig, role: str, report: Report, psk: Path | None = None) -> Finished:
    """Take part in the manifest's run as `task` or `data`, and write what was learned.

    1. The identity, and the manifest: all signatures, valid now, pinned keys, accepted terms.
    2. The table, coded, within the gates.
    3. With noise: the ledger, which must have room for the run's epsilon. It is charged right before the
       upload, so that a run that ends earlier costs nothing.
    4. The run, from its beginning or from where an earlier start was interrupted.
    5. Result, audit log and receipts; for the task party also certificate and report.

    Args:
        config: Where everything is.
        role: task or data.
        report: Told how far we are.
        psk: File of 32 bytes that all parties share, instead of the key agreement. For tests and
            air-gapped use: whoever learns it later can unmask a recorded run.

    Raises:
        FedValueError: One of these failed. Nothing was released.
    """
    from fedvalue.deployment.parties.input import read_input
    from fedvalue.federated.warm_up import warm_up

    identity = read_identity(config.identity)
    _erase_expired(config.state)
    signed = _agreed(config, identity, role)
    manifest = signed.manifest
    report("reading", "reading the table")
    given = read_input(config.table, manifest, identity.card.name, role, config.state)
    check_rows(manifest, identity.card.name, given.rows)
    if manifest.align == "equal":
        check_gates(manifest, identity.card.name, given.rows, given.sizes)
        if role == "task":
            check_cells(manifest, *given.samples.marginals)
    warm_up(values=False)
    with exclusive_lock(config.state / f"party-{signed.run_id.hex()[:12]}.lock"):
        return _run(config, identity, signed, given, report, psk)


def _run(
    config: PartyConfig,
    identity: Identity,
    signed: SignedManifest,
    given: PartyInput,
    report: Report,
    psk: Path | None,
) -> Finished:
    """Steps 3 to 5."""
    from fedvalue.deployment.parties.party import Party
    from fedvalue.deployment.parties.store import PartyStore

    ledger, charge = _ledger(config, signed.manifest, given)
    store = PartyStore(config.state)
    party = Party(
        identity,
        signed,
        given,
        store,
        finish=lambda driver: _result(driver, signed, identity),
        report=report,
        addresses=config.addresses,
        psk=None if psk is None else _shared_key(psk),
        before_upload=charge,
    )
    try:
        found = party.run()
        _write(config, json.loads(found))
    finally:
        _write_logs(config, store, signed.run_id)
        store.close()
        if ledger is not None:
            ledger.close()
    return Finished(json.loads(found)["result"], found, given.notes)


def _ledger(
    config: PartyConfig, manifest: Manifest, given: PartyInput
) -> tuple[Ledger | None, Callable[[], None]]:
    """The ledger and what charges it, where the manifest asks for noise.

    Raises:
        VerificationError: E_BUDGET: these samples have told too much already.
    """
    if manifest.epsilon is None:
        return None, lambda: None
    from fedvalue.deployment.parties.ledger import Ledger
    from fedvalue.protocol.privacy import parse_epsilon

    terms = (manifest.run_id, parse_epsilon(manifest.epsilon), config.budget)
    ledger = Ledger(config.state)
    try:
        account = ledger.account(given.samples.ids_in_batches())
        account.check(*terms)
    except BaseException:
        ledger.close()
        raise
    return ledger, lambda: account.spend(*terms)


def _shared_key(path: Path) -> bytes:
    key = read_private(path)
    if len(key) != 32:
        raise ConfigError(f"{path}: a shared key has 32 bytes, got {len(key)}", code="E_IDENTITY")
    return key


def _erase_expired(state: Path) -> None:
    """The seed of a run that nobody can continue must not lie here, whoever kept that run from ending."""
    from fedvalue.deployment.parties.store import PartyStore

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
    manifest = signed.verify(now=dt.datetime.now(dt.UTC), code_version=__version__)
    check_pins(manifest, read_cards(config.peers) | {identity.card.name: identity.card})
    check_terms(manifest, config.terms)
    servers = (manifest.compute.name, manifest.validate.name)
    for name in config.addresses:
        if name not in servers:
            raise ConfigError(f"addresses.{name}: the servers of this run are {' and '.join(servers)}")
    own = manifest.participant(identity.card.name)
    if own.role != role:
        raise ConfigError(f"the manifest gives {own.name!r} the role {own.role!r}", code="E_MANIFEST")
    return signed


def _result(driver: PartyDriver, signed: SignedManifest, identity: Identity) -> bytes:
    """Everything that a party keeps of a good run, made before the run is marked as done."""
    manifest = signed.manifest
    outcome = driver.outcome
    assert outcome is not None
    rates = {ready.party: ready.rows / ready.brought for ready in driver.evidence.roster}
    intersected = manifest.align == "intersect"
    if identity.card.role != "task":
        own = identity.card.name
        share = data_share(manifest, own, outcome)
        return json_bytes({"result": {**share, **({"match_rate": rates[own]} if intersected else {})}})
    result = task_valuation(manifest, outcome).to_dict()
    if intersected:
        result["match_rate"] = rates
    certificate = make_certificate(identity, signed, driver.evidence, result, driver.order)
    return json_bytes({"result": result, "certificate": certificate})


def _write(config: PartyConfig, found: dict[str, Any]) -> None:
    # For this party's eyes, like the sealed share it comes from; whom to show it is its own decision.
    write_durably(config.result, json_bytes(found["result"]))
    if "certificate" not in found:
        return
    if config.certificate is not None:
        write_durably(config.certificate, json_bytes(found["certificate"]))
    if config.report is not None:
        from fedvalue.valuation.result import Valuation

        config.report.parent.mkdir(parents=True, exist_ok=True)
        result = Valuation.from_dict(found["result"])
        # The certificate holds the result, so only the report can hold the certificate's digest.
        digest = hashlib.sha256(json_bytes(found["certificate"])).hexdigest()
        replace(result, details={**result.details, "certificate_digest": digest}).to_html(config.report)
        config.report.chmod(0o600)


def _write_logs(config: PartyConfig, store: PartyStore, run_id: bytes) -> None:
    """The audit log and the receipts as files, whatever the end was."""
    for name, lines in (("audit", store.audit(run_id)), ("receipts", store.receipts(run_id))):
        if lines:
            path = config.state / f"{name}-{run_id.hex()[:12]}.jsonl"
            write_durably(path, "".join(line + "\n" for line in lines).encode())
