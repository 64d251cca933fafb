"""Manifests on disk: drafted from the participants' cards, read and written."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fedvalue.agreement.manifest import MAX_BYTES, Manifest, Participant, SignedManifest
from fedvalue.errors import ConfigError
from fedvalue.identity.tls_certificates import MAX_DAYS, ROLES, check_tls_certificate
from fedvalue.storage.durable_files import PUBLIC, write_durably
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from pathlib import Path

    from fedvalue.identity.cards import Card


def draft(
    cards: Iterable[Card],
    endpoints: Mapping[str, str],
    *,
    days: int,
    settings: ValuationSettings | None = None,
    **terms: Any,
) -> SignedManifest:
    """Draft a new agreement of these participants, unsigned and valid for `days`.

    `endpoints` holds host:port by server role; `terms` are further terms of the manifest.

    Raises:
        ConfigError: The cards do not make a consortium, one has expired, or a term makes no sense.
    """
    participants = sorted(cards, key=lambda card: (ROLES.index(card.role), card.name))
    consortia = {card.consortium for card in participants}
    if len(consortia) != 1:
        raise ConfigError(
            f"all cards must belong to one consortium, got {sorted(consortia) or 'none'}", code="E_MANIFEST"
        )
    if not 1 <= days <= MAX_DAYS:
        raise ConfigError(f"days must be from 1 to {MAX_DAYS}, got {days}", code="E_MANIFEST")
    if len(set(endpoints.values())) < len(endpoints):
        raise ConfigError(
            f"the servers need different addresses, got {', '.join(endpoints.values())}", code="E_MANIFEST"
        )
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    for card in participants:
        check_tls_certificate(card.certificate, card.consortium, card.role, card.name, now=now)
    manifest = Manifest(
        consortium=consortia.pop(),
        nonce=secrets.token_bytes(16),
        created=now,
        expires=now + dt.timedelta(days=days),
        participants=tuple(
            Participant.from_card(card, endpoints.get(card.role, "")) for card in participants
        ),
        settings=settings or ValuationSettings(),
        **terms,
    )
    return SignedManifest(manifest)


def read_manifest(path: Path) -> SignedManifest:
    """The manifest in a file; only its form is checked.

    Raises:
        ConfigError: E_MANIFEST.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="E_MANIFEST") from None
    try:
        return SignedManifest.from_json(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", code=error.code) from None


def write_manifest(path: Path, signed: SignedManifest) -> None:
    """Write a manifest; it is not secret."""
    write_durably(path, signed.to_json().encode(), mode=PUBLIC)
