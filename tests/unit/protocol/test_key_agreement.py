"""Keys between parties: the same on both sides, bound to everything, and with a pre-shared key."""

from __future__ import annotations

import pytest

from fedvalue.crypto import keys
from fedvalue.errors import InputError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.key_agreement import KeyAgreement
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.settings import ProtocolName, Settings

NAMES = ("t", "a", "b")
SIGNING = {name: bytes([k + 1]) * 32 for k, name in enumerate(NAMES)}
PINS = {name: keys.signing_public(key) for name, key in SIGNING.items()}


def settings(run_id: bytes = bytes(32), **more: object) -> Settings:
    return Settings(
        run_id=run_id, protocol=ProtocolName.MIRROR, task="t", parties=("a", "b"), n_samples=5,
        n_task_codes=1, n_label_codes=2, n_codes=(2, 2), **more,
    )  # fmt: skip


def agreements(
    psk: dict[str, bytes] | None = None, run_id: bytes = bytes(32), data: bytes = b"", q: int = 3
) -> dict[str, KeyAgreement]:
    made = {}
    for k, name in enumerate(NAMES):
        own = Credentials(bytes([50 + k]) * 32, SIGNING[name], PINS, None if psk is None else psk[name])
        made[name] = KeyAgreement(settings(run_id, q=q), name, own, data if name == "a" else b"")
    roster = m.KeyRoster(tuple(made[name].hello() for name in NAMES))
    for agreement in made.values():
        agreement.take_roster(roster)
    return made


def test_pairs_are_common_to_two_and_different_from_all_others() -> None:
    made = agreements()
    pairs = {name: made[name].keyring(bytes(32)).pairs for name in NAMES}
    assert pairs["t"]["a"] == pairs["a"]["t"]
    assert pairs["a"]["b"] == pairs["b"]["a"]
    assert len({pairs["t"]["a"], pairs["t"]["b"], pairs["a"]["b"]}) == 3
    ring = made["a"].keyring(bytes(32))
    assert ring.signs == {"t": -1, "b": 1}


@pytest.mark.parametrize("change", [{"run_id": bytes([1]) * 32}, {"data": b"x"}, {"q": 4}])
def test_pairs_are_bound_to_run_data_and_settings(change: dict) -> None:
    """Even a pair that the change does not concern: the transcript covers everybody's keys."""
    before = agreements()["t"].keyring(bytes(32)).pairs["b"]
    assert agreements(**change)["t"].keyring(bytes(32)).pairs["b"] != before


@pytest.mark.parametrize("change", [{"run_id": bytes([1]) * 32}, {"data": b"x"}, {"q": 4}])
def test_what_comes_from_a_seed_is_bound_to_run_data_and_settings(change: dict) -> None:
    """K_run and a party's own keys: a relay that replays a run over changed data gets others."""
    first, again, other = (agreements(**options)["t"] for options in ({}, {}, change))
    assert first.draw_run_key() == again.draw_run_key()
    assert first.draw_run_key()[0] != other.draw_run_key()[0]
    rings = [one.keyring(bytes(32)) for one in (first, again, other)]
    for derived in (
        lambda ring: ring.code_key("compute", "t"),
        lambda ring: ring.share_task("compute"),
        lambda ring: ring.dummies(bytes(16)),
    ):
        assert derived(rings[0]) == derived(rings[1]) != derived(rings[2])


def test_the_run_key_reaches_those_it_is_meant_for() -> None:
    made = agreements()
    run_key, wrapped = made["t"].draw_run_key()
    assert made["a"].open_run_key(wrapped.wrapped["a"]) == run_key
    with pytest.raises(VerificationError):
        made["a"].open_run_key(wrapped.wrapped["b"])
    assert run_key not in wrapped.wrapped["a"]


def test_a_pre_shared_key_stands_in_for_the_agreement() -> None:
    shared = agreements(psk=dict.fromkeys(NAMES, b"p" * 32))
    run_key, wrapped = shared["t"].draw_run_key()
    assert shared["b"].open_run_key(wrapped.wrapped["b"]) == run_key
    assert shared["t"].keyring(run_key).pairs != agreements()["t"].keyring(run_key).pairs
    one_wrong = agreements(psk=dict.fromkeys(NAMES, b"p" * 32) | {"b": b"q" * 32})
    _, wrapped = one_wrong["t"].draw_run_key()
    with pytest.raises(VerificationError) as refused:
        one_wrong["b"].open_run_key(wrapped.wrapped["b"])
    assert refused.value.code == "E_SEAL"


def test_no_pin_no_run() -> None:
    own = Credentials(bytes(32), SIGNING["a"], {"a": PINS["a"], "t": PINS["t"]})
    agreement = KeyAgreement(settings(), "a", own, b"")
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
