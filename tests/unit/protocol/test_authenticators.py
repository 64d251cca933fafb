"""Code authenticators: the sum of all owners' codewords, and nothing else, passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.protocol.mirror.authenticators import GROUP_LIMIT, CodeCheck, masked_keys, summed_keys
from fedvalue.protocol.mirror.row_layout import CODE_BITS, LANE_LIMIT, RowLayout

LAYOUTS = [
    (1, 2, 3),
    (2, 2, 3, 5),
    (2, 2, 2**CODE_BITS // 4),
    (2, 2, 2**CODE_BITS // 4 + 1),
    (GROUP_LIMIT, 2, 3, GROUP_LIMIT),
    (GROUP_LIMIT + 1, 7, 2**12),
    (3, 2, 2**20, 2**20, 2, 2**24),
]


def key(place: int) -> bytes:
    return bytes([place]) * 16


def codeword(place: int, code: int) -> int:
    """First 8 bytes of AES of the code as a 16-byte little-endian number, by a single block."""
    cipher = Cipher(algorithms.AES128(key(place)), modes.ECB()).encryptor()
    return int.from_bytes(cipher.update(code.to_bytes(16, "little"))[:8], "little")


def row(layout: RowLayout, codes: list[int]) -> list[int]:
    """The words of one row, by big integers: codes and authenticator in one word where they fit."""
    words = [0] * layout.n_lanes
    for place, code in enumerate(codes):
        words[layout.lane[place]] += code * layout.stride[place]
    tag = sum(codeword(place, code) for place, code in enumerate(codes))
    if math.prod(layout.radices) <= 2**24:
        return [words[0] + 2**24 * (tag % 2**40)]
    return [*words, tag % 2**64]


def authentic(layout: RowLayout, rows: list[list[int]]) -> bool:
    check = CodeCheck(layout, [key(k) for k in range(len(layout.radices))])
    return check.authentic(np.array(rows, dtype=np.uint64))


@pytest.mark.parametrize("radices", LAYOUTS)
def test_honest_rows_pass_and_every_shifted_digit_is_refused(radices: tuple[int, ...]) -> None:
    """One digit moved by one, up or down, in one row of many, also where it leaves its range."""
    rng = np.random.default_rng(0)
    layout = RowLayout.of(radices)
    codes = [[int(rng.integers(r)) for r in radices] for _ in range(8)]
    codes += [[0] * len(radices), [r - 1 for r in radices]]
    rows = [row(layout, one) for one in codes]
    assert authentic(layout, rows)
    for place in range(len(radices)):
        for sign in (1, -1):
            for k in (0, 8, 9):
                wrong = [list(one) for one in rows]
                lane = layout.lane[place]
                wrong[k][lane] = (wrong[k][lane] + sign * layout.stride[place]) % 2**64
                assert not authentic(layout, wrong)


@pytest.mark.parametrize("word", [12, LANE_LIMIT, 2**64 - 1])
@pytest.mark.parametrize("radices", [(2, 2, 3), (2, 2, 2**23)])
def test_a_word_outside_its_lane_is_refused(radices: tuple[int, ...], word: int) -> None:
    layout = RowLayout.of(radices)
    outside = [word + (4 * 2**23 if layout.n_words == 2 else 0), *[0] * (layout.n_words - 1)]
    assert not authentic(layout, [row(layout, [0, 1, 2]), [outside[0] % 2**64, *outside[1:]]])


@pytest.mark.parametrize("bit", [0, 1, 23, 24, 40, 63])
@pytest.mark.parametrize("radices", [(2, 2, 3), (2, 2, 2**23)])
def test_a_wrong_authenticator_is_refused(radices: tuple[int, ...], bit: int) -> None:
    """Every bit of the last word counts, whether the codes share it or not."""
    layout = RowLayout.of(radices)
    honest = row(layout, [1, 0, 2])
    assert not authentic(layout, [[*honest[:-1], honest[-1] ^ (1 << bit)]])


def test_rows_are_eight_bytes_where_codes_have_24_bits() -> None:
    assert RowLayout.of((2, 2, 2**22)).n_words == 1
    assert RowLayout.of((2, 2, 2**22 + 1)).n_words == 2
    assert RowLayout.of((3, 2, 2**24, 2**24, 2**20)).n_words == 4


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_keys_reach_the_server_in_the_order_of_places(n_parties: int, random: object) -> None:
    """The sum of all uploads is the keys by place; a single upload holds none of them."""
    n_places = n_parties + 1
    places = random.sample(range(n_places), n_places)  # type: ignore[attr-defined]
    owned = [{p: key(p + 1) for p in places[:2]}, *({p: key(p + 1)} for p in places[2:])]
    uploads = []
    for party in range(n_parties):
        masks = [
            (1 if peer > party else -1, bytes([100 + min(party, peer), max(party, peer)] * 8))
            for peer in range(n_parties)
            if peer != party
        ]
        uploads.append(masked_keys(owned[party], n_places, masks))
    assert summed_keys(uploads) == [key(p + 1) for p in range(n_places)]
    assert not any(key(p + 1) in upload for p in range(n_places) for upload in uploads)
