"""Drafting a manifest from a folder of cards, and manifests on disk."""

from __future__ import annotations

import datetime as dt

import pytest

from fedvalue.agreement.manifest_files import draft, read_manifest, write_manifest
from fedvalue.errors import ConfigError
from fedvalue.identity.cards import create_identity
from fedvalue.identity.identity_files import read_cards, write_card
from fedvalue.valuation.settings import ValuationSettings

ROLES = {"compute": "compute", "validate": "validate", "bank": "task", "telco": "data"}
ENDPOINTS = {"compute": "h:1", "validate": "h:2"}
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def cards(tmp_path):
    for name, role in ROLES.items():
        write_card(create_identity("alpha", role, name).card, tmp_path / "cards" / f"{name}.json")
    return tmp_path / "cards"


def test_a_draft_lists_every_card_and_survives_its_file(cards, tmp_path):
    signed = draft(read_cards(cards).values(), ENDPOINTS, days=7, purpose="a test", n_samples=500)
    assert [one.name for one in signed.manifest.participants] == ["bank", "telco", "compute", "validate"]
    assert signed.manifest.compute.endpoint == "h:1"
    assert signed.manifest.expires - signed.manifest.created == dt.timedelta(days=7)
    write_manifest(tmp_path / "m.json", signed)
    assert read_manifest(tmp_path / "m.json") == signed


@pytest.mark.parametrize("days", [-1, 400])
def test_an_expired_card_is_refused_before_anybody_signs(cards, days):
    """Also one that is not valid yet: the clock of one of the two machines is wrong."""
    made = NOW - dt.timedelta(days=days)
    write_card(create_identity("alpha", "data", "telco", now=made).card, cards / "telco.json")
    with pytest.raises(
        ConfigError, match=r"certificate of 'telco' is valid from .* this clock says"
    ) as caught:
        draft(read_cards(cards).values(), ENDPOINTS, days=7, purpose="a test", n_samples=500)
    assert caught.value.code == "E_IDENTITY"


@pytest.mark.parametrize("policy", ["valuation", "counts"])
def test_coalition_values_are_agreed_on_unless_somebody_leaves_them_out(cards, policy):
    """The task party gets the same advice as from a plain valuation of the same rows."""
    signed = draft(
        read_cards(cards).values(),
        ENDPOINTS,
        days=7,
        purpose="a test",
        n_samples=500,
        policy=policy,
        settings=ValuationSettings(seed=3),
    )
    assert signed.manifest.settings.coalitions
    assert signed.manifest.settings.seed == 3
