"""The manifest: the agreement that authorises exactly one run.

Every parameter that a participant relies on is bound here, every participant signs the same
bytes, and the run id is their hash. A server accepts a run only with all signatures, before its
expiry, and only once. No clock and no file is read here: the caller passes the time.

Canonical form is RFC 8785 restricted to text, integers, true/false, null, lists and objects with
ASCII keys; numbers with a fraction do not occur, so there is one spelling of everything.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from fedvalue.agreement import manifest_rules as rules
from fedvalue.crypto.canonical import canonical_json, no_duplicates
from fedvalue.errors import ConfigError, FedValueError, VerificationError
from fedvalue.identity.cards import Card, Identity, verify

SCHEMA = "fedvalue.manifest/1"
MAX_BYTES = 1 << 20
"""A manifest of 1,000 participants has about 1 MB; whatever is larger is not one."""

_SIGN = "manifest"


@dataclass(frozen=True, slots=True)
class Participant:
    """One line of the list of participants: name, role and the pinned keys.

    Args:
        name: Unique in the manifest.
        role: task, data, compute or validate.
        sign_key: Ed25519 public key.
        spki: SHA-256 of the TLS certificate's public key.
        certificate: TLS certificate, DER.
        endpoint: host:port where a server answers; empty for parties, which only call.
    """

    name: str
    role: str
    sign_key: bytes
    spki: bytes
    certificate: bytes
    endpoint: str = ""

    @classmethod
    def from_card(cls, card: Card, endpoint: str = "") -> Participant:
        """The participant of an exchanged card."""
        return cls(card.name, card.role, card.sign_key, card.spki, card.certificate, endpoint)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that each stage may take before the run ends with E_DEADLINE."""

    keying: int = 3600
    upload: int = 3600
    compute: int = 3600


@dataclass(frozen=True, slots=True)
class Manifest:
    """What all participants agree on. Field names are the JSON keys.

    Args:
        consortium: The group whose certificates count.
        purpose: Why the values are computed, in words.
        nonce: 16 random bytes, so that two runs of one agreement differ.
        created: Start of validity.
        expires: After this moment nothing new is accepted.
        participants: One task party, the data parties, one server of each kind.
        n_samples: Rows of every party (align "equal"), or an upper bound of them ("intersect").
        protocol: mirror, paper or single.
        policy: "valuation": parties see values, never counts (mirror only). "counts": the task party
            sees them; under paper and single every party does.
        q: Encryption ids per sample (paper).
        n_r: Adversarial samples per cell (paper): a number, which the servers then know, or "random:K":
            1 to K per cell, drawn from the parties' secret.
        harden: Checks H1, H2 and H3 of the paper protocol.
        bins: Bins of a numeric feature.
        method: auto, exact or sampled.
        n_permutations: Sampled permutations.
        seed: Public seed of the sampling.
        research: True lifts the gates on sample size and number of codes.
        min_samples: Gate: at least so many samples.
        min_rows_per_code: Gate: every party has at most n / this many distinct codes.
        min_cell: Gate: every label and every code of X_t has at least so many samples.
        align: "equal": all parties prove that they hold the same ids. "intersect": reduce first.
        max_bytes: Largest upload of one party to one server.
        chunk_bytes: Size of one chunk; a server holds about four of them per party while they arrive.
        deadlines: Seconds per stage.
        code_version: Version of the software that all participants run.
        epsilon: Noise on the values (mirror, policy valuation): a decimal number as text, like "0.5". None,
            and no key in the file: exact values.
    """

    consortium: str
    purpose: str
    nonce: bytes
    created: dt.datetime
    expires: dt.datetime
    participants: tuple[Participant, ...]
    n_samples: int
    protocol: str = "mirror"
    policy: str = "valuation"
    q: int = 3
    n_r: int | str = 1
    harden: bool = True
    bins: int = 5
    method: str = "auto"
    n_permutations: int = 5000
    seed: int = 0
    research: bool = False
    min_samples: int = rules.MIN_SAMPLES
    min_rows_per_code: int = rules.MIN_ROWS_PER_CODE
    min_cell: int = rules.MIN_CELL
    align: str = "equal"
    max_bytes: int = 1 << 34
    chunk_bytes: int = 7 << 18
    deadlines: Deadlines = field(default_factory=Deadlines)
    code_version: str = ""
    epsilon: str | None = None

    def __post_init__(self) -> None:
        rules.check_sense(self)

    def participant(self, name: str) -> Participant:
        """The participant of that name.

        Raises:
            ConfigError: Nobody of that name takes part.
        """
        for one in self.participants:
            if one.name == name:
                return one
        raise ConfigError(f"{name!r} is not a participant of this manifest", code="E_MANIFEST")

    def of_role(self, role: str) -> tuple[Participant, ...]:
        """All participants of one role, in the manifest's order."""
        return tuple(one for one in self.participants if one.role == role)

    @property
    def compute(self) -> Participant:
        """The computation server."""
        return self.of_role("compute")[0]

    @property
    def validate(self) -> Participant:
        """The validation server."""
        return self.of_role("validate")[0]

    @property
    def task(self) -> Participant:
        """The task party."""
        return self.of_role("task")[0]

    @property
    def data(self) -> tuple[Participant, ...]:
        """The data parties."""
        return self.of_role("data")

    def canonical(self) -> bytes:
        """The bytes that everybody signs."""
        return canonical_json(_to_data(self))

    @property
    def run_id(self) -> bytes:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical()).digest()

    def without(self, name: str, *, nonce: bytes, created: dt.datetime) -> Manifest:
        """The same agreement without one data party: a new run with a new id, to be signed anew.

        Raises:
            ConfigError: Not a data party, or the last one.
        """
        if self.participant(name).role != "data":
            raise ConfigError(f"{name!r} is not a data party and cannot be left out", code="E_MANIFEST")
        rest = tuple(one for one in self.participants if one.name != name)
        return replace(
            self,
            participants=rest,
            nonce=nonce,
            created=created,
            expires=created + (self.expires - self.created),
        )


@dataclass(frozen=True, slots=True)
class SignedManifest:
    """A manifest and the signatures on it so far, by participant."""

    manifest: Manifest
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def run_id(self) -> bytes:
        """The id of the run that this manifest authorises."""
        return self.manifest.run_id

    def signed_by(self, identity: Identity) -> SignedManifest:
        """With one more signature.

        Raises:
            ConfigError: The signer is not the participant that the manifest names.
        """
        own = self.manifest.participant(identity.card.name)
        if (own.role, own.sign_key, own.spki) != (
            identity.card.role, identity.card.sign_key, identity.card.spki,
        ):  # fmt: skip
            raise ConfigError(f"the manifest lists other keys for {own.name!r}", code="E_MANIFEST")
        signature = identity.sign(_SIGN, self.manifest.canonical())
        return SignedManifest(self.manifest, {**self.signatures, own.name: signature})

    @property
    def missing(self) -> tuple[str, ...]:
        """Participants who have not signed."""
        return tuple(p.name for p in self.manifest.participants if p.name not in self.signatures)

    def verify(self, *, now: dt.datetime, code_version: str) -> Manifest:
        """Whether this manifest authorises a run here and now.

        1. Every participant signed these bytes with the key that is listed.
        2. It is valid now.
        3. It was made for this version of the software.

        The caller still has to compare the listed keys with its own pins and the terms with what
        it accepts (`manifest_rules.check_pins`, `check_terms`).

        Raises:
            VerificationError: E_MANIFEST: unsigned, altered or expired.
            ConfigError: E_VERSION: made for another version.
        """
        manifest = self.manifest
        if self.missing:
            raise VerificationError(f"not signed by {', '.join(self.missing)}", code="E_MANIFEST")
        content = manifest.canonical()
        for one in manifest.participants:
            try:
                verify(one.sign_key, _SIGN, content, self.signatures[one.name], who=one.name)
            except VerificationError as error:
                raise VerificationError(str(error), code="E_MANIFEST") from None
        rules.check_time(manifest, now)
        rules.check_version(manifest, code_version)
        return manifest

    def to_json(self) -> str:
        """The file that travels: the manifest and the signatures, readable."""
        data = {
            "manifest": _to_data(self.manifest),
            "signatures": {name: s.hex() for name, s in sorted(self.signatures.items())},
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> SignedManifest:
        """Read the file that travels. Nothing is verified but the form.

        Raises:
            ConfigError: E_MANIFEST: not a manifest, or a term that makes no sense.
        """
        if len(text) > MAX_BYTES:
            raise ConfigError(f"a manifest has at most {MAX_BYTES} bytes, got {len(text)}", code="E_MANIFEST")
        try:
            data = json.loads(text, object_pairs_hook=no_duplicates)
            manifest = _from_data(data["manifest"])
            signatures = {str(k): bytes.fromhex(v) for k, v in data["signatures"].items()}
            # One spelling: hex in another case, or a term left to its default, is not the agreement.
            if canonical_json(data["manifest"]) != manifest.canonical():
                raise ConfigError("a term is not in its canonical spelling", code="E_MANIFEST")
        except FedValueError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise ConfigError(f"not a manifest: {what}", code="E_MANIFEST") from None
        if set(data) != {"manifest", "signatures"}:
            raise ConfigError("a manifest file holds the manifest and signatures only", code="E_MANIFEST")
        return cls(manifest, signatures)


_TIME = "%Y-%m-%dT%H:%M:%SZ"


def _to_data(manifest: Manifest) -> dict[str, Any]:
    data: dict[str, Any] = {"schema": SCHEMA}
    for item in fields(manifest):
        data[item.name] = getattr(manifest, item.name)
    if manifest.epsilon is None:
        del data["epsilon"]  # an agreement on exact values is spelled as before there was noise
    data["nonce"] = manifest.nonce.hex()
    data["created"] = manifest.created.strftime(_TIME)
    data["expires"] = manifest.expires.strftime(_TIME)
    data["deadlines"] = {item.name: getattr(manifest.deadlines, item.name) for item in fields(Deadlines)}
    data["participants"] = [
        {
            "name": one.name,
            "role": one.role,
            "sign_key": one.sign_key.hex(),
            "spki_sha256": one.spki.hex(),
            "certificate": one.certificate.hex(),
            "endpoint": one.endpoint,
        }
        for one in manifest.participants
    ]
    return data


def _from_data(data: Mapping[str, Any]) -> Manifest:
    if data.get("schema") != SCHEMA:
        raise ConfigError(f"expected schema {SCHEMA!r}, got {data.get('schema')!r}", code="E_MANIFEST")
    expected = {item.name for item in fields(Manifest)} | {"schema"}
    if set(data) | {"epsilon"} != expected:
        odd = sorted((set(data) | {"epsilon"}) ^ expected)
        raise ConfigError(f"missing or unknown terms: {', '.join(odd)}", code="E_MANIFEST")
    plain = {key: item for key, item in data.items() if key != "schema"}
    plain["nonce"] = bytes.fromhex(data["nonce"])
    for key in ("created", "expires"):
        plain[key] = dt.datetime.strptime(data[key], _TIME).replace(tzinfo=dt.UTC)
    plain["deadlines"] = Deadlines(**data["deadlines"])
    plain["participants"] = tuple(
        Participant(
            name=one["name"],
            role=one["role"],
            sign_key=bytes.fromhex(one["sign_key"]),
            spki=bytes.fromhex(one["spki_sha256"]),
            certificate=bytes.fromhex(one["certificate"]),
            endpoint=one["endpoint"],
        )
        for one in data["participants"]
    )
    return Manifest(**plain)
