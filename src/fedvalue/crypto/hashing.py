"""Keyed hashing of sample ids in bulk: AES-CMAC (NIST SP 800-38B) over packed ids.

A standard pseudo-random function of inputs of any length, computed for all ids at once: level by
level, the j-th block of every id goes through one AES call over a whole buffer. An id of up to 16
bytes costs one AES block. See docs/decisions/0301-keyed-hashing-of-ids.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.crypto import aes
from fedvalue.crypto.ids import PackedIds


def hash_ids(key: bytes, ids: PackedIds) -> aes.Blocks:
    """h_i = AES-CMAC(key, id_i), shape (n, 2)."""
    n = len(ids)
    cipher = aes.encryptor(key)
    whole, part = cmac_subkeys(key)
    pads = np.frombuffer(whole + part, dtype=np.uint64).reshape(2, 2)
    lengths = np.diff(ids.offsets)
    n_blocks = -(-lengths // 16)
    state = np.zeros((n + 1, 2), dtype=np.uint64)
    active = np.arange(n, dtype=np.int64)
    scratch = np.empty((aes.SLAB, 2), dtype=np.uint64)
    out = np.empty((aes.SLAB + 1, 2), dtype=np.uint64)
    level = 0
    while len(active):
        for slab in aes.slabs(len(active)):
            rows = active[slab]
            fill = scratch[: len(rows)]
            _next_blocks(ids.data, ids.offsets, rows, level, pads, state, fill.view(np.uint8))
            cipher.update_into(fill.data.cast("B"), out.data.cast("B"))
            _put(state, rows, out)
        level += 1
        active = active[n_blocks[active] > level]
    return state[:n]


def adversarial_hashes(key: bytes, n: int) -> aes.Blocks:
    """Hashes of n adversarial samples: AES of a counter under a key of their own."""
    return aes.encrypt(key, aes.counter_blocks(n))


def multiset_hash(key: bytes, hashes: Iterable[aes.Blocks]) -> bytes:
    """Σ AES_key(h_i), 16 bytes: equal for equal samples in any order and any split into batches.

    Both 64-bit halves are summed modulo 2^64. Two different multisets that do not depend on the key
    have the same sum with probability about 2^-128; against a cheat that knows the key it is no proof.
    """
    total = np.zeros(2, dtype=np.uint64)
    cipher = aes.encryptor(key)
    for some in hashes:
        for slab in aes.slabs(len(some)):
            _add_columns(aes.apply(cipher, some[slab]), total)
    return total.tobytes()


def cmac_subkeys(key: bytes) -> tuple[bytes, bytes]:
    """K1 (last block complete) and K2 (last block padded) of SP 800-38B, section 6.1."""
    zero = aes.encrypt(key, np.zeros((1, 2), dtype=np.uint64)).tobytes()
    first = _double(zero)
    return first, _double(first)


def _double(block: bytes) -> bytes:
    number = int.from_bytes(block, "big") << 1
    if number >> 128:
        number ^= (1 << 128) | 0x87  # the field polynomial of 128-bit CMAC
    return number.to_bytes(16, "big")


@njit(cache=True, nogil=True)
def _next_blocks(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    level: int,
    pads: NDArray[np.uint64],
    state: NDArray[np.uint64],
    out: NDArray[np.uint8],
) -> None:
    """XOR of each id's block `level` (padded and masked when it is the last) with its state."""
    words = out.view(np.uint64)
    for k in range(len(rows)):
        row = rows[k]
        start = offsets[row] + 16 * level
        left = offsets[row + 1] - start
        if left >= 16:  # a loop of fixed length becomes one wide move
            for j in range(16):
                out[k, j] = data[start + j]
        else:
            words[k, 0] = 0
            words[k, 1] = 0
            for j in range(left):
                out[k, j] = data[start + j]
            out[k, left] = 0x80
        words[k, 0] ^= state[row, 0]
        words[k, 1] ^= state[row, 1]
        if left <= 16:
            pad = 0 if left == 16 else 1
            words[k, 0] ^= pads[pad, 0]
            words[k, 1] ^= pads[pad, 1]


@njit(cache=True, nogil=True)
def _put(state: NDArray[np.uint64], rows: NDArray[np.int64], out: NDArray[np.uint64]) -> None:
    for k in range(len(rows)):
        state[rows[k], 0] = out[k, 0]
        state[rows[k], 1] = out[k, 1]


@njit(cache=True, nogil=True)
def _add_columns(blocks: NDArray[np.uint64], total: NDArray[np.uint64]) -> None:
    for k in range(len(blocks)):
        total[0] += blocks[k, 0]
        total[1] += blocks[k, 1]
