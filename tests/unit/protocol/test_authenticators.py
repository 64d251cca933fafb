"""Code authenticators: the sum of all owners' tags, and nothing else, passes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.protocol.mirror.authenticators import CodeCheck, RowWeights, masked_keys, summed_keys
from fedvalue.protocol.mirror.row_layout import LANE_LIMIT, RowLayout

LAYOUTS = [
    (1, 2, 3),
    (2, 2, 3, 5),
    (4, 4, 16),
    (2, 2, 2**14),
    (2, 2, 2**14 + 1),
    (2**16, 2, 2**15),
    (2**16 + 1, 7, 2**12),
    (3, 2, 2**20, 2**20, 2, 2**24),
]
FIRST = 7
"""Number of the first row of the chunk: odd, so that its weight is the second half of a block."""


def key(place: int) -> bytes:
    return bytes([place]) * 16


def weight(place: int, row: int) -> int:
    """Half of the AES encryption of half the row's number as a 16-byte little-endian number."""
    cipher = Cipher(algorithms.AES128(key(place)), modes.ECB()).encryptor()
    block = cipher.update((row // 2).to_bytes(16, "little"))
    return int.from_bytes(block[8:] if row % 2 else block[:8], "little")


def lanes_of(layout: RowLayout, codes: list[int]) -> list[int]:
    """One row, by big integers."""
    lanes = [0] * layout.n_lanes
    for place, code in enumerate(codes):
        lanes[layout.lane[place]] += code * layout.stride[place]
    return lanes


def tag_of(codes: list[list[int]]) -> int:
    """The tag of rows from `FIRST` on, by big integers."""
    return sum(
        weight(place, FIRST + row) * code for row, one in enumerate(codes) for place, code in enumerate(one)
    ) % 2**64  # fmt: skip


def authentic(layout: RowLayout, rows: list[list[int]], tag: int) -> bool:
    check = CodeCheck(layout, [key(k) for k in range(len(layout.radices))])
    return check.authentic(np.array(rows, dtype=layout.lane_type), FIRST, tag)


def some_rows(radices: tuple[int, ...]) -> list[list[int]]:
    rng = np.random.default_rng(0)
    codes = [[int(rng.integers(r)) for r in radices] for _ in range(8)]
    return [*codes, [0] * len(radices), [r - 1 for r in radices]]


@pytest.mark.parametrize("radices", LAYOUTS)
def test_honest_rows_pass_and_every_shifted_digit_is_refused(radices: tuple[int, ...]) -> None:
    """One digit moved by one, up or down, in one row of many, also where it leaves its range."""
    layout = RowLayout.of(radices)
    codes = some_rows(radices)
    rows, tag = [lanes_of(layout, one) for one in codes], tag_of(codes)
    assert authentic(layout, rows, tag)
    modulus = 2 ** (8 * layout.lane_type.itemsize)
    for place in range(len(radices)):
        if radices[place] == 1:
            continue
        for sign in (1, -1):
            for k in (0, 8, 9):
                wrong = [list(one) for one in rows]
                lane = layout.lane[place]
                wrong[k][lane] = (wrong[k][lane] + sign * layout.stride[place]) % modulus
                assert not authentic(layout, wrong, tag)


@pytest.mark.parametrize("radices", LAYOUTS)
def test_rows_that_change_places_are_refused(radices: tuple[int, ...]) -> None:
    """The same cells in another order: what a sum over codes without weights would miss."""
    layout = RowLayout.of(radices)
    codes = some_rows(radices)
    rows, tag = [lanes_of(layout, one) for one in codes], tag_of(codes)
    rows[8], rows[9] = rows[9], rows[8]
    assert not authentic(layout, rows, tag)


@pytest.mark.parametrize("radices", [(2, 2, 3), (2, 2, 2**7), (3, 2, 2**24, 2**24, 2**20)])
def test_a_lane_outside_its_range_is_refused_whatever_the_tag(radices: tuple[int, ...]) -> None:
    """Also with the tag of the digits that are left when the excess is cut off."""
    layout = RowLayout.of(radices)
    limits = [int(limit) for limit in layout.limits()]
    assert limits[0] < 2 ** (8 * layout.lane_type.itemsize)
    assert not authentic(layout, [limits], 0)
    assert authentic(layout, [[0] * layout.n_lanes], 0)


@pytest.mark.parametrize("bit", range(0, 64, 9))
@pytest.mark.parametrize("radices", [(2, 2, 3), (2, 2, 2**23)])
def test_a_wrong_tag_is_refused(radices: tuple[int, ...], bit: int) -> None:
    """Every bit of it counts, however narrow the rows are."""
    layout, codes = RowLayout.of(radices), [[1, 0, 2], [0, 1, 1]]
    rows, tag = [lanes_of(layout, one) for one in codes], tag_of(codes)
    assert authentic(layout, rows, tag)
    assert not authentic(layout, rows, tag ^ (1 << bit))


def test_owners_tags_add_up_to_what_a_server_expects() -> None:
    """However the rows are cut: pieces of odd and even length, more rows than one slab has."""
    radices = (3, 2, 5, 4)
    layout, rng = RowLayout.of(radices), np.random.default_rng(1)
    n = 150_001
    codes = [rng.integers(0, r, n).astype(np.uint32) for r in radices]
    rows = sum(column * np.uint32(stride) for column, stride in zip(codes, layout.stride, strict=True))
    cuts = [0, 1, 4, 32_769, 70_000, n]
    tag = sum(
        RowWeights(key(place)).tag(column[start:end], FIRST + start)
        for place, column in enumerate(codes)
        for start, end in pairwise(cuts)
    )
    check = CodeCheck(layout, [key(k) for k in range(4)])
    summed = np.asarray(rows, dtype=layout.lane_type).reshape(-1, 1)
    assert check.authentic(summed, FIRST, tag)
    assert not check.authentic(summed, FIRST + 2, tag)
    summed[n - 1] = (summed[n - 1] + 1) % 120
    assert not check.authentic(summed, FIRST, tag)


@pytest.mark.parametrize("radix", [2, 3, 7, 255, 2**15 + 1, 2**24 - 1, 2**24])
def test_digits_are_exact_up_to_the_largest_lane(radix: int) -> None:
    """Around every multiple where a quotient by reciprocal could round to the wrong side."""
    limit = LANE_LIMIT // radix
    layout = RowLayout.of((radix, limit)) if limit <= 2**24 else RowLayout.of((radix, 2**24))
    top = math.prod(layout.radices)
    multiples = [q * radix + d for q in (0, 1, 2, 1000, top // radix - 1) for d in (0, 1, radix - 1)]
    rows = [value for value in multiples if value < top]
    codes = [[value % radix, value // radix] for value in rows]
    assert authentic(layout, [[value] for value in rows], tag_of(codes))


def test_rows_have_the_fewest_bytes_that_hold_every_combination() -> None:
    sizes = {(2, 2, 64): 1, (2, 2, 65): 2, (2, 2, 2**14): 2, (2, 2, 2**14 + 1): 4, (2, 2**7, 2**24): 4}
    for radices, n_bytes in sizes.items():
        assert RowLayout.of(radices).row_bytes == n_bytes
    assert RowLayout.of((2, 2**7, 2**24, 2)).row_bytes == 8
    assert RowLayout.of((3, 2, 2**24, 2**24, 2**20)).row_bytes == 12


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
