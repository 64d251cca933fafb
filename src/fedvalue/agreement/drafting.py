"""Drafting a manifest from the participants' cards."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedvalue._version import __version__
from fedvalue.agreement.manifest import Manifest, Participant, SignedManifest
from fedvalue.errors import ConfigError
from fedvalue.identity.identity_files import read_cards
from fedvalue.identity.tls_certificates import ROLES

if TYPE_CHECKING:
    from pathlib import Path

MAX_DAYS = 825
"""No certificate is valid for longer."""


def draft(cards: Path, endpoints: Mapping[str, str], *, days: int, **terms: Any) -> SignedManifest:
    """A new agreement that nobody has signed.

    Args:
        cards: Folder with the cards of all participants.
        endpoints: host:port by server role.
        days: Validity.
        **terms: Further terms of the manifest.

    Raises:
        ConfigError: The cards do not make a consortium, or a term makes no sense.
    """
    found = sorted(read_cards(cards).values(), key=lambda card: (ROLES.index(card.role), card.name))
    consortia = {card.consortium for card in found}
    if len(consortia) != 1:
        raise ConfigError(
            f"all cards must belong to one consortium, got {sorted(consortia) or 'none'}", code="E_MANIFEST"
        )
    if not 1 <= days <= MAX_DAYS:
        raise ConfigError(f"days must lie in 1 .. {MAX_DAYS}, got {days}", code="E_MANIFEST")
    if endpoints.get("compute") == endpoints.get("validate"):
        raise ConfigError(
            f"the two servers need addresses of their own, got {endpoints.get('compute')!r} for both",
            code="E_MANIFEST",
        )
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    manifest = Manifest(
        consortium=consortia.pop(),
        nonce=secrets.token_bytes(16),
        created=now,
        expires=now + dt.timedelta(days=days),
        participants=tuple(Participant.from_card(card, endpoints.get(card.role, "")) for card in found),
        code_version=__version__,
        **terms,
    )
    return SignedManifest(manifest)
