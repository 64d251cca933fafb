"""What must not show: keys in what is printed, flags in the length of a sealed share."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.crypto import keys
from fedvalue.crypto.tokens import TokenKeys
from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    open_share,
    sealed_values,
)
from fedvalue.protocol.mirror.upload import RESULT_BYTES
from fedvalue.protocol.outcome import Answer

KEY = b"\x07secret-key-of-32-bytes-is-here\x07"


@pytest.mark.parametrize(
    "message",
    [
        m.QueryKey(bytes(16), ("t", "a"), KEY[:16], KEY[:16]),
        m.ShareKeys(KEY, (KEY, KEY)),
        m.WrappedKey(KEY),
        m.WrappedKeys({"a": KEY}),
        m.Declaration(1, 2, 1, bytes(32), (1, 2, 3), ((),) * 3, bytes(32), KEY + KEY[:16], m.NO_ROOT),
        m.ResultOpening(KEY[:16], (m.NO_ROOT,), KEY, bytes(64)),
        TokenKeys(KEY[:16], KEY[:16]),
    ],
)
def test_messages_with_keys_do_not_print_them(message: object) -> None:
    envelope = m.Envelope(bytes(32), "t", "compute", message)  # type: ignore[arg-type]
    for text in (repr(message), str(message), f"{message}", repr(envelope), repr([message])):
        assert "secret" not in text
        assert type(message).__name__ in text
    assert not list(getattr(message, "__rich_repr__", list)())


def test_sealed_shares_have_one_length_whatever_they_say() -> None:
    """Flags and missing numbers make a share longer or shorter; the sealed bytes do not show it."""
    shares = (
        {"value": 0.5, "flags": ()},
        {"value": 0.5, "flags": ("memorised", "no_signal")},
        {"value": None},
    )
    answer = Answer({"total": 1.0}, {"label_entropy": 0.3}, shares)
    sealed = sealed_values(answer, m.ShareKeys(KEY, (KEY,) * 3), 7)
    assert len({len(share) for share in sealed.shares}) == 1
    opened = [open_share(KEY, share, SHARE_CONTEXT) for share in sealed.shares]
    assert opened == [
        {"value": 0.5, "flags": []},
        {"value": 0.5, "flags": ["memorised", "no_signal"]},
        shares[2],
    ]


@given(st.binary(max_size=3000), st.integers(0, 2000))
def test_padding_comes_off_again(plain: bytes, more: int) -> None:
    whole = keys.padded(plain, len(plain) + more)
    assert keys.unpadded(whole) == plain
    assert len(whole) % 1024 == 0
    assert len(whole) == len(keys.padded(b"", len(plain) + more))


@pytest.mark.parametrize("wrong", [b"", b"abc", bytes(10), b"abc\x80\x00\x01"])
def test_what_is_not_padded_is_refused(wrong: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        keys.unpadded(wrong)


def test_the_largest_answer_fits_the_limit_of_a_result() -> None:
    """256 parties with all their numbers, and every pair's interaction."""
    n = 256
    share = dict.fromkeys(
        ["value", "share", "alone", "last", "se_sampling", "se_data", "learnable", "se_learnable"], 0.1
    )
    share |= {"n_codes": 2**24, "flags": ("memorised", "no_signal", "duplicate", "unstable")}
    task = {"label_entropy": 0.1, "learnable_total": 0.1, "interactions": ((0.1,) * n,) * n}
    answer = Answer({"total": 0.1}, task, (share,) * n)
    size = len(msgspec.msgpack.encode(sealed_values(answer, m.ShareKeys(KEY, (KEY,) * n), 10**9)))
    assert size < RESULT_BYTES
    assert len(msgspec.msgpack.encode(task)) > 2**19
