"""Checks a valuation certificate offline, as any third person can."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedvalue.agreement.manifest_rules import check_values_version
from fedvalue.agreement.run_settings import pins_of, terms_of
from fedvalue.crypto import keys
from fedvalue.deployment.run_results import match_rates, task_valuation
from fedvalue.deployment.valuation_certificate import PURPOSE, Certificate, content_digest
from fedvalue.errors import ConfigError, FedValueError, VerificationError
from fedvalue.federated.valuation_parts import derived
from fedvalue.identity.cards import verify
from fedvalue.protocol import messages as m
from fedvalue.protocol.endorsement import check_endorsements
from fedvalue.protocol.gram.gram_opening import OpenedSums, opened_tables
from fedvalue.protocol.messages import Ready
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    TASK_CONTEXT,
    CountsResult,
    ValuesResult,
    decode_result,
    open_share,
)
from fedvalue.protocol.outcome import Evidence, Outcome, SignedResult, same_numbers
from fedvalue.protocol.readiness import check_roster, ranges_of, settings_of
from fedvalue.protocol.release_grid import TOLERANCE

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest, SignedManifest
    from fedvalue.valuation.result import Valuation


@dataclass(frozen=True, slots=True)
class CertificateCheck:
    """The outcome of a successful check.

    Args:
        proved: One sentence per proved fact.
        unproved: Facts that a reader might believe proved, and are not.
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
    6. Under `mirror`: each server's values, opened (or recomputed from its counts), are the certificate's
       values. Under `gram`: the sums that the servers signed fit together and give the values. Under `paper`
       and `single` this is not possible, and the check says so. Recomputing needs software with the same
       values version.
    7. The values add up to the total, and shares and flags follow from the values.

    The reader still has to compare the fingerprints of the keys in the manifest with those of their owners.

    Raises:
        VerificationError: E_CERTIFICATE (or the code of the check that failed).
        ConfigError: The file does not have the form of a certificate (E_CERTIFICATE), or its values follow
            from counts or sums by the rules of another release (E_VERSION).
    """
    try:
        return _checked(certificate)
    except FedValueError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise ConfigError(f"malformed certificate: {type(error).__name__}", code="E_CERTIFICATE") from None


def _checked(certificate: Certificate) -> CertificateCheck:
    signed, result = certificate.manifest, certificate.result
    # Step 1. Certificates outlive the validity of manifests, and the software that took part.
    manifest = signed.verify_signatures()
    proved, unproved = words_stated(signed)
    proved.insert(0, f"all {len(manifest.participants)} participants signed the manifest")
    # Step 2.
    task = manifest.task
    verify(task.sign_key, PURPOSE, content_digest(certificate), certificate.signature, who=task.name)
    proved.append(f"task party {task.name!r} signed the certificate")
    # Step 3.
    readies = {ready.party: ready for ready in certificate.readies}
    check_roster(terms_of(manifest), readies, pins_of(manifest))
    proved.append(f"all {len(readies)} parties signed their input commitments")
    evidence = Evidence(roster=certificate.readies, results={})
    rates = match_rates(manifest, Outcome(evidence=evidence))
    if not same_numbers(result.details.get("match_rates"), rates):
        raise VerificationError("the match rates are not the signed ones", code="E_CERTIFICATE")
    if result.run_id != manifest.run_id.hex():
        raise VerificationError("the result belongs to another run", code="E_REPLAY")
    # Step 4.
    expected = [server.name for server in manifest.servers]
    if set(certificate.servers) != set(expected):
        raise VerificationError(
            "a server's result is missing, or there is one too many", code="E_CERTIFICATE"
        )
    for server in expected:
        record, pin = certificate.servers[server], manifest.participant(server).sign_key
        keys.check_signature(pin, record.signature, "result", manifest.run_id, server, record.digest)
    # Steps 5 and 6.
    _check_results(certificate, readies, proved, unproved)
    # Step 7. Sampled values add up too, permutation by permutation; on a grid each is off by half a step.
    learned = manifest.epsilon is not None or manifest.protocol == "gram"
    total = result.learnable_total if learned else result.total
    values = result.learnable if learned else result.values
    grid, slack = terms_of(manifest).release_grid, TOLERANCE
    if grid.digits is not None and manifest.policy == "valuation":
        slack += 0.5 * 10.0**-grid.digits * (len(result.parties) + 1)
    if total is None or abs(sum(value or 0.0 for value in values.values()) - total) > slack:
        raise VerificationError("the values do not add up to the total", code="E_TOTAL")
    if not learned and result.parties != derived(result).parties:
        raise VerificationError("a share or a flag does not follow from the values", code="E_CERTIFICATE")
    if manifest.epsilon is not None:
        proved.append(f"all agreed on values with noise: {_noise(result)}")
        unproved.append("that the servers drew the noise honestly: only they know it")
    return CertificateCheck((*proved, "the values add up to the total"), tuple(unproved))


def _check_results(
    certificate: Certificate, readies: Mapping[str, Ready], proved: list[str], unproved: list[str]
) -> None:
    """Steps 5 and 6; extends the lists of what the servers' signed results prove, and what they do not."""
    manifest = certificate.manifest.manifest
    servers = [server.name for server in manifest.servers]
    if manifest.protocol == "mirror":
        terms, pins = terms_of(manifest), pins_of(manifest)
        digests = {server: certificate.servers[server].digest for server in servers}
        check_endorsements(terms, certificate.endorsements, certificate.order, digests, pins)
        proved.append("every data party signed which column of the results is its own")
        for server in servers:
            _check_values(certificate, manifest, server, readies)
            proved.append(f"server {server!r} computed and signed these values")
        if manifest.policy == "counts" and manifest.settings.columns == "features":
            unproved.append(
                "the learnable values: the parties' codebooks, on which they rest, are not in the file; they "
                "are the task party's word"
            )
    elif manifest.protocol == "gram":
        _check_sums(certificate, manifest, readies)
        proved.append(f"servers {', '.join(map(repr, servers))} signed sums that fit together")
        proved.append("the values follow from these sums")
    else:
        proved += [f"server {server!r} signed the digest of its counts" for server in servers]
        unproved.append(
            f"the values are NOT verified by server signatures: protocol {manifest.protocol!r} puts no "
            "signed result into the file; the values are the task party's word"
        )


def _noise(result: Valuation) -> str:
    """The result's statement about its noise, which step 6 compared with the agreement."""
    privacy = result.privacy
    assert privacy is not None
    return (
        f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, noise of {privacy.label_noise:.3g} and "
        f"{privacy.pair_noise:.3g} persons per cell; "
        f"adjacency: {privacy.adjacency}; observer: {privacy.observer}"
    )


def words_stated(signed: SignedManifest) -> tuple[list[str], list[str]]:
    """What is proved and not proved by comparing the words. Cards exchanged by hand have no words."""
    proved, unproved = [], []
    if compared := [name for name, statement in signed.words.items() if statement.compared]:
        proved.append(f"{', '.join(compared)} stated that the words of the agreement were compared")
    if skipped := [name for name, statement in signed.words.items() if not statement.compared]:
        names = ", ".join(skipped)
        unproved.append(f"that the keys belong to whom they name: {names} signed without comparing the words")
    return proved, unproved


def _check_values(
    certificate: Certificate, manifest: Manifest, server: str, readies: Mapping[str, Ready]
) -> None:
    """Compare the certificate's values with those in the result that the server signed."""
    record, order = certificate.servers[server], certificate.order
    result = decode_result(_signed_bytes(record, server))
    if isinstance(result, ValuesResult) != (manifest.policy == "valuation"):
        raise VerificationError(f"server {server!r} signed a result of another policy", code="E_CERTIFICATE")
    if isinstance(result, CountsResult):
        outcome = _counted(manifest, result, readies, order)
    else:
        outcome = _opened(result, record, order)
    outcome = dataclasses.replace(outcome, evidence=Evidence(roster=certificate.readies, results={}))
    opened = task_valuation(manifest, outcome).to_dict()
    shown = certificate.result.to_dict()
    tolerance = 0.0 if manifest.epsilon is None else TOLERANCE
    if isinstance(result, CountsResult):
        # Computed here from codes under other names, in another order: quotients are left out.
        tolerance = TOLERANCE
        opened, shown = _computed_part(manifest, opened), _computed_part(manifest, shown)
    if not same_numbers(opened, shown, tolerance):
        raise VerificationError(f"server {server!r} signed other values", code="E_MIRROR")
    if result.n_samples != readies[manifest.task.name].rows:
        raise VerificationError(f"server {server!r} counted another table", code="E_TOTAL")


def _signed_bytes(record: SignedResult, server: str) -> bytes:
    """The bytes of a server's result, after checking that they are the ones the server signed."""
    chunks = record.result
    if not chunks:
        raise VerificationError(f"the result of server {server!r} is not in the file", code="E_CERTIFICATE")
    whole = keys.digest(*(m.bulk_digest(k, len(chunks), part) for k, part in enumerate(chunks)))
    if whole != record.digest:
        raise VerificationError(f"server {server!r} signed another result", code="E_SIGNATURE")
    return b"".join(chunks)


def _check_sums(certificate: Certificate, manifest: Manifest, readies: Mapping[str, Ready]) -> None:
    """Compute the certificate's values again from the sums that the servers of `gram` signed."""
    check_values_version(manifest)
    settings = settings_of(terms_of(manifest), readies)
    opened = {
        server: OpenedSums.decode(_signed_bytes(certificate.servers[server], server))
        for server in settings.servers
    }
    evidence = Evidence(roster=certificate.readies, results={})
    outcome = Outcome(tables=opened_tables(settings, opened), evidence=evidence)
    computed = task_valuation(manifest, outcome).to_dict()
    # Perhaps on another machine: numbers differ in the last digits.
    if not same_numbers(computed, certificate.result.to_dict(), TOLERANCE):
        raise VerificationError("the values do not follow from the servers' sums", code="E_SUMS")


def _computed_part(manifest: Manifest, result: dict[str, Any]) -> dict[str, Any]:
    """The fields that follow from joint counts; the learnable game of columns also needs codebooks."""
    of_party = ["name", "value", "alone", "last", "n_codes", "se_sampling"]
    of_run = ["n_samples", "total", "method", "n_permutations", "seed", "run_id"]
    if manifest.settings.columns == "joint":
        of_party += ["learnable", "se_learnable"]
        of_run += ["learnable_total", "interactions", "coalitions"]
    parties = [{key: party.get(key) for key in of_party} for party in result["parties"]]
    return {**{key: result.get(key) for key in of_run}, "parties": parties}


def _counted(
    manifest: Manifest, result: CountsResult, readies: Mapping[str, Ready], order: tuple[str, ...]
) -> Outcome:
    """The signed counts under the parties' names. Codes keep their aliases: no value depends on them."""
    check_values_version(manifest)
    sizes = {name: ranges_of(ready).sizes for name, ready in readies.items()}
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


def _opened(result: ValuesResult, record: SignedResult, order: tuple[str, ...]) -> Outcome:
    shares = {
        name: open_share(key, sealed, SHARE_CONTEXT)
        for name, key, sealed in zip(order, record.share_keys, result.shares, strict=True)
    }
    task = open_share(record.task_key or b"", result.task, TASK_CONTEXT)
    return Outcome(public=result.public, task=task, shares=shares, order=order)
