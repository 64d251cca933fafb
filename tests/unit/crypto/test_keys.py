"""Keys, signatures and seals that do not fit are refused with a code."""

from __future__ import annotations

import pytest

from fedvalue.crypto import keys
from fedvalue.errors import VerificationError

RUN = bytes(32)
A, B = bytes([1]) * 32, bytes([2]) * 32


def test_contexts_do_not_meet() -> None:
    """No two lists of purpose and parts give the same context."""
    contexts = [
        keys.info("a", "b", "c"),
        keys.info("a", "bc"),
        keys.info("a", "b", "c", ""),
        keys.info("ab", "c"),
        keys.info("a", b"b\0\0\0\1c"),
        keys.info("a"),
    ]
    assert len(set(contexts)) == len(contexts)


def test_both_sides_agree_on_the_secret() -> None:
    one = keys.agreement_secret(A, keys.agreement_public(B))
    assert one == keys.agreement_secret(B, keys.agreement_public(A))


def test_a_point_of_low_order_is_refused() -> None:
    with pytest.raises(VerificationError) as refused:
        keys.agreement_secret(A, bytes(32))
    assert refused.value.code == "E_SIGNATURE"


@pytest.mark.parametrize(
    ("public", "signature", "purpose", "part"),
    [
        (keys.signing_public(B), keys.sign(A, "result", b"x"), "result", b"x"),
        (keys.signing_public(A), keys.sign(A, "result", b"x"), "other", b"x"),
        (keys.signing_public(A), keys.sign(A, "result", b"x"), "result", b"y"),
        (keys.signing_public(A), bytes(64), "result", b"x"),
        (bytes(31), keys.sign(A, "result", b"x"), "result", b"x"),
    ],
)
def test_a_signature_that_does_not_fit_raises(
    public: bytes, signature: bytes, purpose: str, part: bytes
) -> None:
    with pytest.raises(VerificationError) as refused:
        keys.check_signature(public, signature, purpose, part)
    assert refused.value.code == "E_SIGNATURE"
    keys.check_signature(keys.signing_public(A), keys.sign(A, "result", b"x"), "result", b"x")


def test_a_seal_opens_with_its_key_and_context_only() -> None:
    sealed = keys.seal(A, b"share", b"context")
    assert keys.unseal(A, sealed, b"context") == b"share"
    for key, data, context in ((B, sealed, b"context"), (A, sealed, b"other"), (A, sealed[:-1], b"context")):
        with pytest.raises(VerificationError) as refused:
            keys.unseal(key, data, context)
        assert refused.value.code == "E_SEAL"


def test_a_mac_that_does_not_fit_raises() -> None:
    keys.check_mac(keys.mac(A, "p", b"x"), keys.mac(A, "p", b"x"), who="a")
    with pytest.raises(VerificationError):
        keys.check_mac(keys.mac(A, "p", b"x"), keys.mac(A, "p", b"y"), who="a")
