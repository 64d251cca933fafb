"""Secret permutations and numbers from a key, the same for all holders of the key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.crypto import aes
from fedvalue.crypto.sorting import rank
from fedvalue.errors import InputError


def permutation(key: bytes, n: int) -> NDArray[np.int64]:
    """A pseudo-random permutation of 0 .. n-1: the order of AES_key(0), AES_key(1) and so on.

    All outputs differ, because AES is a permutation, so the order has no ties and every one of the
    n! permutations is equally likely up to AES's own distance from random.
    """
    return rank(aes.encrypt(key, aes.counter_blocks(n)))[0]


def numbers(key: bytes, n: int, low: int, high: int) -> NDArray[np.int64]:
    """N pseudo-random whole numbers from low to high, both included.

    The remainder of a 64-bit number: its bias is below (high - low) / 2^64.
    """
    stream = aes.encrypt(key, aes.counter_blocks(n))[:, 0]
    return (stream % np.uint64(high - low + 1)).astype(np.int64) + low


def row_order(key: bytes, hashes: aes.Blocks) -> NDArray[np.int64]:
    """The order of rows by AES_key(h_i), the same for every party with the same ids.

    Raises:
        InputError: Two rows have the same id.
    """
    order, repeated = rank(aes.encrypt(key, hashes))
    if repeated:
        raise InputError(f"sample ids must be unique, {repeated} occur more than once")
    return order


@njit(cache=True, nogil=True)
def taken(blocks: NDArray[np.uint64], order: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The blocks with these numbers. NumPy's `take` needs twice the time for rows of 16 bytes."""
    out = np.empty((len(order), 2), dtype=np.uint64)
    for k in range(len(order)):
        row = np.uint64(order[k])  # an unsigned index needs no check for a negative one
        out[k, 0] = blocks[row, 0]
        out[k, 1] = blocks[row, 1]
    return out
