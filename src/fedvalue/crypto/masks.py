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


def n_lane_pairs(n_lanes: int) -> int:
    """Number of keys per peer for that many lanes."""
    return (n_lanes + 1) // 2


@njit(cache=True, nogil=True)
def _add(words: NDArray[np.uint64], blocks: NDArray[np.uint64], lane: int, width: int, plus: bool) -> None:
    for j in range(width):
        if plus:
            for i in range(len(words)):
                words[i, lane + j] += blocks[i, j]
        else:
            for i in range(len(words)):
                words[i, lane + j] -= blocks[i, j]
