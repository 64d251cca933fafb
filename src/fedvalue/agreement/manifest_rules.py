"""The rules for a manifest: sensible terms, time, version, pinned keys, and a participant's own minimum.

Limits of the valuation itself are in `ValuationSettings`, which a manifest holds: settings that the
engine would refuse cannot be agreed on.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, get_args

import msgspec

from fedvalue._version import PROTOCOL_VERSION, VALUES_VERSION, __version__
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, InputError, VerificationError
from fedvalue.identity.cards import Card
from fedvalue.identity.tls_certificates import (
    ROLES,
    SERVER_ROLES,
    check_name,
    check_tls_certificate,
    spki_sha256,
)
from fedvalue.protocol.privacy import parse_epsilon
from fedvalue.protocol.release_grid import Grid, parse_grid
from fedvalue.protocol.settings import MAX_COALITION_PARTIES, MAX_Q
from fedvalue.valuation.settings import Columns, ValuationSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedvalue.agreement.manifest import Manifest

PROTOCOLS = ("mirror", "gram", "paper", "single")
POLICIES = ("valuation", "counts")
ALIGNMENTS = ("equal", "intersect")

MIN_SAMPLES = 100
MIN_ROWS_PER_CODE = 5
MIN_CELL = 10
GRID = "0.0001"
"""Released numbers are rounded to this many nats: a number from 0 to ln 2 then has 13 bits."""
SHARES = ("small", "full")

LIMITS: dict[str, tuple[int, int]] = {
    "n_samples": (1, 2**40),
    "q": (1, MAX_Q),
    "min_samples": (1, 2**40),
    "min_rows_per_code": (1, 2**40),
    "min_cell": (1, 2**40),
    "max_bytes": (1, 2**44),
    "chunk_bytes": (1 << 12, 1 << 22),
    "work_limit": (1, 2**52),
    "run": (1, 1000),  # each attempt is a row that servers keep for ever
}
"""Smallest and largest value of each whole number."""
MAX_N_R = 2**32
MAX_STAGE_SECONDS = 30 * 86400


def check_time(manifest: Manifest, now: dt.datetime) -> None:
    """Raises VerificationError E_MANIFEST when the manifest has expired."""
    # Clocks of participants may differ by minutes; only the expiry is strict.
    if now >= manifest.expires:
        raise VerificationError(f"expired at {manifest.expires:%Y-%m-%d %H:%M} UTC", code="E_MANIFEST")


class Versions(Document, frozen=True, kw_only=True):
    """Versions that the software of all participants must share (decision 0416).

    Args:
        protocol: Version of the messages.
        values: Version of the computation from tables to values.
        software: The release that drafted the terms. Other releases may take part if the first two agree.
    """

    protocol: int = PROTOCOL_VERSION
    values: int = VALUES_VERSION
    software: str = __version__

    def __str__(self) -> str:
        return f"protocol version {self.protocol} and values version {self.values}"


def check_version(manifest: Manifest) -> None:
    """Raises ConfigError E_VERSION when this software cannot take part in the run."""
    agreed, own = manifest.versions, Versions()
    if (agreed.protocol, agreed.values) != (own.protocol, own.values):
        raise ConfigError(
            f"the agreement needs {agreed}, as in FedValue {agreed.software}; this is FedValue "
            f"{own.software} with {own}. Every participant needs a release with the agreed versions",
            code="E_VERSION",
        )


def check_values_version(manifest: Manifest) -> None:
    """Raises ConfigError E_VERSION when this software computes other values than the run's software."""
    agreed, own = manifest.versions, Versions()
    if agreed.values != own.values:
        raise ConfigError(
            f"the values were computed with values version {agreed.values}, and FedValue {own.software} "
            f"computes version {own.values}; check them with FedValue {agreed.software}",
            code="E_VERSION",
        )


def check_form(schema: object, own: str) -> None:
    """Refuse a document that another release writes in another form.

    Args:
        schema: The document's own schema; one of another kind is left to the decoder.
        own: The schema that this software reads.

    Raises:
        ConfigError: E_VERSION.
    """
    kind = own.rpartition("/")[0]
    if isinstance(schema, str) and schema != own and schema.startswith(f"{kind}/"):
        raise ConfigError(
            f"the document has schema {schema}, and FedValue {__version__} reads {own}; every participant "
            "needs the release that wrote it",
            code="E_VERSION",
        )


def check_pins(manifest: Manifest, cards: Mapping[str, Card]) -> None:
    """Every participant must be known here by a card that was exchanged out of band.

    Raises:
        VerificationError: E_IDENTITY, naming the participant.
    """
    for participant in manifest.participants:
        name = participant.name
        pinned = [card for card in cards.values() if card.name == name]
        if not pinned:
            raise VerificationError(f"no identity card of {name!r} is pinned here", code="E_IDENTITY")
        listed = (manifest.consortium, participant.role, participant.sign_key, participant.spki)
        # During a rotation the old and the new card are pinned.
        if all((card.consortium, card.role, card.sign_key, card.spki) != listed for card in pinned):
            raise VerificationError(
                f"the manifest lists other keys for {name!r} than the card that is pinned here",
                code="E_IDENTITY",
            )


class Terms(Document, frozen=True, kw_only=True):
    """The weakest terms that a participant accepts: section [accept] of its configuration.

    A manifest below them is refused even when all others signed it.

    Args:
        protocols: Accepted protocols.
        policies: Accepted output policies.
        align: Accepted ways to align ids.
        columns: Accepted views of the parties' columns.
        research: The gates may be lifted.
        harden: The paper protocol must be hardened, coalition by coalition.
        exact: Values without noise are accepted.
        full_shares: Data parties may get more than their learnable value and the total.
    """

    protocols: tuple[str, ...] = ("mirror", "gram")
    policies: tuple[str, ...] = ("valuation",)
    align: tuple[str, ...] = ALIGNMENTS
    columns: tuple[str, ...] = get_args(Columns)
    research: bool = False
    harden: bool = True
    exact: bool = True
    full_shares: bool = False

    def __post_init__(self) -> None:
        known = {
            "protocols": PROTOCOLS, "policies": POLICIES, "align": ALIGNMENTS, "columns": get_args(Columns),
        }  # fmt: skip
        for key, values in known.items():
            accepted = getattr(self, key)
            if not accepted or not set(accepted) <= set(values):
                raise ValueError(f"{key} must be chosen from {', '.join(values)}, got {list(accepted)}")


def check_terms(manifest: Manifest, terms: Terms) -> None:
    """Raises VerificationError E_MANIFEST when the manifest is weaker than `terms`."""
    choices = {
        "protocol": (manifest.protocol, terms.protocols),
        "policy": (manifest.policy, terms.policies),
        "align": (manifest.align, terms.align),
        "columns": (manifest.settings.columns, terms.columns),
    }
    for term, (value, accepted) in choices.items():
        _accept(
            value in accepted,
            f"{term} {value!r} is not accepted here (accepted: {', '.join(accepted)})",
        )
    hardened = manifest.protocol == "paper" and terms.harden
    _accept(
        terms.exact or manifest.epsilon is not None, "values without noise (no epsilon) are not accepted here"
    )
    _accept(terms.full_shares or manifest.shares != "full", 'shares = "full" is not accepted here')
    _accept(terms.research or not manifest.research, "research = true is not accepted here")
    _accept(manifest.harden or not hardened, "the paper protocol without hardening is not accepted here")
    _accept(
        manifest.by_coalition or not hardened,
        "the paper protocol without the check coalition by coalition is not accepted here: one data party "
        "could take another's value",
    )


def _accept(holds: bool, message: str) -> None:
    if not holds:
        raise VerificationError(message, code="E_MANIFEST")


def check_sense(m: Manifest) -> None:
    """Refuse terms that make no sense or are trivially unsafe, signed or not.

    Raises:
        ConfigError: E_MANIFEST, naming the term.
    """
    check_name("consortium", m.consortium)
    _need(
        isinstance(m.purpose, str) and 0 < len(m.purpose.strip()) <= 2000 and m.purpose.isprintable(),
        "purpose must be 1 to 2000 printable characters on one line",
    )
    _need(isinstance(m.nonce, bytes) and len(m.nonce) == 16, "nonce must have 16 bytes")
    for name in ("created", "expires"):
        moment = getattr(m, name)
        _need(
            isinstance(moment, dt.datetime)
            and moment.utcoffset() == dt.timedelta(0)
            and not moment.microsecond,
            f"{name} must be a whole second in UTC",
        )
    _need(m.created < m.expires, "expires must be after created")
    _choice("protocol", m.protocol, PROTOCOLS)
    _choice("policy", m.policy, POLICIES)
    _choice("align", m.align, ALIGNMENTS)
    for key in ("harden", "by_coalition", "research", "exact_tables"):
        _need(isinstance(getattr(m, key), bool), f"{key} must be true or false")
    _need(
        0 < len(m.versions.software) <= 100 and m.versions.software.isprintable(),
        "versions.software must be 1 to 100 printable characters",
    )
    for name, (low, high) in LIMITS.items():
        _range(name, getattr(m, name), low, high)
    if not (isinstance(m.n_r, str) and re.fullmatch("random:[1-9][0-9]{0,8}", m.n_r)):
        _range("n_r", m.n_r, 0, MAX_N_R)
    for stage, seconds in msgspec.structs.asdict(m.deadlines).items():
        _range(f"deadlines.{stage}", seconds, 1, MAX_STAGE_SECONDS)
    _check_release(m)
    _check_settings(m)
    _check_paper(m)
    if not m.research:
        _check_gates(m)
    _check_participants(m)


def _check_release(m: Manifest) -> None:
    # The other protocols give every party the counts; "values only" would be a false promise there.
    hides = m.protocol == "mirror" or (m.protocol == "gram" and not m.exact_tables)
    exact = " with exact_tables" if m.exact_tables else ""
    _need(hides or m.policy == "counts", f"protocol {m.protocol!r}{exact} needs policy 'counts'")
    if m.protocol == "gram":
        _need(
            (m.epsilon is None) == m.exact_tables,
            "protocol 'gram' needs an epsilon, or exact_tables = true to release counts without noise",
        )
    else:
        _need(not m.exact_tables, "exact_tables is a term of protocol 'gram'")
    _choice("shares", m.shares, SHARES)
    try:
        Grid.of(m.grid)
        if m.epsilon is None:
            return
        parse_epsilon(m.epsilon)
    except InputError as error:
        raise ConfigError(str(error), code="E_MANIFEST") from None
    _need(
        m.protocol in ("mirror", "gram") and m.policy == "valuation",
        "epsilon needs protocol 'mirror' or 'gram' with policy 'valuation'",
    )


def _check_settings(m: Manifest) -> None:
    _need(isinstance(m.settings, ValuationSettings), "settings must be the settings of a valuation")
    # Both servers must reach the same numbers, whatever their speed.
    _need(m.settings.time_limit is None, "settings.time_limit must be null: servers differ in speed")
    _need(m.settings.precision is None, "settings.precision must be null: agree on n_permutations instead")
    test = m.settings.acceptance
    if test is not None:
        _need(
            m.epsilon is None and m.protocol != "gram",
            "settings.acceptance must be null: from pair tables, gains have no intervals to test",
        )
        _need(
            test.party is None or test.party in [party.name for party in m.data],
            f"settings.acceptance.party must be a data party, got {test.party!r}",
        )


def _check_paper(m: Manifest) -> None:
    if m.protocol == "paper" and m.harden and m.by_coalition:
        _need(
            len(m.data) <= MAX_COALITION_PARTIES,
            f"the check coalition by coalition is for at most {MAX_COALITION_PARTIES} data parties, got "
            f"{len(m.data)}: use protocol mirror, or agree on by_coalition = false, which every participant "
            "must accept (harden = false in its [accept])",
        )


def _check_gates(m: Manifest) -> None:
    gates = {"min_samples": MIN_SAMPLES, "min_rows_per_code": MIN_ROWS_PER_CODE, "min_cell": MIN_CELL}
    for name, least in gates.items():
        _need(getattr(m, name) >= least, f"{name} below {least} needs research = true")
    coarse = m.grid is not None and parse_grid(m.grid) <= parse_grid(GRID)
    _need(coarse, f'grid = {m.grid!r} is finer than "{GRID}" and needs research = true')
    _need(m.n_samples >= m.min_samples, f"n_samples = {m.n_samples} is below the gate of {m.min_samples}")
    _need(
        m.protocol != "single" and (m.protocol != "paper" or m.harden),
        "a protocol without a sound check of the server needs research = true",
    )


def _check_participants(m: Manifest) -> None:
    names = [participant.name for participant in m.participants]
    _need(len(names) == len(set(names)), "two participants have the same name")
    for key, what in (("sign_key", "signing key"), ("spki", "certificate")):
        different = {getattr(participant, key) for participant in m.participants}
        _need(len(different) == len(names), f"two participants share a {what}")
    for role in ("task", *SERVER_ROLES):
        number, wanted = len(m.of_role(role)), 0 if role == "assist" and m.protocol != "gram" else 1
        why = "" if wanted else f" under protocol {m.protocol!r}: the assisting server belongs to 'gram'"
        count = "exactly one" if wanted else "no"
        _need(number == wanted, f"{count} participant of role {role!r} is needed{why}, got {number}")
    _need(len(m.data) >= 1, "at least one data party is needed")
    for p in m.participants:
        check_name("participant", p.name)
        _choice(f"role of {p.name}", p.role, ROLES)
        _need(len(p.sign_key) == 32, f"signing key of {p.name!r} must have 32 bytes")
        check_tls_certificate(p.certificate, m.consortium, p.role, p.name)
        _need(spki_sha256(p.certificate) == p.spki, f"certificate of {p.name!r} has another key")
        if p.role in SERVER_ROLES:
            host, _, port = p.endpoint.rpartition(":")
            _need(
                bool(host) and host.isprintable() and port.isdigit() and 0 < int(port) < 65536,
                f"endpoint of server {p.name!r} must be host:port, got {p.endpoint!r}",
            )
        else:
            _need(p.endpoint == "", f"party {p.name!r} must not have an endpoint")


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message, code="E_MANIFEST")


def _choice(term: str, value: object, allowed: tuple[str, ...]) -> None:
    _need(value in allowed, f"{term} must be one of {', '.join(allowed)}, got {value!r}")


def _range(term: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{term} must be an integer from {low} to {high}, got {value!r}", code="E_MANIFEST")
