"""What a manifest must fulfil: terms that make sense, time, version, pinned keys, accepted terms."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

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
from fedvalue.protocol.settings import MAX_Q

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from fedvalue.agreement.manifest import Manifest

PROTOCOLS = ("mirror", "paper", "single")
POLICIES = ("valuation", "counts")
METHODS = ("auto", "exact", "sampled")
ALIGNMENTS = ("equal", "intersect")
MIN_SAMPLES = 100
MIN_ROWS_PER_CODE = 5
MIN_CELL = 10


def check_time(manifest: Manifest, now: dt.datetime) -> None:
    """Raises VerificationError E_MANIFEST when the manifest is not yet or no longer valid."""
    # Clocks of participants may differ by minutes; only the expiry must be strict.
    if now >= manifest.expires:
        raise VerificationError(f"expired at {manifest.expires:%Y-%m-%d %H:%M} UTC", code="E_MANIFEST")


def check_version(manifest: Manifest, code_version: str) -> None:
    """Participants of one run use the same major and minor version.

    Raises:
        ConfigError: E_VERSION.
    """
    if manifest.code_version.split(".")[:2] != code_version.split(".")[:2]:
        raise ConfigError(
            f"made for version {manifest.code_version} of the software, this is {code_version}",
            code="E_VERSION",
        )


def check_pins(manifest: Manifest, cards: Mapping[str, Card]) -> None:
    """Every participant must be known here by a card that was exchanged out of band.

    Raises:
        VerificationError: E_IDENTITY, naming the participant.
    """
    for one in manifest.participants:
        card = cards.get(one.name)
        if card is None:
            raise VerificationError(f"no identity card of {one.name!r} is pinned here", code="E_IDENTITY")
        if (card.consortium, card.role, card.sign_key, card.spki) != (
            manifest.consortium, one.role, one.sign_key, one.spki,
        ):  # fmt: skip
            raise VerificationError(
                f"the manifest lists other keys for {one.name!r} than the card that is pinned here",
                code="E_IDENTITY",
            )


@dataclass(frozen=True, slots=True)
class Terms:
    """The weakest terms that a participant accepts, from its own configuration.

    A manifest below them is refused even when all others signed it.
    """

    protocols: tuple[str, ...] = ("mirror",)
    policies: tuple[str, ...] = ("valuation",)
    alignments: tuple[str, ...] = ("equal",)
    research: bool = False
    harden: bool = True
    exact: bool = True


def check_terms(manifest: Manifest, terms: Terms) -> None:
    """Raises VerificationError E_MANIFEST when the manifest is weaker than `terms`."""
    if manifest.protocol not in terms.protocols:
        raise VerificationError(
            f"protocol {manifest.protocol!r} is not accepted here ({', '.join(terms.protocols)} are)",
            code="E_MANIFEST",
        )
    if manifest.policy not in terms.policies:
        raise VerificationError(
            f"output policy {manifest.policy!r} is not accepted here ({', '.join(terms.policies)} are)",
            code="E_MANIFEST",
        )
    if manifest.align not in terms.alignments:
        raise VerificationError(
            f"align = {manifest.align!r} is not accepted here ({', '.join(terms.alignments)} are)",
            code="E_MANIFEST",
        )
    if manifest.epsilon is None and not terms.exact:
        raise VerificationError("values without noise (no epsilon) are not accepted here", code="E_MANIFEST")
    if manifest.research and not terms.research:
        raise VerificationError("research = true is not accepted here", code="E_MANIFEST")
    if manifest.protocol == "paper" and terms.harden and not manifest.harden:
        raise VerificationError(
            "the paper protocol without hardening is not accepted here", code="E_MANIFEST"
        )


def check_sense(m: Manifest) -> None:
    """Refuse terms that make no sense or are trivially unsafe, signed or not.

    Raises:
        ConfigError: E_MANIFEST, naming the term.
    """
    check_name("consortium", m.consortium)
    _need(
        isinstance(m.purpose, str) and 0 < len(m.purpose.strip()) <= 2000 and m.purpose.isprintable(),
        "purpose must be 1 to 2000 printable letters on one line",
    )
    _need(isinstance(m.nonce, bytes) and len(m.nonce) == 16, "nonce must have 16 bytes")
    _need(m.created < m.expires, "expires must lie after created")
    _choice("protocol", m.protocol, PROTOCOLS)
    _choice("policy", m.policy, POLICIES)
    _choice("method", m.method, METHODS)
    _choice("align", m.align, ALIGNMENTS)
    for key in ("harden", "research"):
        _need(isinstance(getattr(m, key), bool), f"{key} must be true or false")
    _need(
        isinstance(m.code_version, str) and m.code_version != "" and m.code_version.isprintable(),
        "code_version must be text",
    )
    # The other protocols give every party the counts; "values only" would be a false promise there.
    _need(m.protocol == "mirror" or m.policy == "counts", f"protocol {m.protocol!r} needs policy 'counts'")
    if m.epsilon is not None:
        try:
            parse_epsilon(m.epsilon)
        except InputError as error:
            raise ConfigError(str(error), code="E_MANIFEST") from None
        _need(
            m.protocol == "mirror" and m.policy == "valuation",
            "epsilon needs protocol 'mirror' with policy 'valuation'",
        )
    _range("n_samples", m.n_samples, 1, 2**40)
    _range("q", m.q, 1, MAX_Q)
    if not (isinstance(m.n_r, str) and re.fullmatch("random:[1-9][0-9]{0,8}", m.n_r)):
        _range("n_r", m.n_r, 0, 2**32)
    _range("bins", m.bins, 2, 2**16)
    _range("n_permutations", m.n_permutations, 1, 10**9)
    _range("seed", m.seed, 0, 2**53 - 1)
    _range("min_samples", m.min_samples, 1, 2**40)
    _range("min_rows_per_code", m.min_rows_per_code, 1, 2**40)
    _range("min_cell", m.min_cell, 1, 2**40)
    _range("max_bytes", m.max_bytes, 1, 2**44)
    _range("chunk_bytes", m.chunk_bytes, 1 << 12, 1 << 22)
    for item in fields(m.deadlines):
        _range(f"deadlines.{item.name}", getattr(m.deadlines, item.name), 1, 30 * 86400)
    if not m.research:
        _need(m.min_samples >= MIN_SAMPLES, f"min_samples below {MIN_SAMPLES} needs research = true")
        _need(
            m.min_rows_per_code >= MIN_ROWS_PER_CODE,
            f"min_rows_per_code below {MIN_ROWS_PER_CODE} needs research = true",
        )
        _need(m.min_cell >= MIN_CELL, f"min_cell below {MIN_CELL} needs research = true")
        _need(m.n_samples >= m.min_samples, f"n_samples = {m.n_samples} is below the gate of {m.min_samples}")
        _need(
            m.protocol != "single" and (m.protocol != "paper" or m.harden),
            "a protocol without a sound check of the server needs research = true",
        )
    _check_participants(m)


def _check_participants(m: Manifest) -> None:
    names = [one.name for one in m.participants]
    _need(len(names) == len(set(names)), "two participants have the same name")
    _need(len({one.sign_key for one in m.participants}) == len(names), "two participants share a signing key")
    _need(len({one.spki for one in m.participants}) == len(names), "two participants share a certificate")
    for role in ("task", *SERVER_ROLES):
        found = len(m.of_role(role))
        _need(found == 1, f"exactly one participant of role {role!r} is needed, got {found}")
    _need(len(m.data) >= 1, "at least one data party is needed")
    for one in m.participants:
        check_name("participant", one.name)
        _choice(f"role of {one.name}", one.role, ROLES)
        _need(len(one.sign_key) == 32, f"signing key of {one.name!r} must have 32 bytes")
        check_tls_certificate(one.certificate, m.consortium, one.role, one.name)
        _need(spki_sha256(one.certificate) == one.spki, f"certificate of {one.name!r} has another key")
        if one.role in SERVER_ROLES:
            host, _, port = one.endpoint.rpartition(":")
            _need(
                bool(host) and host.isprintable() and port.isdigit() and 0 < int(port) < 65536,
                f"endpoint of server {one.name!r} must be host:port, got {one.endpoint!r}",
            )
        else:
            _need(one.endpoint == "", f"party {one.name!r} must not have an endpoint")


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message, code="E_MANIFEST")


def _choice(what: str, value: object, allowed: tuple[str, ...]) -> None:
    _need(value in allowed, f"{what} must be one of {', '.join(allowed)}, got {value!r}")


def _range(what: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{what} must be an integer in {low} .. {high}, got {value!r}", code="E_MANIFEST")
