"""What a certificate proves, and that the task party cannot write its own."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from fedvalue import documents
from fedvalue._version import VALUES_VERSION
from fedvalue.agreement.manifest_rules import Versions
from fedvalue.crypto import keys
from fedvalue.deployment.run_results import task_valuation
from fedvalue.deployment.valuation_certificate import make_certificate, read_certificate
from fedvalue.errors import ConfigError, VerificationError
from fedvalue.protocol import codec, party_roles
from fedvalue.protocol import messages as m
from fedvalue.protocol.endorsement import Endorsement, _signed
from fedvalue.valuation.result import Valuation
from tests.support.certificates import check, resigned
from tests.support.consortium import identity, signed
from tests.support.roles import party_input, run_roles
from tests.support.town import columns, expected

N = 200


def run(tamper=lambda sender, to, body: body, n: int = N, **terms: Any):
    """A run in this thread; returns (roles, codes, agreement)."""
    codes = columns(n)
    inputs = {"bank": party_input(codes["task"], codes["label"])}
    inputs |= {name: party_input(codes[name]) for name in ("telco", "shop")}
    agreed = signed(n_samples=n, **terms)
    return run_roles(agreed, inputs, tamper), codes, agreed


def certify(role, agreed, change=lambda result: None) -> dict[str, Any]:
    """The certificate as JSON, signed after `change`."""
    outcome = role.outcome
    result = task_valuation(agreed.manifest, outcome).to_dict()
    change(result)
    valuation = Valuation.from_dict(result)
    made = make_certificate(identity("bank"), agreed, outcome.evidence, valuation, outcome.order)
    return json.loads(documents.encode(made))


@pytest.fixture(scope="module", params=["valuation", "counts"])
def finished(request):
    roles, codes, agreed = run(policy=request.param)
    return roles["bank"], codes, agreed


def test_an_honest_certificate_holds_the_naive_twins_values(finished):
    role, codes, agreed = finished
    data = certify(role, agreed)
    checked = check(data)
    assert len(checked.unproved) == (agreed.manifest.policy == "counts")
    assert all("the learnable values" in sentence for sentence in checked.unproved)
    assert "every data party signed which column of the results is its own" in checked.proved
    found = {party["name"]: party["value"] for party in data["result"]["parties"]}
    step = 0.0001 if agreed.manifest.policy == "valuation" else 0.0
    assert found == pytest.approx(expected(codes), abs=step / 2 + 1e-9)


def test_a_certificate_without_the_servers_results_proves_nothing(finished):
    role, _, agreed = finished
    data = certify(role, agreed)
    for server in data["servers"].values():
        server["result"] = []
    with pytest.raises(VerificationError) as caught:
        check(resigned(data, identity("bank")))
    assert caught.value.code == "E_CERTIFICATE"


def test_the_task_party_cannot_invent_values(finished):
    role, _, agreed = finished

    def change(result: dict[str, Any]) -> None:
        for party in result["parties"]:
            party["value"] /= 2
        result["total"] /= 2

    with pytest.raises(VerificationError) as caught:
        check(certify(role, agreed, change))
    assert caught.value.code == "E_MIRROR"


def test_the_task_party_cannot_give_the_columns_other_names(finished):
    """Names swapped in order, values and, where it tries, in the endorsements."""
    role, _, agreed = finished
    data = certify(role, agreed)
    data["order"] = data["order"][::-1]
    first, second = data["result"]["parties"]
    first["name"], second["name"] = second["name"], first["name"]
    with pytest.raises(VerificationError, match="a different place") as caught:
        check(resigned(data, identity("bank")))
    assert caught.value.code == "E_CERTIFICATE"
    forged = copy.deepcopy(data)
    for one in forged["endorsements"]:
        one[1] = 1 - one[1]  # party, place, digests, signature
    with pytest.raises(VerificationError) as caught:
        check(resigned(forged, identity("bank")))
    assert caught.value.code == "E_SIGNATURE"
    forged = copy.deepcopy(data)
    forged["endorsements"] = forged["endorsements"][:1]
    with pytest.raises(VerificationError, match="not every data party") as caught:
        check(resigned(forged, identity("bank")))
    assert caught.value.code == "E_CERTIFICATE"


def test_an_endorsement_of_other_results_is_refused(finished):
    role, _, agreed = finished
    data = certify(role, agreed)
    digests, place = dict.fromkeys(("compute", "validate"), bytes(32)), role.outcome.order.index("telco")
    signing_key = identity("telco").signing.private_bytes_raw()
    signature = keys.sign(signing_key, "endorsement", *_signed(agreed.run_id, "telco", place, digests))
    other = Endorsement("telco", place, digests, signature)
    data["endorsements"] = [
        msgspec.to_builtins(other) if one[0] == "telco" else one for one in data["endorsements"]
    ]
    with pytest.raises(VerificationError, match="different results"):
        check(resigned(data, identity("bank")))


@pytest.mark.parametrize("policy", ["valuation", "counts"])
def test_no_server_learns_whose_a_column_is(policy):
    """What a data party signs about its place passes the computation server, which must not read it."""
    passed: list[bytes] = []

    def watch(sender: str, to: str, body: bytes) -> bytes:
        if to in ("compute", "validate"):
            passed.append(body)
        return body

    roles, _, _ = run(watch, policy=policy)
    outcome = roles["bank"].outcome
    assert len(outcome.evidence.endorsements) == 2
    for one in outcome.evidence.endorsements:
        assert outcome.order[one.place] == one.party
        assert not any(one.signature in body for body in passed)
    agrees = [codec.decode(body).message for body in passed]
    lengths = {len(one.endorsement) for one in agrees if isinstance(one, m.Agree) and one.party != "bank"}
    assert lengths == {4 + 64 + 16}


def test_a_relay_that_changes_an_endorsement_is_found_out():
    """The parties' agreements have a MAC under the run's key, which the relay does not hold."""

    def meddle(sender: str, to: str, body: bytes) -> bytes:
        envelope = codec.decode(body)
        if not isinstance(envelope.message, m.AgreeRoster):
            return body
        first, *rest = envelope.message.agrees
        forged = msgspec.structs.replace(first, endorsement=bytes(84))
        return codec.encode(msgspec.structs.replace(envelope, message=m.AgreeRoster((forged, *rest))))

    with pytest.raises(VerificationError) as caught:
        run(meddle)
    assert caught.value.code == "E_CONFIRM"


@pytest.mark.parametrize(
    ("change", "code"), [("none", "E_SEAL"), ("another's", "E_SEAL"), ("another place", "E_CERTIFICATE")]
)
def test_no_result_without_the_endorsements(change, code, monkeypatch):
    """A data party that does not sign its place, or signs another one: the task party releases no values."""
    honest = party_roles.sealed_endorsement

    def sealed(terms, party, place, digests, credentials, ring):
        if party != "telco":
            return honest(terms, party, place, digests, credentials, ring)
        if change == "none":
            return b""
        if change == "another's":
            return keys.seal(bytes(32), bytes(68), b"")
        return honest(terms, party, 1 - place, digests, credentials, ring)

    monkeypatch.setattr(party_roles, "sealed_endorsement", sealed)
    with pytest.raises(VerificationError) as caught:
        run()
    assert caught.value.code == code


def test_without_a_signed_result_the_check_says_that_values_are_not_verified():
    roles, _, agreed = run(n=40, protocol="single", policy="counts", research=True, min_samples=1)
    data = certify(roles["bank"], agreed)
    checked = check(data)
    assert any("NOT verified by server signatures" in sentence for sentence in checked.unproved)
    assert not any("these values" in sentence for sentence in checked.proved)


RECOMPUTED = {
    "counts": {"policy": "counts"},
    "gram": {"protocol": "gram", "policy": "counts", "exact_tables": True},
}


@pytest.mark.parametrize("terms", RECOMPUTED.values(), ids=RECOMPUTED)
def test_values_of_another_version_are_not_called_false(terms):
    """They cannot be computed again here, so an honest certificate of an old release must not look forged."""
    old = Versions(values=VALUES_VERSION - 1, software="0.1.9")

    def change(result: dict[str, Any]) -> None:
        """The values of the old release, which were others."""
        for party in result["parties"]:
            party.update({key: party[key] / 2 for key in ("value", "learnable") if party.get(key)})

    roles, _, agreed = run(versions=old, **terms)
    with pytest.raises(ConfigError, match=r"Use FedValue 0\.1\.9") as caught:
        check(certify(roles["bank"], agreed, change))
    assert caught.value.code == "E_VERSION"
    roles, _, agreed = run(**terms)
    with pytest.raises(VerificationError) as refused:
        check(certify(roles["bank"], agreed, change))
    assert refused.value.code in ("E_MIRROR", "E_SUMS")


def test_signed_values_of_another_version_are_checked_all_the_same():
    """Under policy `valuation` the servers' own numbers are in the file."""
    roles, _, agreed = run(versions=Versions(values=VALUES_VERSION - 1, software="0.1.9"))
    assert "the values add up to the total" in check(certify(roles["bank"], agreed)).proved


def test_a_match_rate_that_nobody_signed_is_refused(finished):
    role, _, agreed = finished
    with pytest.raises(VerificationError, match="match rates") as caught:
        check(certify(role, agreed, lambda result: result["details"].update(match_rates={"telco": 1.0})))
    assert caught.value.code == "E_CERTIFICATE"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"software"', '"order": [], "software"', 1),
        lambda text: text.replace('"software"', '"unknown": 1, "software"', 1),
        lambda text: text.replace("fedvalue.certificate/2", "fedvalue.certificate/1"),
        lambda text: text.replace(f'"n_samples":{N}', f'"n_samples":{N}.0'),
        lambda text: text.replace(f'"n_samples":{N}', f'"n_samples":{N}.0000000001'),
    ],
    ids=["a key twice", "unknown key", "other schema", "float for integer", "almost an integer"],
)
def test_a_certificate_has_one_spelling(finished, tmp_path, change):
    """A reader that takes another one of two values than we do would see other values."""
    role, _, agreed = finished
    text = json.dumps(certify(role, agreed), separators=(",", ":"))
    path = tmp_path / "certificate.json"
    path.write_text(text)
    assert read_certificate(path).result.n_samples == N
    assert change(text) != text
    path.write_text(change(text))
    with pytest.raises(ConfigError) as caught:
        read_certificate(path)
    assert caught.value.code == "E_CERTIFICATE"
