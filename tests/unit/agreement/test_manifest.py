"""The manifest: one spelling, all signatures, nothing weaker than accepted."""

from __future__ import annotations

import datetime as dt
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fedvalue.agreement.explanation import explain_terms
from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.manifest_rules import Terms, Versions, check_pins, check_terms
from fedvalue.agreement.run_settings import terms_of
from fedvalue.documents import canonical
from fedvalue.errors import ConfigError, FedValueError, InputError, VerificationError
from fedvalue.valuation.settings import ValuationSettings
from tests.support.consortium import NOW, identities, identity, manifest, signed


def verify(one: SignedManifest, *, now: dt.datetime = NOW) -> None:
    one.verify(now=now)


def test_canonical_json_is_rfc_8785_without_fractions():
    """Keys sorted, no spaces, text in UTF-8, minimal escapes (the RFC's own rules, by hand)."""
    data = {"b": [1, True, None, 'é\n€"'], "a": {"y": -1, "x": ""}}
    assert canonical(data) == '{"a":{"x":"","y":-1},"b":[1,true,null,"é\\n€\\""]}'.encode()
    for bad in ({"x": 0.5}, {"é": 1}, {"x": 2**53}):
        with pytest.raises(ConfigError):
            canonical(bad)


def test_run_id_is_the_hash_of_the_canonical_bytes():
    one = manifest()
    text = SignedManifest(one).to_json()
    terms = json.loads(text)["manifest"]
    assert terms.pop("run") == 1  # which attempt it is, is no term
    spelled = json.dumps(terms, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert one.run_id == hashlib.sha256(spelled.encode()).digest()
    assert manifest(seed=1).run_id != one.run_id


def test_a_manifest_signed_by_all_passes_and_survives_its_file():
    one = signed()
    verify(one)
    again = SignedManifest.from_json(one.to_json())
    assert again == one
    verify(again)


def test_every_changed_term_breaks_the_signatures():
    """Item 24: altered by one byte; policy downgraded."""
    data = json.loads(signed().to_json())
    changes = {
        "policy": "counts", "n_samples": 1001, "purpose": "another purpose", "nonce": "A" * 22 + "==",
        "research": True, "align": "intersect",
        "settings": [{"seed": 1}, {"method": "exact"}, {"columns": "joint"}, {"statistics": False}],
    }  # fmt: skip
    settings = data["manifest"]["settings"]
    coding = {"coding": {**settings["coding"], "bins": 6}}
    changed = [{"settings": {**settings, **one}} for one in (*changes.pop("settings"), coding)]
    for change in (*changed, *({key: value} for key, value in changes.items())):
        altered = {**data, "manifest": {**data["manifest"], **change}}
        with pytest.raises(VerificationError, match="is not valid") as caught:
            verify(SignedManifest.from_json(json.dumps(altered)))
        assert caught.value.code == "E_MANIFEST", change


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # a flipped sign bit; refused all the same
def test_every_flipped_byte_of_the_file_is_refused():
    """Item 24: no byte of the agreement can change unseen (spaces between terms may)."""
    text = signed().to_json().encode()
    for position in range(0, len(text), 7):
        altered = bytearray(text)
        altered[position] ^= 1
        if bytes(altered).split() == text.split():
            continue
        try:
            one = SignedManifest.from_json(bytes(altered))
            verify(one)
        except FedValueError:
            continue
        # Only the unused bits at the end of a signature's base64 may change: it is the same signature.
        assert one == signed()
        assert position > text.index(b'"signatures"')


@pytest.mark.parametrize("name", ["bank", "telco", "compute"])
def test_a_missing_signature_is_named(name):
    """Item 24: one signature missing."""
    one = signed()
    rest = {key: value for key, value in one.signatures.items() if key != name}
    with pytest.raises(VerificationError, match=f"not signed by {name}") as caught:
        verify(SignedManifest(one.manifest, rest))
    assert caught.value.code == "E_MANIFEST"


def test_expiry_is_strict_and_a_clock_behind_does_not_matter():
    """Item 30: clock skew of an hour affects the expiry only."""
    verify(signed(), now=NOW - dt.timedelta(hours=1))
    verify(signed(), now=NOW + dt.timedelta(hours=1))
    verify(signed(), now=NOW + dt.timedelta(days=7, seconds=-1))
    with pytest.raises(VerificationError, match="expired") as caught:
        verify(signed(), now=NOW + dt.timedelta(days=7))
    assert caught.value.code == "E_MANIFEST"


def test_another_release_with_the_same_versions_takes_part():
    """Decision 0416: two minor versions side by side."""
    verify(signed(versions=Versions(software="9.9.0")))


@pytest.mark.parametrize("changed", ["protocol", "values"])
def test_another_protocol_or_other_values_are_refused_with_the_remedy(changed):
    """Item 38: version skew."""
    own = Versions()
    newer = Versions(**{"protocol": own.protocol, "values": own.values, changed: 99}, software="9.9.0")
    with pytest.raises(
        ConfigError, match=r"99.*as in FedValue 9\.9\.0; this is FedValue .* Every participant needs"
    ) as caught:
        verify(signed(versions=newer))
    assert caught.value.code == "E_VERSION"
    signed(versions=newer).verify_signatures()


def test_an_agreement_in_another_form_is_a_matter_of_versions():
    newer = signed().to_json().replace("fedvalue.manifest/2", "fedvalue.manifest/3")
    with pytest.raises(
        ConfigError, match=r"schema fedvalue\.manifest/3.*every participant needs the release"
    ) as caught:
        SignedManifest.from_json(newer)
    assert caught.value.code == "E_VERSION"
    with pytest.raises(ConfigError) as caught:
        SignedManifest.from_json(signed().to_json().replace("fedvalue.manifest/2", "fedvalue.result/2"))
    assert caught.value.code == "E_MANIFEST"


def test_only_the_named_participant_can_sign():
    one = SignedManifest(manifest())
    stranger = identity("stranger", "data")
    with pytest.raises(ConfigError, match="not a participant"):
        one.signed_by(stranger)
    from fedvalue.identity.cards import create_identity

    with pytest.raises(ConfigError, match="other keys"):
        one.signed_by(create_identity("alpha", "data", "telco"))


def test_pins_decide_who_a_participant_is():
    """Item 23: the right name with an unpinned key is refused."""
    cards = {name: one.card for name, one in identities().items()}
    check_pins(manifest(), cards)
    from fedvalue.identity.cards import create_identity

    rogue = {**cards, "telco": create_identity("alpha", "data", "telco").card}
    for pinned, words in (
        (rogue, "other keys"),
        ({k: c for k, c in cards.items() if k != "shop"}, "no identity card"),
    ):
        with pytest.raises(VerificationError, match=words) as caught:
            check_pins(manifest(), pinned)
        assert caught.value.code == "E_IDENTITY"


@pytest.mark.parametrize(
    ("terms", "accepted"),
    [
        ({"policy": "counts"}, Terms()),
        ({"protocol": "paper", "policy": "counts"}, Terms(policies=("counts",))),
        ({"research": True}, Terms()),
        ({"shares": "full"}, Terms()),
        (
            {"protocol": "paper", "policy": "counts", "harden": False, "research": True},
            Terms(protocols=("paper",), policies=("counts",), research=True),
        ),
    ],
)
def test_weaker_terms_than_accepted_are_refused_even_when_all_signed(terms, accepted):
    """Item 24: downgrade."""
    one = signed(**terms)
    verify(one)
    with pytest.raises(VerificationError, match="accepted here") as caught:
        check_terms(one.manifest, accepted)
    assert caught.value.code == "E_MANIFEST"


def test_terms_that_are_accepted_pass():
    check_terms(manifest(), Terms())
    check_terms(manifest(policy="counts", research=True), Terms(policies=("counts",), research=True))


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"n_samples": 99}, "below the gate"),
        ({"min_samples": 10}, "needs research"),
        ({"min_rows_per_code": 1}, "needs research"),
        ({"min_cell": 9}, "needs research"),
        ({"protocol": "single", "policy": "counts"}, "needs research"),
        ({"protocol": "paper", "policy": "counts", "harden": False}, "needs research"),
        ({"protocol": "paper"}, "needs policy 'counts'"),
        ({"protocol": "single", "research": True}, "needs policy 'counts'"),
        ({"n_r": "random:0"}, "n_r must be"),
        ({"n_r": "90%"}, "n_r must be"),
        ({"purpose": "scoring\n\nAll gates are on."}, "printable"),
        ({"purpose": "scoring\x1b[8m"}, "printable"),
        ({"protocol": "psi"}, "protocol must be one of"),
        ({"q": 0}, "q must be an integer"),
        ({"q": True}, "q must be an integer"),
        ({"chunk_bytes": 1 << 23}, "chunk_bytes"),
        ({"purpose": " "}, "purpose"),
        ({"nonce": b"short"}, "nonce"),
        ({"expires": NOW}, "expires"),
        ({"versions": Versions(software="")}, "versions.software"),
        ({"q": 65}, "q must be an integer from 1 to 64"),
        ({"created": NOW.replace(microsecond=1)}, "whole second"),
        ({"expires": (NOW + dt.timedelta(days=1)).replace(tzinfo=None)}, "UTC"),
        ({"time_limit": 60.0}, "settings.time_limit must be null"),
        ({"precision": 0.01}, "settings.precision must be null"),
        ({"grid": "0.0002"}, "grid must be a power of ten"),
        ({"grid": "1e-4"}, "grid must be a power of ten"),
        ({"grid": 0.0001}, "grid must be a power of ten"),
        ({"grid": "0.00001"}, 'finer than "0.0001" and needs research'),
        ({"grid": None}, "needs research"),
        ({"shares": "all"}, "shares must be one of small, full"),
        ({"participants": ()}, "exactly one participant"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms, words):
    with pytest.raises(ConfigError, match=words) as caught:
        manifest(**terms)
    assert caught.value.code == "E_MANIFEST"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_permutations": 1}, "n_permutations must be at least 2"),
        ({"seed": -1}, "seed must not be negative"),
    ],
)
def test_settings_that_the_engine_refuses_cannot_be_agreed_on(settings, words):
    """Neither drafted nor read, with whatever signatures."""
    with pytest.raises(InputError, match=words):
        manifest(**settings)
    data = json.loads(signed().to_json())
    data["manifest"]["settings"] |= settings
    with pytest.raises(ConfigError, match=words) as caught:
        SignedManifest.from_json(json.dumps(data))
    assert caught.value.code == "E_MANIFEST"


def test_a_manifest_of_another_schema_or_with_an_unknown_term_is_refused():
    data = json.loads(signed().to_json())
    for change in ({"schema": "fedvalue.result/1"}, {"unknown": 1}, {"n_samples": 1000.0}):
        altered = {**data, "manifest": {**data["manifest"], **change}}
        with pytest.raises(ConfigError) as caught:
            SignedManifest.from_json(json.dumps(altered))
        assert caught.value.code == "E_MANIFEST"
    del data["manifest"]["schema"]
    with pytest.raises(ConfigError, match="canonical"):
        SignedManifest.from_json(json.dumps(data))


def test_the_columns_that_a_participant_accepts():
    check_terms(manifest(columns="joint"), Terms(columns=("joint",)))
    with pytest.raises(VerificationError, match="columns 'features' is not accepted here"):
        check_terms(manifest(), Terms(columns=("joint",)))


def test_research_signed_by_all_lifts_the_gates():
    verify(signed(research=True, n_samples=20, min_samples=1, min_rows_per_code=1))


def test_participants_must_be_distinct_complete_and_reachable():
    full = manifest().participants
    by_name = {one.name: one for one in full}
    cases = [
        (tuple(one for one in full if one.role != "data"), "at least one data party"),
        (tuple(one for one in full if one.name != "validate"), "role 'validate'"),
        ((*full, by_name["shop"]), "same name"),
        ((*full, replace(by_name["shop"], name="shop2")), "share a signing key"),
        (tuple(replace(one, endpoint="") if one.name == "compute" else one for one in full), "host:port"),
        (tuple(replace(one, endpoint="h:1") if one.name == "shop" else one for one in full), "must not have"),
        (
            tuple(replace(one, spki=b"\x00" * 32) if one.name == "shop" else one for one in full),
            "another key",
        ),
    ]
    for participants, words in cases:
        with pytest.raises(ConfigError, match=words):
            manifest(participants=participants)


def test_the_run_without_a_party_is_a_new_run_with_the_same_terms():
    one = manifest()
    rest = one.without("shop", nonce=b"n" * 16, created=NOW + dt.timedelta(days=1))
    assert [p.name for p in rest.data] == ["telco"]
    assert rest.run_id != one.run_id
    assert rest.expires - rest.created == one.expires - one.created
    assert (
        replace(
            rest, participants=one.participants, nonce=one.nonce, created=one.created, expires=one.expires
        )
        == one
    )
    with pytest.raises(ConfigError, match="not a data party"):
        one.without("bank", nonce=b"n" * 16, created=NOW)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes_end_in_a_typed_error(text):
    """Item 36: the decoder never crashes."""
    with pytest.raises(ConfigError):
        SignedManifest.from_json(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(key=st.sampled_from(sorted(json.loads(signed().to_json())["manifest"])), value=_JSON)
def test_any_value_of_any_term_ends_in_a_typed_error_or_a_manifest(key, value):
    """Item 36: well-formed JSON with odd terms."""
    data = json.loads(signed().to_json())
    original = data["manifest"][key]
    data["manifest"][key] = value
    try:
        verify(SignedManifest.from_json(json.dumps(data)))
    except FedValueError:
        return
    assert value == original


def test_a_huge_file_is_refused_before_it_is_parsed():
    with pytest.raises(ConfigError, match="at most"):
        SignedManifest.from_json(b" " * (1 << 20) + b"{}")
    with pytest.raises(ConfigError, match="twice"):
        SignedManifest.from_json('{"manifest": 1, "manifest": 2}')


def test_a_drawn_number_of_adversarial_samples_is_a_term():
    one = signed(n_r="random:8")
    verify(one)
    assert SignedManifest.from_json(one.to_json()).manifest.n_r == "random:8"


def test_text_that_is_no_unicode_is_refused_without_a_traceback():
    text = signed().to_json().replace("What is", "\\ud800 is")
    assert "\\ud800" in text
    with pytest.raises(ConfigError) as caught:
        SignedManifest.from_json(text)
    assert caught.value.code == "E_MANIFEST"
    name = signed().to_json().replace('"telco": "', '"\\ud800": "')
    with pytest.raises(FedValueError):
        verify(SignedManifest.from_json(name))


def test_an_acceptance_test_is_agreed_on_in_words_and_is_about_a_party_of_the_run():
    from fedvalue.agreement.explanation import explain
    from fedvalue.valuation.acceptance_test import AcceptanceTest
    from fedvalue.valuation.settings import ValuationSettings

    def with_test(party: str | None) -> ValuationSettings:
        test = AcceptanceTest(metric="errors_avoided_per_1000", threshold="30", party=party)
        return ValuationSettings(coalitions=False, acceptance=test)

    one = SignedManifest(manifest(settings=with_test(None)))
    assert SignedManifest.from_json(one.to_json()) == one
    text = " ".join(explain(one).split())
    assert "all data parties together must avoid at least 30 wrong predictions per 1,000 samples" in text
    with pytest.raises(ConfigError, match="must be a data party, got 'nobody'"):
        manifest(settings=with_test("nobody"))
    with pytest.raises(ConfigError, match="gains have no intervals to test"):
        manifest(settings=with_test(None), epsilon="0.5")


@pytest.mark.parametrize("columns", ["features", "joint"])
@pytest.mark.parametrize("epsilon", [None, "1"])
def test_a_run_uses_columns_as_the_agreement_says(columns, epsilon):
    """With noise a run took the columns of a party as one, whatever everybody had signed."""
    manifest = signed(epsilon=epsilon, settings=ValuationSettings(columns=columns)).manifest
    assert terms_of(manifest).columns.value == columns
    words = " ".join(explain_terms(manifest).split())
    assert ("Columns are used one by one" in words) == (columns == "features")
    assert ("Shapley value of conditional mutual information" in words) == (epsilon is None)
