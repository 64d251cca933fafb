"""The manifest: the agreement that authorises one result.

- Every parameter that a participant relies on is a term here, every participant signs the same bytes
  (`documents.canonical`), and the id of the first run is their hash.
- A run that failed may be repeated under the same signatures with the next number, which gives it an id of
  its own. A run that ended well is never repeated (decision 0411).
- A server accepts a run only with all signatures, before the manifest expires, and only once.
- A manifest that exists makes sense: `manifest_rules.check_sense` runs whenever one is built.

This module reads neither clock nor files.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from fedvalue import documents
from fedvalue.agreement import manifest_rules as rules
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, VerificationError
from fedvalue.identity.cards import Card, Identity, verify
from fedvalue.identity.tls_certificates import SERVER_ROLES
from fedvalue.valuation.settings import WORK_LIMIT, ValuationSettings

SCHEMA = "fedvalue.manifest/2"
MAX_BYTES = 1 << 20
"""A manifest of 1,000 participants has about 1 MB; anything larger is not a manifest."""

_SIGN = "manifest"


class Participant(Document, frozen=True, kw_only=True):
    """A participant: name, role and pinned keys.

    Args:
        name: Unique in the manifest.
        role: task, data, compute, validate or assist.
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
        return cls(
            name=card.name,
            role=card.role,
            sign_key=card.sign_key,
            spki=card.spki,
            certificate=card.certificate,
            endpoint=endpoint,
        )


class Deadlines(Document, frozen=True, kw_only=True):
    """Seconds that each stage may take before the run ends with E_DEADLINE."""

    keying: int = 3600
    upload: int = 3600
    compute: int = 3600


class Manifest(Document, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """The terms that all participants agree on. Field names are JSON keys; the file spells out all of them.

    Args:
        consortium: The group whose certificates count.
        purpose: Why the values are computed, in words.
        nonce: 16 random bytes, so that two runs of one agreement differ.
        created: Start of validity.
        expires: After this moment nothing new is accepted.
        participants: One task party, the data parties, a computation and a validation server; under gram
            also an assisting server.
        n_samples: Rows of every party (align "equal"), or an upper bound of them ("intersect").
        protocol: mirror, gram, paper or single.
        policy: "valuation": parties see values, never exact counts (mirror, and gram with an epsilon).
            "counts": the task party sees them; under every other protocol than mirror all parties do.
        q: Encryption ids per sample (paper).
        n_r: Adversarial samples per cell (paper): a number, which the servers then know, or "random:K":
            1 to K per cell, drawn from the parties' secret.
        harden: Checks H1, H2 and H3 of the paper protocol.
        by_coalition: Ask every coalition's cells, not the grand coalition's alone, and compare them (paper,
            hardened). It costs up to 2^parties times the tokens.
        settings: How values are computed and columns coded.
        research: True lifts the gates on sample size and number of codes.
        min_samples: Gate: smallest number of samples.
        min_rows_per_code: Gate: every column has at most n / this many distinct codes. With columns "joint"
            a party's columns count as one.
        min_cell: Gate: smallest number of samples of a label and of a code of each column of X_t; with
            columns "joint", of a code of X_t.
        align: "equal": all parties prove that they hold the same ids. "intersect": reduce first.
        max_bytes: Largest upload of one party to one server.
        chunk_bytes: Size of one chunk; a server holds about four of them per party while they arrive.
        deadlines: Seconds per stage.
        work_limit: Most samples times coalitions for which method "auto" computes exact values.
        versions: Versions that the software of all participants must share.
        epsilon: Noise on the tables behind the values (mirror and gram, policy valuation): a decimal number
            as text, like "0.5". None adds none.
        exact_tables: gram without noise, policy counts: every party gets the exact counts of all pairs of
            codes.
        grid: Step in nats of the numbers that are released without noise (mirror, policy valuation), like
            "0.0001". None, or a finer grid than the default, needs research = true.
        shares: A data party's result (mirror, policy valuation). "small": its learnable value, the total and
            their errors. "full": every number about itself, and the total of Shapley-CMI.
        run: Number of the run under these terms, from 1. Not signed: the terms are the same.

    Raises:
        ConfigError: E_MANIFEST: a term makes no sense.
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
    by_coalition: bool = True
    settings: ValuationSettings = msgspec.field(default_factory=ValuationSettings)
    research: bool = False
    min_samples: int = rules.MIN_SAMPLES
    min_rows_per_code: int = rules.MIN_ROWS_PER_CODE
    min_cell: int = rules.MIN_CELL
    align: str = "equal"
    max_bytes: int = 1 << 34
    chunk_bytes: int = 7 << 18
    deadlines: Deadlines = msgspec.field(default_factory=Deadlines)
    work_limit: int = WORK_LIMIT
    versions: rules.Versions = msgspec.field(default_factory=rules.Versions)
    epsilon: str | None = None
    exact_tables: bool = False
    grid: str | None = rules.GRID
    shares: str = "small"
    run: int = 1

    def __post_init__(self) -> None:
        rules.check_sense(self)

    def participant(self, name: str) -> Participant:
        """The participant of that name.

        Raises:
            ConfigError: Nobody of that name takes part.
        """
        for participant in self.participants:
            if participant.name == name:
                return participant
        raise ConfigError(f"{name!r} is not a participant of this manifest", code="E_MANIFEST")

    def of_role(self, role: str) -> tuple[Participant, ...]:
        """All participants of one role, in the manifest's order."""
        return tuple(participant for participant in self.participants if participant.role == role)

    @property
    def compute(self) -> Participant:
        """The computation server."""
        return self.of_role("compute")[0]

    @property
    def validate(self) -> Participant:
        """The validation server."""
        return self.of_role("validate")[0]

    @property
    def servers(self) -> tuple[Participant, ...]:
        """The servers that take part: under `single` the validation server does not."""
        roles = SERVER_ROLES[:1] if self.protocol == "single" else SERVER_ROLES
        return tuple(server for role in roles for server in self.of_role(role))

    @property
    def task(self) -> Participant:
        """The task party."""
        return self.of_role("task")[0]

    @property
    def data(self) -> tuple[Participant, ...]:
        """The data parties."""
        return self.of_role("data")

    def card_of(self, participant: Participant) -> Card:
        """The identity card of a participant, for its fingerprint."""
        return Card(
            consortium=self.consortium,
            role=participant.role,
            name=participant.name,
            sign_key=participant.sign_key,
            certificate=participant.certificate,
        )

    def canonical(self) -> bytes:
        """The bytes that everybody signs: all terms, without the number of the run."""
        return _signed_bytes(msgspec.to_builtins(self))

    @property
    def agreement_id(self) -> bytes:
        """SHA-256 of the canonical bytes: what all runs under these terms share."""
        return hashlib.sha256(self.canonical()).digest()

    @property
    def run_id(self) -> bytes:
        """The agreement's id for its first run, and a hash of it with the number for a later one."""
        return run_id_of(self.agreement_id, self.run)

    def without(self, name: str, *, nonce: bytes, created: dt.datetime) -> Manifest:
        """The same agreement without one data party: a new run with a new id, which needs new signatures.

        Raises:
            ConfigError: Not a data party, or the last one.
        """
        if self.participant(name).role != "data":
            raise ConfigError(f"{name!r} is not a data party and cannot be left out", code="E_MANIFEST")
        return replace(
            self,
            participants=tuple(other for other in self.participants if other.name != name),
            nonce=nonce,
            created=created,
            expires=created + (self.expires - self.created),
            run=1,
        )


class Comparison(Document, frozen=True, kw_only=True):
    """A participant's statement about the words of the agreement: compared over the phone, or skipped."""

    compared: bool
    signature: bytes


class SignedManifest(Document, frozen=True):
    """A manifest and the signatures on it so far, by participant.

    Args:
        manifest: The agreement.
        signatures: On its bytes.
        words: Statements about comparing the words; empty where cards were exchanged by hand.
    """

    manifest: Manifest
    signatures: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    words: Mapping[str, Comparison] = msgspec.field(default_factory=dict)

    @property
    def run_id(self) -> bytes:
        """The id of the run that this manifest authorises."""
        return self.manifest.run_id

    def signed_by(self, identity: Identity) -> SignedManifest:
        """With one more signature.

        Raises:
            ConfigError: The signer is not the participant that the manifest names.
        """
        card = identity.card
        listed = self.manifest.participant(card.name)
        if (listed.role, listed.sign_key, listed.spki) != (card.role, card.sign_key, card.spki):
            raise ConfigError(f"the manifest lists other keys for {card.name!r}", code="E_MANIFEST")
        return self._with({card.name: identity.sign(_SIGN, self.manifest.canonical())})

    def compared_by(self, identity: Identity, *, compared: bool) -> SignedManifest:
        """With a participant's signed statement that it compared the words, or skipped the comparison."""
        signature = identity.sign(_words_purpose(compared), self.manifest.canonical())
        return self._with({}, {identity.card.name: Comparison(compared=compared, signature=signature)})

    def repeated(self, run: int) -> SignedManifest:
        """The same agreement for its run number `run`."""
        return replace(self, manifest=replace(self.manifest, run=run))

    def merged(self, other: SignedManifest) -> SignedManifest:
        """With the signatures of another copy.

        Raises:
            ConfigError: E_MANIFEST: it is not the same agreement.
        """
        if self.manifest.agreement_id != other.manifest.agreement_id:
            raise ConfigError("the two files hold different agreements", code="E_MANIFEST")
        return self._with(other.signatures, other.words)

    def _with(
        self, signatures: Mapping[str, bytes], words: Mapping[str, Comparison] | None = None
    ) -> SignedManifest:
        return SignedManifest(
            manifest=self.manifest,
            signatures=dict(sorted({**self.signatures, **signatures}.items())),
            words=dict(sorted({**self.words, **(words or {})}.items())),
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Participants who have not signed."""
        return tuple(p.name for p in self.manifest.participants if p.name not in self.signatures)

    def verify(self, *, now: dt.datetime) -> Manifest:
        """Check that this manifest authorises a run here and now.

        1. Every participant signed it (`verify_signatures`).
        2. It is valid now.
        3. This software has the versions that it needs.

        The caller still has to compare the listed keys with its own pins and the terms with what
        it accepts (`manifest_rules.check_pins`, `check_terms`).

        Raises:
            VerificationError: E_MANIFEST: unsigned, altered or expired.
            ConfigError: E_VERSION: it needs other software.
        """
        manifest = self.verify_signatures()
        rules.check_time(manifest, now)
        rules.check_version(manifest)
        return manifest

    def verify_signatures(self) -> Manifest:
        """Check that every participant signed these bytes, and its statement about the words.

        Raises:
            VerificationError: E_MANIFEST: unsigned or altered.
        """
        manifest = self.manifest
        if self.missing:
            raise VerificationError(f"not signed by {', '.join(self.missing)}", code="E_MANIFEST")
        content = manifest.canonical()
        for participant in manifest.participants:
            name, key = participant.name, participant.sign_key
            try:
                verify(key, _SIGN, content, self.signatures[name], who=name)
                if words := self.words.get(name):
                    verify(key, _words_purpose(words.compared), content, words.signature, who=name)
            except VerificationError as error:
                raise VerificationError(str(error), code="E_MANIFEST") from None
        if unknown := self.words.keys() - self.signatures.keys():
            raise VerificationError(f"words of {min(unknown)!r}, who did not sign", code="E_MANIFEST")
        return manifest

    def to_json(self) -> str:
        """The file that travels: the manifest and the signatures, readable."""
        return documents.encode(self).decode()

    @classmethod
    def from_json(cls, content: str | bytes) -> SignedManifest:
        """Read the file that travels. Only its form is verified.

        Raises:
            ConfigError: E_MANIFEST: not a manifest, or a term that makes no sense.
                E_VERSION: another release wrote it in another form.
        """
        if len(content) > MAX_BYTES:
            raise ConfigError(
                f"a manifest has at most {MAX_BYTES} bytes, got {len(content)}", code="E_MANIFEST"
            )
        try:
            return cls.from_data(documents.parse(content, error=ConfigError))
        except ConfigError as error:
            if error.code == "E_VERSION":
                raise
            raise ConfigError(f"not a manifest: {error}", code="E_MANIFEST") from None

    @classmethod
    def from_data(cls, data: Any) -> SignedManifest:
        """The manifest in parsed JSON, for example as part of a certificate.

        Raises:
            ConfigError: Not a manifest, or a term that makes no sense.
        """
        if isinstance(data, dict) and isinstance(data.get("manifest"), dict):
            rules.check_form(data["manifest"].get("schema"), SCHEMA)
        signed = documents.convert(cls, data, error=ConfigError)
        # There is one spelling: a term left to its default, or another base64 of a key, is not the agreement.
        if "run" not in data["manifest"] or _signed_bytes(data["manifest"]) != signed.manifest.canonical():
            raise ConfigError("a term is missing or not in its canonical spelling", code="E_MANIFEST")
        return signed


def run_id_of(agreement_id: bytes, number: int) -> bytes:
    """The id of run `number` under an agreement."""
    if number == 1:
        return agreement_id
    return hashlib.sha256(b"fedvalue/1/run\x00" + agreement_id + b"%d" % number).digest()


def _signed_bytes(manifest: Mapping[str, Any]) -> bytes:
    return documents.canonical({key: value for key, value in manifest.items() if key != "run"})


def _words_purpose(compared: bool) -> str:
    return "words compared" if compared else "words skipped"
