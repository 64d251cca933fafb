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
    state = np.empty((n + 1, 2), dtype=np.uint64)
    scratch = np.empty((aes.SLAB, 2), dtype=np.uint64)
    for slab in aes.slabs(n):
        fill = scratch[: slab.stop - slab.start]
        _first_blocks(ids.data, ids.offsets, slab.start, pads, fill)
        cipher.update_into(fill.data.cast("B"), state[slab.start : slab.stop + 1].data.cast("B"))
    lengths = np.diff(ids.offsets)
    out = np.empty((aes.SLAB + 1, 2), dtype=np.uint64)
    level = 1
    active = np.flatnonzero(lengths > 16)
    while len(active):
        for slab in aes.slabs(len(active)):
            rows = active[slab]
            fill = scratch[: len(rows)]
            _next_blocks(ids.data, ids.offsets, rows, level, pads, state, fill)
            cipher.update_into(fill.data.cast("B"), out.data.cast("B"))
            _put(state, rows, out)
        level += 1
        active = active[lengths[active] > 16 * level]
    return state[:n]


def adversarial_hashes(key: bytes, n: int) -> aes.Blocks:
    """Hashes of n adversarial samples: AES of a counter under a separate key."""
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


@njit(cache=True, nogil=True, inline="always")
def _last_block(
    low: np.uint64, high: np.uint64, left: int, pads: NDArray[np.uint64]
) -> tuple[np.uint64, np.uint64]:
    """A block with `left` bytes of an id in front, at most 16: padded if it is not full, and masked."""
    one = np.uint64(1)
    if left == 16:
        return low ^ pads[0, 0], high ^ pads[0, 1]
    if left >= 8:
        shift = np.uint64(8 * left - 64)
        high = (high & ((one << shift) - one)) | np.uint64(0x80) << shift
    else:
        shift = np.uint64(8 * left)
        low, high = (low & ((one << shift) - one)) | np.uint64(0x80) << shift, np.uint64(0)
    return low ^ pads[1, 0], high ^ pads[1, 1]


@njit(cache=True, nogil=True)
def _first_blocks(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    first: int,
    pads: NDArray[np.uint64],
    out: NDArray[np.uint64],
) -> None:
    """The first blocks of the ids from number `first` on."""
    for k in range(len(out)):
        start = offsets[first + k]
        left = offsets[first + k + 1] - start
        place = np.uint64(start)  # an unsigned index needs no check for a negative one
        low = high = np.uint64(0)
        if start + 16 <= len(data):  # loops of fixed length become wide moves
            for j in range(8):
                low |= np.uint64(data[place + np.uint64(j)]) << np.uint64(8 * j)
                high |= np.uint64(data[place + np.uint64(j + 8)]) << np.uint64(8 * j)
        else:
            for j in range(min(left, 8)):
                low |= np.uint64(data[place + np.uint64(j)]) << np.uint64(8 * j)
            for j in range(8, min(left, 16)):
                high |= np.uint64(data[place + np.uint64(j)]) << np.uint64(8 * j - 64)
        if left <= 16:
            low, high = _last_block(low, high, left, pads)
        out[k, 0], out[k, 1] = low, high


@njit(cache=True, nogil=True)
def _next_blocks(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    level: int,
    pads: NDArray[np.uint64],
    state: NDArray[np.uint64],
    out: NDArray[np.uint64],
) -> None:
    """Block `level` of some ids, XOR their state."""
    view = out.view(np.uint8)
    for k in range(len(rows)):
        row = rows[k]
        start = offsets[row] + 16 * level
        left = offsets[row + 1] - start
        for j in range(min(left, 16)):
            view[k, j] = data[start + j]
        if left <= 16:
            out[k, 0], out[k, 1] = _last_block(out[k, 0], out[k, 1], left, pads)
        out[k, 0] ^= state[row, 0]
        out[k, 1] ^= state[row, 1]


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
