"""A small consortium for tests: identities, cards and a manifest that everybody signed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import cache
from typing import Any

from fedvalue.agreement.manifest import Manifest, Participant, SignedManifest
from fedvalue.identity.cards import Identity, create_identity
from fedvalue.identity.tls_certificates import SERVER_ROLES
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.valuation.settings import ValuationSettings

NOW = dt.datetime(2030, 1, 1, 12, 0, 0, tzinfo=dt.UTC)
ROLES = {"compute": "compute", "validate": "validate", "bank": "task", "telco": "data", "shop": "data"}


@cache
def identity(name: str, role: str | None = None, consortium: str = "alpha") -> Identity:
    return create_identity(consortium, role or ROLES[name], name, now=NOW)


def member(name: str) -> Identity:
    """A participant's identity; the assisting server, which only `gram` has, is not in `ROLES`."""
    return identity(name) if name in ROLES else identity(name, name)


def identities() -> dict[str, Identity]:
    return {name: identity(name) for name in ROLES}


def with_settings(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Terms of a manifest, with those of the valuation (`seed=7`, `bins=3`) put into its settings."""
    rest = dict(terms)
    coding = {key: rest.pop(key) for key in CodingSettings.__struct_fields__ if key in rest}
    own = {key: rest.pop(key) for key in ValuationSettings.__struct_fields__ if key in rest}
    if coding or own:
        rest["settings"] = ValuationSettings(**{"coalitions": False} | own, coding=CodingSettings(**coding))
    return rest


def manifest(**terms: Any) -> Manifest:
    members = identities() | (
        {"assist": identity("assist", "assist")} if terms.get("protocol") == "gram" else {}
    )
    participants = tuple(
        Participant.from_card(one.card, "127.0.0.1:7001" if one.card.role in SERVER_ROLES else "")
        for one in members.values()
    )
    defaults: dict[str, Any] = {
        "consortium": "alpha",
        "purpose": "What is the data of telco and shop worth to the bank's risk model?",
        "nonce": bytes(range(16)),
        "created": NOW,
        "expires": NOW + dt.timedelta(days=7),
        "participants": participants,
        "n_samples": 1000,
    }
    return Manifest(**(defaults | with_settings(terms)))


def signed(**terms: Any) -> SignedManifest:
    result = SignedManifest(manifest(**terms))
    for one in result.manifest.participants:
        result = result.signed_by(member(one.name))
    return result
