"""The valuation certificate: a result with everything that proves it, in one file, checked offline.

It holds the manifest with all signatures, every party's signed Ready with the commitment to its
input, both servers' signed results as they sent them, the keys that open those results, and every
data party's signed word which column of them is its own. So under `mirror` a third person can see
that both servers, independently, signed these values for this agreement, and that the names belong
to them; nothing of it rests on the task party's word. Under `paper` and `single` the servers sign
counts that are not in the file: there the values are the task party's word, and the check says so.
What no file can show: that a party's table was true, and that servers or parties did not work
together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue._version import __version__
from fedvalue.agreement.manifest import Manifest, SignedManifest
from fedvalue.agreement.run_settings import check_roster
from fedvalue.crypto import keys
from fedvalue.deployment.answers import task_valuation
from fedvalue.deployment.shell.endorsement import Endorsement, check_endorsements, needed
from fedvalue.deployment.shell.messages import Ready
from fedvalue.errors import ConfigError, FedValueError, VerificationError
from fedvalue.identity.cards import verify
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    TASK_CONTEXT,
    CountsResult,
    ValuesResult,
    decode_fields,
    decode_result,
)  # fmt: skip
from fedvalue.protocol.outcome import Outcome, same_numbers

if TYPE_CHECKING:
    from fedvalue.deployment.evidence import Evidence
    from fedvalue.identity.cards import Identity

SCHEMA = "fedvalue.certificate/1"
MAX_BYTES = 64 << 20
_PURPOSE = "certificate"


def make_certificate(
    identity: Identity,
    signed: SignedManifest,
    evidence: Evidence,
    result: dict[str, Any],
    order: tuple[str, ...],
) -> dict[str, Any]:
    """The certificate of a finished run, signed by the task party.

    Raises:
        VerificationError: A data party's endorsement is missing or says otherwise.
    """
    if needed(signed.manifest):
        # No release on results that could not be proved later.
        check_endorsements(signed.manifest, evidence.endorsements.values(), order, evidence.digests)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "software": __version__,
        "manifest": json.loads(signed.to_json()),
        "readies": [_ready_data(ready) for ready in evidence.roster],
        "servers": {
            server: {
                "result": [chunk.data.hex() for chunk in evidence.chunks[server]],
                "digest": seal.digest.hex(),
                "signature": seal.signature.hex(),
                "keys": _keys_data(evidence.share_keys.get(server)),
            }
            for server, seal in sorted(evidence.seals.items())
        },
        "order": list(order),
        "endorsements": [_endorsement_data(one) for one in evidence.endorsements.values()],
        "result": result,
    }
    return {**content, "signature": identity.sign(_PURPOSE, _digest(content)).hex()}


def read_certificate(path: Path) -> dict[str, Any]:
    """The certificate in a file; only its form is checked.

    Raises:
        ConfigError: E_CERTIFICATE: not a certificate.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="E_CERTIFICATE") from None
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{path} is too large for a certificate", code="E_CERTIFICATE")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is not JSON", code="E_CERTIFICATE") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ConfigError(f"{path} is not a certificate of schema {SCHEMA!r}", code="E_CERTIFICATE")
    return data


@dataclass(frozen=True, slots=True)
class Checked:
    """A certificate that passed.

    Args:
        manifest: The agreement in it.
        proved: One sentence per thing that was checked.
        unproved: What a reader might believe to be checked, and is not.
    """

    manifest: Manifest
    proved: tuple[str, ...]
    unproved: tuple[str, ...]


def check_certificate(data: Mapping[str, Any]) -> Checked:
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
        return _checked(data)
    except FedValueError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError(f"malformed certificate: {type(error).__name__}", code="E_CERTIFICATE") from None


def _checked(data: Mapping[str, Any]) -> Checked:
    signed = SignedManifest.from_json(json.dumps(data["manifest"]))
    # Validity is judged at the time of the agreement: certificates outlive manifests.
    manifest = signed.verify(now=signed.manifest.created, code_version=signed.manifest.code_version)
    said = [f"all {len(manifest.participants)} participants signed the manifest"]
    content = {key: value for key, value in data.items() if key != "signature"}
    verify(
        manifest.task.sign_key, _PURPOSE, _digest(content), bytes.fromhex(data["signature"]),
        who=manifest.task.name,
    )  # fmt: skip
    said.append(f"task party {manifest.task.name!r} signed the certificate")
    readies = {ready.party: ready for ready in map(_ready_from, data["readies"])}
    check_roster(manifest, readies)
    said.append(f"all {len(readies)} parties signed their input commitments")
    rates = {name: ready.rows / ready.brought for name, ready in readies.items()}
    shown_rates = data["result"].get("match_rate")
    if not same_numbers(shown_rates, rates if manifest.align == "intersect" else None):
        raise VerificationError("the match rates are not the signed ones", code="E_CERTIFICATE")
    if data["result"].get("run_id") != manifest.run_id.hex():
        raise VerificationError("the result belongs to another run", code="E_REPLAY")
    expected = [manifest.compute.name] + ([manifest.validate.name] if manifest.protocol != "single" else [])
    if set(data["servers"]) != set(expected):
        raise VerificationError("a server's result is missing, or one too many", code="E_CERTIFICATE")
    digests = {server: _check_seal(manifest, server, data["servers"][server]) for server in expected}
    unproved = []
    if needed(manifest):
        order = tuple(data["order"])
        check_endorsements(manifest, map(_endorsement_from, data["endorsements"]), order, digests)
        said.append("every data party signed which column of the results is its own")
        for server in expected:
            _check_values(manifest, server, readies, data)
            said.append(f"server {server!r} computed and signed these values")
    else:
        said += [f"server {server!r} signed the digest of its counts" for server in expected]
        unproved.append(
            f"the values are NOT verified by server signatures: protocol {manifest.protocol!r} puts no "
            "signed result into the file; the values are the task party's word"
        )
    values = [party["value"] for party in data["result"]["parties"]]
    if abs(sum(values) - data["result"]["total"]) > 1e-9 + 5 * _sampling_error(data["result"]):
        raise VerificationError("the values do not add up to the total", code="E_TOTAL")
    if manifest.epsilon is not None:
        said.append(f"all agreed on values with noise: {_noise(data['result']['privacy'])}")
        unproved.append("that the servers drew the noise honestly: nobody but they knows it")
    return Checked(manifest, (*said, "the values add up to the total"), tuple(unproved))


def _noise(shown: Mapping[str, Any]) -> str:
    """What stands in the result about the noise; it was compared with what the agreement says."""
    return (
        f"epsilon {shown['epsilon']:g}, delta {shown['delta']:g}, scale {shown['noise_scale']:.6g} nats; "
        f"adjacency: {shown['adjacency']}; observer: {shown['observer']}"
    )


def _check_seal(manifest: Manifest, server: str, shown: Mapping[str, Any]) -> bytes:
    """The digest that the server signed for this run."""
    digest, signature = bytes.fromhex(shown["digest"]), bytes.fromhex(shown["signature"])
    pin = manifest.participant(server).sign_key
    keys.check_signature(pin, signature, "result", manifest.run_id, server, digest)
    return digest


def _check_values(
    manifest: Manifest, server: str, readies: Mapping[str, Ready], data: Mapping[str, Any]
) -> None:
    """Whether the certificate's values are those in the result that the server signed."""
    shown, order = data["servers"][server], tuple(data["order"])
    chunks = [bytes.fromhex(chunk) for chunk in shown["result"]]
    if not chunks:
        raise VerificationError(f"the result of server {server!r} is not in the file", code="E_CERTIFICATE")
    whole = keys.digest(*(m.bulk_digest(k, len(chunks), part) for k, part in enumerate(chunks)))
    if whole != bytes.fromhex(shown["digest"]):
        raise VerificationError(f"server {server!r} signed another result", code="E_SIGNATURE")
    result = decode_result(b"".join(chunks))
    if isinstance(result, ValuesResult) != (manifest.policy == "valuation"):
        raise VerificationError(f"server {server!r} signed a result of another policy", code="E_CERTIFICATE")
    if isinstance(result, CountsResult):
        outcome = _counted(manifest, result, readies, order)
    else:
        outcome = _open(result, shown["keys"], order)
    opened = task_valuation(manifest, outcome).to_dict()
    stated = {key: value for key, value in data["result"].items() if key != "match_rate"}
    if not same_numbers(opened, stated):
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
    counts = replace(
        cells,
        parties=cells.parties[:, places].copy(),
        names=names,
        n_codes=tuple(sizes[name][0] for name in names),
    )
    return Outcome(counts=counts)


def _open(result: ValuesResult, shown: Mapping[str, Any], order: tuple[str, ...]) -> Outcome:
    shares = {
        name: decode_fields(keys.unseal(bytes.fromhex(key), sealed, SHARE_CONTEXT))
        for name, key, sealed in zip(order, shown["shares"], result.shares, strict=True)
    }
    task = decode_fields(keys.unseal(bytes.fromhex(shown["task"]), result.task, TASK_CONTEXT))
    return Outcome(public=result.public, task=task, shares=shares, order=order)


def _sampling_error(result: Mapping[str, Any]) -> float:
    """Sampled values add up exactly too, permutation by permutation; exact ones have no error at all."""
    return 0.0 if result.get("method") == "exact" else 1e-9


def _ready_data(ready: Ready) -> dict[str, Any]:
    return {
        "party": ready.party,
        "rows": ready.rows,
        "brought": ready.brought,
        "sizes": list(ready.sizes),
        "commitment": ready.commitment.hex(),
        "signature": ready.signature.hex(),
    }


def _ready_from(data: Mapping[str, Any]) -> Ready:
    return Ready(
        party=str(data["party"]),
        rows=int(data["rows"]),
        brought=int(data["brought"]),
        sizes=tuple(int(size) for size in data["sizes"]),
        commitment=bytes.fromhex(data["commitment"]),
        signature=bytes.fromhex(data["signature"]),
    )


def _endorsement_data(one: Endorsement) -> dict[str, Any]:
    return {
        "party": one.party,
        "place": one.place,
        "digests": {server: digest.hex() for server, digest in sorted(one.digests.items())},
        "signature": one.signature.hex(),
    }


def _endorsement_from(data: Mapping[str, Any]) -> Endorsement:
    return Endorsement(
        party=str(data["party"]),
        place=int(data["place"]),
        digests={str(server): bytes.fromhex(digest) for server, digest in data["digests"].items()},
        signature=bytes.fromhex(data["signature"]),
    )


def _keys_data(share_keys: m.ShareKeys | None) -> dict[str, Any]:
    if share_keys is None:
        return {}
    return {"task": share_keys.task.hex(), "shares": [key.hex() for key in share_keys.shares]}


def _digest(content: Mapping[str, Any]) -> bytes:
    """SHA-256 over sorted JSON; Python writes a float as its shortest exact form, so does every reader."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).digest()
