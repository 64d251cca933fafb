"""Bulk kernels against plain loops: AES-CMAC of the library, sorting of NumPy, masks that cancel."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.cmac import CMAC
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.crypto import aes
from fedvalue.crypto.hashing import hash_ids
from fedvalue.crypto.ids import canonical_ids
from fedvalue.crypto.masks import RowMasks, add_masks, masks_of, n_row_keys
from fedvalue.crypto.permute import permutation, row_order
from fedvalue.crypto.sorting import intersect, rank, rising, sort_blocks, sort_tokens
from fedvalue.crypto.tokens import FORGED, INCOMPLETE, TokenKeys, check_tokens, token_blocks, tokens
from fedvalue.errors import InputError

KEY = bytes(range(16))
OTHER = bytes(range(16, 32))
RNG = np.random.default_rng(7)


def random_blocks(n: int) -> aes.Blocks:
    return RNG.integers(0, 2**64, size=(n, 2), dtype=np.uint64)


@given(
    st.lists(st.binary(min_size=1, max_size=70), min_size=1, max_size=40), st.binary(min_size=16, max_size=16)
)
def test_hashes_are_aes_cmac(ids: list[bytes], key: bytes) -> None:
    """Equal to the library's CMAC for ids of every length around the block size."""
    hashes = hash_ids(key, canonical_ids(ids))
    for sample, row in zip(ids, hashes, strict=True):
        state = CMAC(algorithms.AES(key))
        state.update(sample)
        assert row.tobytes() == state.finalize()


def test_hashes_of_more_ids_than_a_slab_have() -> None:
    """Slab borders do not show: the hash of an id does not depend on its place."""
    ids = [f"{k:0{1 + k % 40}d}" for k in range(aes.SLAB + 5)]
    whole = hash_ids(KEY, canonical_ids(ids))
    for k in (0, 39, aes.SLAB - 1, aes.SLAB, aes.SLAB + 4):
        assert np.array_equal(whole[k], hash_ids(KEY, canonical_ids([ids[k]]))[0])


@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000, 1024, 1025, 30_000])
def test_sort_equals_numpys(n: int) -> None:
    keys = random_blocks(n)
    ranked, order = sort_blocks(keys)
    expected = np.lexsort((keys[:, 1], keys[:, 0]))
    assert np.array_equal(keys[expected], ranked)
    assert np.array_equal(keys[order], ranked)
    assert sorted(order.tolist()) == list(range(n))


def test_sort_of_keys_that_are_not_uniform() -> None:
    """Equal keys, keys with a common beginning: no quadratic time, the right order."""
    for keys in (
        np.zeros((50_000, 2), dtype=np.uint64),
        np.column_stack([np.zeros(50_000, dtype=np.uint64), RNG.integers(0, 9, 50_000).astype(np.uint64)]),
        np.column_stack([RNG.integers(0, 50, 20_000).astype(np.uint64), random_blocks(20_000)[:, 0]]),
    ):
        ranked, order = sort_blocks(keys)
        assert np.array_equal(ranked, keys[np.lexsort((keys[:, 1], keys[:, 0]))])
        assert np.array_equal(ranked, keys[order])


@pytest.mark.parametrize("n", [2, 1000, 30_000])
def test_sort_of_keys_whose_leading_bits_are_equal(n: int) -> None:
    """Where the leading bits are equal the whole keys decide; equal keys stay as they stood."""
    keys = random_blocks(n)
    half = n // 2
    # Neighbours that differ in the lowest bit of the first word, in the second word, or not at all.
    keys[half : 2 * half] = keys[:half]
    keys[half : 2 * half : 3, 0] ^= np.uint64(1)
    keys[half + 1 : 2 * half : 3, 1] ^= np.uint64(1)
    order, n_equal = rank(keys)
    assert np.array_equal(order, np.lexsort((keys[:, 1], keys[:, 0])))
    assert n_equal == n - len(np.unique(keys, axis=0))


def test_rising_means_strictly() -> None:
    keys, _ = sort_blocks(random_blocks(100))
    assert rising(keys)
    assert not rising(keys[::-1].copy())
    assert not rising(np.repeat(keys, 2, axis=0))
    assert rising(keys[:0])
    assert rising(keys[:1])


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.booleans())
def test_intersection_equals_pythons(left: set[int], right: set[int], with_sums: bool) -> None:
    def as_tokens(members: set[int]) -> aes.Blocks:
        # Half of the order is decided by the second word.
        rows = [(k // 2, k % 2) for k in sorted(members)]
        return np.array(rows, dtype=np.uint64).reshape(-1, 2)

    def sums(members: set[int], shift: int) -> np.ndarray:
        return np.array([k + shift for k in sorted(members)] if with_sums else [], dtype=np.uint64)

    common, total = intersect(as_tokens(left), sums(left, 0), as_tokens(right), sums(right, 2**63))
    expected = sorted(left & right)
    assert [int(a) * 2 + int(b) for a, b in common] == expected
    assert total.tolist() == ([2 * k + 2**63 for k in expected] if with_sums and left else [])


def test_permutation_holds_every_number_once() -> None:
    for n in (1, 2, 9, 1000):
        assert sorted(permutation(KEY, n).tolist()) == list(range(n))
    assert permutation(KEY, 20).tolist() != permutation(OTHER, 20).tolist()


def test_row_order_depends_on_ids_and_key_only() -> None:
    hashes = random_blocks(500)
    shuffle = RNG.permutation(500)
    order = row_order(KEY, hashes)
    assert np.array_equal(hashes[shuffle][row_order(KEY, hashes[shuffle])], hashes[order])
    assert not np.array_equal(row_order(OTHER, hashes), order)


def test_row_order_refuses_a_repeated_id() -> None:
    hashes = random_blocks(500)
    hashes[17] = hashes[400]
    with pytest.raises(InputError, match="unique, 1 occur"):
        row_order(KEY, hashes)


@pytest.mark.parametrize("n_lanes", [1, 2, 3, 5])
def test_masks_of_all_parties_cancel(n_lanes: int) -> None:
    """Over all parties the masks add up to 0; over all but one they do not."""
    n_parties, hashes = 4, random_blocks(aes.SLAB + 3)
    keys = {(a, b): [bytes([a, b, k] + [0] * 13) for k in range(3)] for a in range(4) for b in range(a)}
    total = np.zeros((len(hashes), n_lanes), dtype=np.uint64)
    for party in range(n_parties):
        peers = [
            (1 if peer > party else -1, keys[max(party, peer), min(party, peer)][: (n_lanes + 1) // 2])
            for peer in range(n_parties)
            if peer != party
        ]
        if party == n_parties - 1:
            assert len(np.unique(total)) == total.size  # random words so far, no two alike
        add_masks(total, hashes, peers)
    assert not total.any()


@pytest.mark.parametrize(("n_lanes", "n_keys"), [(1, 1), (2, 1), (3, 2), (6, 2), (7, 3)])
def test_masks_of_narrow_rows_and_of_their_tags_cancel(n_lanes: int, n_keys: int) -> None:
    """Over all parties; and no part of a key's bits masks two lanes."""
    n_parties, hashes = 3, random_blocks(1000)
    assert n_row_keys(n_lanes) == n_keys
    keys = {(a, b): [bytes([a, b, k] + [0] * 13) for k in range(n_keys)] for a in range(3) for b in range(a)}
    total, tag = np.zeros((len(hashes), n_lanes), dtype=np.uint32), 0
    for party in range(n_parties):
        peers = [
            (1 if peer > party else -1, keys[max(party, peer), min(party, peer)])
            for peer in range(n_parties)
            if peer != party
        ]
        if party == n_parties - 1:
            assert tag % 2**64
            # 1000 random words of 32 bits have two alike with probability 1e-4; lanes must not be alike.
            assert all(len(np.unique(total[:, lane])) > 990 for lane in range(n_lanes))
            assert all(
                np.count_nonzero(total[:, a] == total[:, b]) < 3 for a in range(n_lanes) for b in range(a)
            )
        tag += RowMasks(peers).add(total, hashes)
    assert not total.any()
    assert tag % 2**64 == 0


def test_a_row_of_another_person_cancels_neither_in_the_row_nor_in_the_tag() -> None:
    """One id differs: its row and the tag of all rows stay random."""
    hashes, key = random_blocks(100), bytes(range(16))
    others = hashes.copy()
    others[17] = random_blocks(101)[100]
    rows = np.zeros((100, 1), dtype=np.uint32)
    tag = RowMasks([(1, [key])]).add(rows, hashes) + RowMasks([(-1, [key])]).add(rows, others)
    assert np.flatnonzero(rows).tolist() == [17]
    assert tag % 2**64


def test_mask_depends_on_the_row_not_its_place() -> None:
    hashes = random_blocks(100)
    words = masks_of(hashes, [(1, KEY), (-1, OTHER)])
    assert np.array_equal(masks_of(hashes[::-1], [(1, KEY), (-1, OTHER)]), words[::-1])


class TestCheckTokens:
    KEYS = TokenKeys(KEY, OTHER)
    Q = 3

    def made(self, n: int) -> tuple[aes.Blocks, np.ndarray]:
        blocks = token_blocks(self.KEYS, random_blocks(n), self.Q)
        ranked, sums = sort_tokens(tokens(self.KEYS, blocks), aes.encrypt(b"v" * 16, blocks)[:, 0])
        return ranked, sums

    def verdict(self, tokens: aes.Blocks, sums: np.ndarray | None = None) -> int:
        return check_tokens(OTHER, tokens, self.Q, sums, b"v" * 16)

    def test_complete_groups_pass(self) -> None:
        for n in (0, 1, 50):
            tokens, sums = self.made(n)
            assert self.verdict(tokens) == 3 * n
            assert self.verdict(tokens, sums) == 3 * n

    def test_incomplete_groups_do_not(self) -> None:
        tokens, _ = self.made(20)
        assert self.verdict(tokens[1:]) == INCOMPLETE
        assert self.verdict(tokens[3:]) == INCOMPLETE  # three tokens of (almost surely) three samples
        assert self.verdict(np.concatenate([tokens[:-1], tokens[:1]])) == INCOMPLETE
        assert self.verdict(np.concatenate([tokens, tokens[:3]])) == INCOMPLETE
        assert self.verdict(np.concatenate([tokens, random_blocks(3)])) == INCOMPLETE

    def test_same_group_twice_does_not(self) -> None:
        tokens, _ = self.made(1)
        assert self.verdict(np.concatenate([tokens, tokens])) == INCOMPLETE

    def test_tokens_under_another_key_do_not(self) -> None:
        tokens, _ = self.made(20)
        assert check_tokens(KEY, tokens, self.Q, None, KEY) == INCOMPLETE

    def test_a_wrong_authenticator_does_not(self) -> None:
        tokens, sums = self.made(20)
        wrong = sums.copy()
        wrong[7] += np.uint64(1)
        assert self.verdict(tokens, wrong) == FORGED
        assert self.verdict(tokens, sums[::-1].copy()) == FORGED
        assert self.verdict(tokens, sums[:-1]) == FORGED

    def test_groups_that_differ_in_their_last_two_bytes_are_told_apart(self) -> None:
        """g has ten bytes; the last two stand in the second word of a block."""
        blocks = np.array([[5, tail | (copy << 16)] for tail in (1, 2) for copy in range(3)], dtype=np.uint64)
        assert self.verdict(aes.encrypt(OTHER, blocks)) == 6
        assert self.verdict(aes.encrypt(OTHER, blocks[1:])) == INCOMPLETE
        mixed = blocks[[0, 4, 2]]
        assert self.verdict(aes.encrypt(OTHER, mixed)) == INCOMPLETE
