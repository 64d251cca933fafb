"""Zero-sum masks: pseudo-random numbers per row that cancel when all parties' are added.

For parties in a fixed order, party p adds F_{pp'}(h_i) for every later p' and subtracts it for every
earlier one, modulo 2^64, F = AES under a key that only the two of them have. The mask comes from the
row's identity h_i, not from its position: a row that is not the same person at every party does not
cancel, instead of silently joining the wrong people.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.crypto import aes


def add_masks(
    words: NDArray[np.uint64], hashes: aes.Blocks, keys: Sequence[tuple[int, Sequence[bytes]]]
) -> None:
    """Add a party's masks to its words, in place.

    Args:
        words: Shape (n_rows, n_lanes).
        hashes: h_i of the same rows.
        keys: Per peer: +1 if it stands later in the order of parties, -1 if earlier, and one key
            per pair of lanes (AES gives 128 bits, two lanes).
    """
    n_lanes = words.shape[1]
    ciphers = [(sign > 0, [aes.encryptor(key) for key in lane_keys]) for sign, lane_keys in keys]
    buffer = np.empty((min(len(words), aes.SLAB) + 1, 2), dtype=np.uint64)
    for slab in aes.slabs(len(words)):
        block = np.ascontiguousarray(hashes[slab]).data.cast("B")
        part = words[slab]
        for plus, lane_ciphers in ciphers:
            for pair, cipher in enumerate(lane_ciphers):
                cipher.update_into(block, buffer.data.cast("B"))
                _add(part, buffer, 2 * pair, min(2, n_lanes - 2 * pair), plus)


def masks_of(hashes: aes.Blocks, keys: Sequence[tuple[int, bytes]]) -> NDArray[np.uint64]:
    """A party's masks alone, one lane, shape (n_rows,)."""
    words = np.zeros((len(hashes), 1), dtype=np.uint64)
    add_masks(words, hashes, [(sign, [key]) for sign, key in keys])
    return words[:, 0]


class RowMasks:
    """A party's masks of narrow rows and of their tags.

    A block under a peer's first key has 64 bits for the first two lanes and 64 for the tag, whose mask is the
    sum over its rows modulo 2^64. A block under every further key has 128 bits for four lanes.

    Args:
        keys: As for `add_masks`, `n_row_keys` per peer.
    """

    def __init__(self, keys: Sequence[tuple[int, Sequence[bytes]]]) -> None:
        self._ciphers = [(sign, [aes.encryptor(key) for key in row_keys]) for sign, row_keys in keys]
        self._buffer = np.empty((aes.SLAB + 1, 2), dtype=np.uint64)

    def add(self, rows: NDArray[np.uint32], hashes: aes.Blocks) -> int:
        """Add the masks to at most `aes.SLAB` rows, in place, and return that of their tag.

        Args:
            rows: Shape (n_rows, n_lanes). Masks of 32 bits are added modulo 2^32; whoever sends fewer bits of
                a lane drops the upper ones of the sum.
            hashes: h_i of the same rows.
        """
        block, blocks = hashes.data.cast("B"), self._buffer
        total = 0
        for sign, (first, *others) in self._ciphers:
            first.update_into(block, blocks.data.cast("B"))
            total += sign * int(_add_first_lanes(rows, blocks, sign > 0))
            for k, cipher in enumerate(others):
                cipher.update_into(block, blocks.data.cast("B"))
                _add_lanes(rows, blocks, 4 * k + 2, sign > 0)
        return total % 2**64


def n_row_keys(n_lanes: int) -> int:
    """Number of keys per peer for the masks of rows of that many lanes and of their tag."""
    return 1 + (max(n_lanes, 2) + 1) // 4


@njit(cache=True, nogil=True)
def _add(words: NDArray[np.uint64], blocks: NDArray[np.uint64], lane: int, width: int, plus: bool) -> None:
    for j in range(width):
        if plus:
            for i in range(len(words)):
                words[i, lane + j] += blocks[i, j]
        else:
            for i in range(len(words)):
                words[i, lane + j] -= blocks[i, j]


@njit(cache=True, nogil=True)
def _add_first_lanes(rows: NDArray[np.uint32], blocks: NDArray[np.uint64], plus: bool) -> np.uint64:
    """Masks of the first two lanes, from the first half of each block; the sum of all second halves."""
    total = np.uint64(0)
    two = rows.shape[1] > 1
    for i in range(len(rows)):
        low, high = np.uint32(blocks[i, 0]), np.uint32(blocks[i, 0] >> np.uint64(32))
        total += blocks[i, 1]
        if plus:
            rows[i, 0] += low
            if two:
                rows[i, 1] += high
        else:
            rows[i, 0] -= low
            if two:
                rows[i, 1] -= high
    return total


@njit(cache=True, nogil=True)
def _add_lanes(rows: NDArray[np.uint32], blocks: NDArray[np.uint64], lane: int, plus: bool) -> None:
    """Masks of up to four lanes from `lane` on."""
    for j in range(min(4, rows.shape[1] - lane)):
        half, shift = j // 2, np.uint64(32 * (j % 2))
        for i in range(len(rows)):
            mask = np.uint32(blocks[i, half] >> shift)
            if plus:
                rows[i, lane + j] += mask
            else:
                rows[i, lane + j] -= mask
