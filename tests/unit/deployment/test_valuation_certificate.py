"""What a certificate proves, and that the task party cannot write its own."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fedvalue import documents
from fedvalue._version import VALUES_VERSION
from fedvalue.agreement.manifest_rules import Versions
from fedvalue.crypto import keys
from fedvalue.deployment.run_results import task_valuation
from fedvalue.deployment.valuation_certificate import make_certificate, read_certificate
from fedvalue.errors import ConfigError, RemoteProtocolError, VerificationError
from fedvalue.protocol import codec, party_roles
from fedvalue.protocol import messages as m
from fedvalue.protocol.endorsement import Endorsement, _signed
from fedvalue.protocol.mirror.server_result import CountsResult, ValuesResult, decode_result
from fedvalue.protocol.signed_results import signed_result
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


def damaged(text: str) -> str:
    """Other bytes of the same length, in base64."""
    raw = base64.b64decode(text)
    return base64.b64encode(raw[:-1] + bytes([raw[-1] ^ 1])).decode()


def with_damaged(key: str, place: int | None = None) -> Callable[[dict[str, Any]], None]:
    """A change of one field of the validation server's record."""

    def change(data: dict[str, Any]) -> None:
        where, at = (data["servers"]["validate"], key) if place is None else (
            data["servers"]["validate"][key], place,
        )  # fmt: skip
        where[at] = damaged(where[at])

    return change


def with_other_commitment(data: dict[str, Any]) -> None:
    ready = data["readies"][0]
    (place,) = (k for k, item in enumerate(ready) if item == ready[-2])
    ready[place] = damaged(ready[place])


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (with_other_commitment, "E_SIGNATURE", r"a signature \(ready\)"),
        (lambda data: data["readies"].pop(), "E_SENDER", "every party exactly once"),
        (lambda data: data["result"].update(run_id="00" * 32), "E_REPLAY", "another run"),
        (lambda data: data["servers"].pop("compute"), "E_CERTIFICATE", "missing, or there is one too many"),
        (
            lambda data: data["servers"].update(third=data["servers"]["compute"]),
            "E_CERTIFICATE",
            "missing, or there is one too many",
        ),
        (with_damaged("signature"), "E_SIGNATURE", r"a signature \(result\)"),
        (with_damaged("digest"), "E_SIGNATURE", r"a signature \(result\)"),
        (with_damaged("result", 0), "E_SIGNATURE", "'validate' signed another result"),
    ],
    ids=["commitment", "ready", "run", "no server", "third server", "signature", "digest", "result"],
)
def test_the_task_party_cannot_replace_what_others_signed(finished, change, code, words):
    """It signs whatever it has changed, so its own signature does not stop it; each other check must."""
    role, _, agreed = finished
    data = certify(role, agreed)
    check(copy.deepcopy(data))
    change(data)
    with pytest.raises(VerificationError, match=words) as caught:
        check(resigned(data, identity("bank")))
    assert caught.value.code == code


def signed_by_all(data: dict[str, Any], agreed: Any, change: Callable[[Any], Any]) -> dict[str, Any]:
    """The certificate when every participant signs changed results of the servers."""
    for server, record in data["servers"].items():
        plain = decode_result(b"".join(map(base64.b64decode, record["result"])))
        key = identity(server).signing.private_bytes_raw()
        content = msgspec.msgpack.encode(change(plain))
        chunks, seal = signed_result(key, agreed.run_id, server, content, 1 << 20)
        fields = {"result": [bytes(chunk.data) for chunk in chunks], "digest": seal.digest}
        record.update(msgspec.to_builtins({**fields, "signature": seal.signature}))
    digests = {server: base64.b64decode(record["digest"]) for server, record in data["servers"].items()}
    endorsements = []
    for place, name in enumerate(data["order"]):
        key = identity(name).signing.private_bytes_raw()
        signature = keys.sign(key, "endorsement", *_signed(agreed.run_id, name, place, digests))
        endorsements.append(Endorsement(name, place, digests, signature))
    return resigned({**data, "endorsements": msgspec.to_builtins(endorsements)}, identity("bank"))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            lambda result: msgspec.structs.replace(result, n_samples=N + 1),
            "E_TOTAL",
            "'compute' counted another table",
        ),
        (
            lambda result: CountsResult(N, bytes(8), bytes(8), bytes(16)),
            "E_CERTIFICATE",
            "'compute' signed a result of another policy",
        ),
        (
            lambda result: msgspec.structs.replace(result, shares=result.shares[:1]),
            "E_CERTIFICATE",
            "malformed certificate: ValueError",
        ),
    ],
    ids=["samples", "policy", "shares"],
)
def test_results_that_do_not_fit_the_agreement_are_refused_whoever_signed_them(change, code, words):
    roles, _, agreed = run()
    honest = signed_by_all(certify(roles["bank"], agreed), agreed, lambda result: result)
    assert "the values add up to the total" in check(honest).proved
    with pytest.raises((VerificationError, ConfigError), match=words) as caught:
        check(signed_by_all(certify(roles["bank"], agreed), agreed, change))
    assert caught.value.code == code


def test_counts_do_not_pass_for_a_policy_that_agreed_on_counts_only():
    """The other way round: sealed values where the agreement asks for counts."""
    roles, _, agreed = run(policy="counts")
    sealed = ValuesResult(N, {}, b"", ())
    with pytest.raises(VerificationError, match="another policy") as caught:
        check(signed_by_all(certify(roles["bank"], agreed), agreed, lambda result: sealed))
    assert caught.value.code == "E_CERTIFICATE"


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
    ("change", "code"),
    [
        ("none", "E_SEAL"),
        ("another's", "E_SEAL"),
        ("too short", "E_MALFORMED"),
        ("another place", "E_CERTIFICATE"),
    ],
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
        if change == "too short":
            return keys.seal(ring.endorsement("bank"), bytes(67), keys.info("endorsement"))
        return honest(terms, party, 1 - place, digests, credentials, ring)

    monkeypatch.setattr(party_roles, "sealed_endorsement", sealed)
    with pytest.raises((VerificationError, RemoteProtocolError)) as caught:
        run()
    assert caught.value.code == code


def test_without_a_signed_result_the_check_says_that_values_are_not_verified():
    roles, _, agreed = run(n=40, protocol="single", policy="counts", research=True, min_samples=1)
    data = certify(roles["bank"], agreed)
    checked = check(data)
    assert any("NOT verified by server signatures" in sentence for sentence in checked.unproved)
    assert not any("these values" in sentence for sentence in checked.proved)

    def more_in_all(result: dict[str, Any]) -> None:
        result["total"] += 0.01

    def another_share(result: dict[str, Any]) -> None:
        first, second = result["parties"]
        first["share"], second["share"] = second["share"], first["share"]

    for change, code in ((more_in_all, "E_TOTAL"), (another_share, "E_CERTIFICATE")):
        with pytest.raises(VerificationError) as caught:
            check(certify(roles["bank"], agreed, change))
        assert caught.value.code == code


def test_a_certificate_of_values_with_noise_names_the_noise_and_who_drew_it():
    roles, _, agreed = run(epsilon="10")
    checked = check(certify(roles["bank"], agreed))
    assert any("values with noise: epsilon 10" in sentence for sentence in checked.proved)
    assert "that the servers drew the noise honestly: only they know it" in checked.unproved

    def without_noise(result: dict[str, Any]) -> None:
        result["privacy"] = None

    def other_total(result: dict[str, Any]) -> None:
        result["learnable_total"] += 1e-6

    for change in (without_noise, other_total):
        with pytest.raises(VerificationError, match="signed other values") as caught:
            check(certify(roles["bank"], agreed, change))
        assert caught.value.code == "E_MIRROR"


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
    with pytest.raises(ConfigError, match=r"check them with FedValue 0\.1\.9") as caught:
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
