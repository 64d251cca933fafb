"""Epsilon is a term like any other: signed, spelled in one way, and absent where values are exact."""

from __future__ import annotations

import json

import pytest

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.manifest_rules import Terms, check_terms
from fedvalue.errors import ConfigError, VerificationError
from tests.support.consortium import NOW, manifest, signed


def test_epsilon_survives_the_file_and_changes_the_run():
    one = signed(epsilon="0.5")
    again = SignedManifest.from_json(one.to_json())
    assert again.manifest.epsilon == "0.5"
    again.verify(now=NOW)
    assert manifest(epsilon="0.5").run_id != manifest().run_id


@pytest.mark.parametrize("change", [{"epsilon": "5"}, {"epsilon": None}, {}])
def test_an_epsilon_changed_or_taken_out_breaks_the_agreement(change):
    data = json.loads(signed(epsilon="0.5").to_json())
    del data["manifest"]["epsilon"]
    data["manifest"] |= change
    with pytest.raises((ConfigError, VerificationError)) as caught:
        SignedManifest.from_json(json.dumps(data)).verify(now=NOW)
    assert caught.value.code == "E_MANIFEST"


@pytest.mark.parametrize("epsilon", ["0.50", "0", "11", "x", 1, 0.5])
def test_another_spelling_is_refused(epsilon):
    with pytest.raises(ConfigError, match="epsilon") as caught:
        manifest(epsilon=epsilon)
    assert caught.value.code == "E_MANIFEST"


def test_exact_values_can_be_refused():
    check_terms(manifest(epsilon="1"), Terms(exact=False))
    check_terms(manifest(), Terms())
    with pytest.raises(VerificationError, match="without noise"):
        check_terms(manifest(), Terms(exact=False))
