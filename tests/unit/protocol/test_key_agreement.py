"""Keys between parties: the same on both sides, bound to everything, and with a pre-shared key."""

from __future__ import annotations

import pytest

from fedvalue.crypto import keys
from fedvalue.errors import InputError, RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.key_agreement import KeyAgreement
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.readiness import settings_of
from fedvalue.protocol.settings import ProtocolName, RunTerms

NAMES = ("t", "a", "b")
SIGNING = {name: bytes([k + 1]) * 32 for k, name in enumerate(NAMES)}
PINS = {name: keys.signing_public(key) for name, key in SIGNING.items()}


def terms(run_id: bytes = bytes(32), **more: object) -> RunTerms:
    return RunTerms(
        run_id=run_id, protocol=ProtocolName.MIRROR, task="t", parties=("a", "b"), max_samples=5, **more
    )  # fmt: skip


def readies(commitment: bytes = bytes(32)) -> dict[str, m.Ready]:
    sizes = {"t": (1, 2), "a": (2,), "b": (2,)}
    ranges = {name: m.CodeRanges(sizes[name], (), bytes(16)) for name in NAMES}
    return {
        name: m.Ready(name, 5, 5, ranges[name], ranges[name].digest, commitment, bytes(64)) for name in NAMES
    }


def ring(agreement: KeyAgreement, commitment: bytes = bytes(32)) -> Keyring:
    """The keys of a run; the run's key must have come."""
    signed = readies(commitment)
    return agreement.keyring(settings_of(agreement._terms, signed), signed)


def agreements(
    psk: dict[str, bytes] | None = None, run_id: bytes = bytes(32), data: bytes = b"", q: int = 3
) -> dict[str, KeyAgreement]:
    made = {}
    for k, name in enumerate(NAMES):
        own = Credentials(bytes([50 + k]) * 32, SIGNING[name], PINS, None if psk is None else psk[name])
        made[name] = KeyAgreement(terms(run_id, q=q), name, own, data if name == "a" else b"")
    roster = m.KeyRoster(tuple(made[name].hello() for name in NAMES))
    for agreement in made.values():
        agreement.take_roster(roster)
    return made


def keyed(**options: object) -> dict[str, KeyAgreement]:
    """Agreements whose run key has reached everybody."""
    made = agreements(**options)  # type: ignore[arg-type]
    wrapped = made["t"].draw_run_key().wrapped
    for name in ("a", "b"):
        made[name].open_run_key(wrapped[name])
    return made


def test_pairs_are_common_to_two_and_different_from_all_others() -> None:
    rings = {name: ring(agreement) for name, agreement in keyed().items()}
    pairs = {name: one.pairs for name, one in rings.items()}
    assert pairs["t"]["a"] == pairs["a"]["t"]
    assert pairs["a"]["b"] == pairs["b"]["a"]
    assert len({pairs["t"]["a"], pairs["t"]["b"], pairs["a"]["b"]}) == 3
    assert rings["a"].signs == {"t": -1, "b": 1}
    assert rings["t"].run_key == rings["a"].run_key == rings["b"].run_key


@pytest.mark.parametrize("change", [{"run_id": bytes([1]) * 32}, {"data": b"x"}, {"q": 4}])
def test_pairs_are_bound_to_run_data_and_terms(change: dict) -> None:
    """Even a pair that the change does not concern: the transcript covers everybody's keys."""
    before = ring(keyed()["t"]).pairs["b"]
    assert ring(keyed(**change)["t"]).pairs["b"] != before


def test_every_key_is_bound_to_what_the_parties_have_brought() -> None:
    """Rows that are left after an alignment: other rows at anybody, other keys for everybody."""
    first, again, other = (ring(keyed()["t"], c) for c in (bytes(32), bytes(32), b"x" * 32))
    for key in ("run_key", "own", "pairs"):
        assert getattr(first, key) == getattr(again, key) != getattr(other, key)


@pytest.mark.parametrize("change", [{"run_id": bytes([1]) * 32}, {"data": b"x"}, {"q": 4}])
def test_what_comes_from_a_seed_is_bound_to_run_data_and_terms(change: dict) -> None:
    """K_run and a party's own keys: a relay that replays a run over changed data gets others."""
    first, again, other = (keyed(**options)["t"] for options in ({}, {}, change))
    assert first._run_key == again._run_key != other._run_key
    assert first.alignment() == again.alignment() != other.alignment()
    rings = [ring(one) for one in (first, again, other)]
    for derived in (
        lambda ring: ring.code_key("compute", "t"),
        lambda ring: ring.share_task("compute"),
        lambda ring: ring.dummies(bytes(16)),
    ):
        assert derived(rings[0]) == derived(rings[1]) != derived(rings[2])


def test_the_run_key_reaches_those_it_is_meant_for() -> None:
    made = agreements()
    wrapped = made["t"].draw_run_key()
    made["a"].open_run_key(wrapped.wrapped["a"])
    run_key = made["t"]._run_key
    assert made["a"]._run_key == run_key
    with pytest.raises(VerificationError):
        made["a"].open_run_key(wrapped.wrapped["b"])
    assert run_key not in wrapped.wrapped["a"]


def test_a_run_key_of_a_wrong_length_is_refused() -> None:
    """Well sealed by the task party: a short key would weaken all keys that derive from it."""
    made = agreements()
    made["t"].draw_run_key()
    for length in (0, 31, 33):
        key, context = made["t"]._wrapping_key("a"), made["t"]._context("a")
        with pytest.raises(VerificationError, match="wrong length") as refused:
            made["a"].open_run_key(keys.seal(key, bytes(length), context))
        assert refused.value.code == "E_SEAL"
    made["a"].open_run_key(keys.seal(key, bytes(32), context))


def test_a_roster_with_another_key_of_ours_is_refused() -> None:
    """Well signed with our own signing key, as a copy of us with other data would."""
    made = agreements(data=b"x")
    roster = tuple(agreements()[name].hello() for name in NAMES)
    with pytest.raises(VerificationError, match="came back changed") as refused:
        made["a"].take_roster(m.KeyRoster(roster))
    assert refused.value.code == "E_SIGNATURE"


def test_a_pre_shared_key_is_mixed_into_the_agreement() -> None:
    shared = keyed(psk=dict.fromkeys(NAMES, b"p" * 32))
    assert shared["t"]._pairs != agreements()["t"]._pairs
    one_wrong = agreements(psk=dict.fromkeys(NAMES, b"p" * 32) | {"b": b"q" * 32})
    wrapped = one_wrong["t"].draw_run_key()
    with pytest.raises(VerificationError) as refused:
        one_wrong["b"].open_run_key(wrapped.wrapped["b"])
    assert refused.value.code == "E_SEAL"


def test_the_pre_shared_key_alone_gives_no_pairwise_key() -> None:
    """A party that holds the shared key cannot open what two others seal for each other: pairs also need
    their X25519 secret. With the same shared key, other ephemeral keys give other pairs."""
    psk = dict.fromkeys(NAMES, b"p" * 32)
    first, other = agreements(psk=psk), agreements(psk=psk, data=b"x")
    assert first["a"]._pairs["b"] == first["b"]._pairs["a"]
    assert first["a"]._pairs["b"] != other["a"]._pairs["b"]
    bound = first["a"]._transcript
    for secret in (b"p" * 32, bytes(32) + b"p" * 32):
        assert keys.subkey(secret, bytes(32), "pair", "a", "b", bound) != first["a"]._pairs["b"]


def test_a_data_party_with_the_shared_key_cannot_open_the_share_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Review, finding 6. Under the old rule, pairs from the shared key alone, b opens what t seals for a."""
    psk = b"p" * 32

    def opened_by_b() -> bytes:
        made = agreements(psk=dict.fromkeys(NAMES, psk))
        sealed = made["t"].draw_run_key().wrapped["a"]
        # All that b has: the shared key and what was sent in the open.
        pair = keys.subkey(psk, bytes(32), "pair", "a", "t", made["b"]._transcript)
        wrapping = keys.subkey(pair, bytes(32), "wrap")
        return keys.unseal(wrapping, sealed, keys.info("wrap", bytes(32), "t", "a"))

    with pytest.raises(VerificationError) as refused:
        opened_by_b()
    assert refused.value.code == "E_SEAL"

    def old_rule(self: KeyAgreement, peer: str, public: bytes) -> bytes:
        assert self._credentials.psk is not None
        names = sorted((self._name, peer))
        return keys.subkey(self._credentials.psk, bytes(32), "pair", *names, self._transcript)

    monkeypatch.setattr(KeyAgreement, "_pair_key", old_rule)
    assert len(opened_by_b()) == 32


@pytest.mark.parametrize("name", ["a", "b"])
def test_every_ephemeral_key_is_checked_against_its_pin(name: str) -> None:
    """A key that a relay has put in, signed with a key of its own."""
    made = agreements()
    public = keys.agreement_public(b"e" * 32)
    forged = m.EphemeralKey(name, public, keys.sign(b"e" * 32, "ephemeral", bytes(32), name, public))
    roster = tuple(forged if each == name else made[each].hello() for each in NAMES)
    with pytest.raises(VerificationError, match=r"a signature \(ephemeral\)") as refused:
        made["t"].take_roster(m.KeyRoster(roster))
    assert refused.value.code == "E_SIGNATURE"


@pytest.mark.parametrize("name", NAMES)
def test_every_confirmation_is_authentic_and_of_the_same_ids(name: str) -> None:
    """Also where only one of the others has other ids, and says nothing."""
    made = keyed()
    rings = {each: ring(made[each]) for each in NAMES}
    same, other = b"p" * 32, b"q" * 32
    honest = {each: made[each].confirm(rings[each], same) for each in NAMES}
    for reader in NAMES:
        made[reader].check_confirms(rings[reader], same, m.ConfirmRoster(tuple(honest.values())))
    stranger = next(each for each in NAMES if each != name)
    for wrong, code in (
        (made[name].confirm(rings[name], other), "E_POPULATION"),
        (m.Confirm(name, same, bytes(32)), "E_CONFIRM"),
        (m.Confirm(name, same, honest[stranger].mac), "E_CONFIRM"),
        (m.Confirm(name, other, honest[name].mac), "E_CONFIRM"),
        (honest[stranger], "E_DECLARED"),
    ):
        roster = m.ConfirmRoster(tuple((honest | {name: wrong}).values()))
        with pytest.raises((VerificationError, RemoteProtocolError)) as refused:
            made[stranger].check_confirms(rings[stranger], same, roster)
        assert refused.value.code == code
    twice = m.ConfirmRoster((*honest.values(), honest[name]))
    with pytest.raises(RemoteProtocolError, match="one entry per party"):
        made[stranger].check_confirms(rings[stranger], same, twice)


def test_no_pin_no_run() -> None:
    own = Credentials(bytes(32), SIGNING["a"], {"a": PINS["a"], "t": PINS["t"]})
    agreement = KeyAgreement(terms(), "a", own, b"")
    others = agreements()
    roster = m.KeyRoster((others["t"].hello(), agreement.hello(), others["b"].hello()))
    with pytest.raises(VerificationError, match="no pinned key for party 'b'"):
        agreement.take_roster(roster)


@pytest.mark.parametrize("field", ["seed", "signing_key", "psk"])
def test_keys_of_a_wrong_length_are_refused(field: str) -> None:
    good = {"seed": bytes(32), "signing_key": bytes(32), "pins": {}, "psk": None}
    with pytest.raises(InputError, match=f"{field} must have 32 bytes, got 3"):
        Credentials(**(good | {field: b"abc"}))


def test_credentials_do_not_print_their_secrets() -> None:
    text = repr(Credentials(b"s" * 32, b"k" * 32, {}, b"p" * 32))
    assert text == "Credentials(pins={})"
