"""Sorting and intersecting pseudo-random 128-bit keys in compiled code.

Keys that come out of AES are uniform, so they are dealt by their leading bits, first into parts that
fit the cache, then inside each part into buckets of about one key, and an insertion pass finishes:
linear time. One word per key is moved: its leading bits, with its number in place of the rest. Whole keys are
compared only where those bits are equal. Keys that are not uniform (many equal ones) would make this
quadratic, so a part with a bucket beyond `CROWD` is left to a general sort. Keys are ordered by their two
little-endian 64-bit words, the first word first; equal keys keep their order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.crypto.aes import Blocks

CROWD = 2048
"""Largest bucket for insertion: uniform keys never get there, 255 copies of an id may."""

PART = 1024
"""Keys per part: 8 bytes each, twice, stay in the first-level cache."""


def rank(keys: Blocks) -> tuple[NDArray[np.int64], int]:
    """The order of the keys, rising, and the number of keys equal to their predecessor."""
    keys = np.ascontiguousarray(keys)
    part_bits = min(12, max(1, (len(keys) // PART).bit_length()))
    number_bits = max(1, (len(keys) - 1).bit_length())
    order, n_equal = _deal_and_sort(keys, part_bits, np.uint64((1 << number_bits) - 1))
    if n_equal >= 0:
        return order, n_equal
    order = np.lexsort((keys[:, 1], keys[:, 0])).astype(np.int64)
    return order, len(keys) - 1 - int(n_rises(keys[order]))


def sort_blocks(keys: Blocks) -> tuple[Blocks, NDArray[np.int64]]:
    """128-bit keys in rising order, and the original place of each."""
    order, _ = rank(keys)
    return np.take(keys, order, axis=0), order


def sort_tokens(tokens: Blocks, payload: NDArray[np.uint64] | None) -> tuple[Blocks, NDArray[np.uint64]]:
    """Tokens in rising order, with the payload of each (empty without one)."""
    ranked, order = sort_blocks(tokens)
    return ranked, np.empty(0, dtype=np.uint64) if payload is None else payload[order]


def n_repeated(keys: Blocks) -> int:
    """Number of keys that repeat an earlier key."""
    return rank(keys)[1]


@njit(cache=True, nogil=True)
def _deal_and_sort(
    keys: NDArray[np.uint64], part_bits: int, numbers: np.uint64
) -> tuple[NDArray[np.int64], int]:
    """The order of keys and the number of equal neighbours; -1 if a bucket is crowded.

    `numbers` masks the low bits of a word, which hold the number of its key.
    """
    n_parts = 1 << part_bits
    shift = np.uint64(64 - part_bits)
    one = np.uint64(1)  # an unsigned index needs no check for a negative one
    ends = np.zeros(n_parts + 1, dtype=np.int64)
    for i in range(len(keys)):
        ends[(keys[i, 0] >> shift) + one] += 1
    scratch = np.empty(ends.max(), dtype=np.uint64)
    buckets = np.empty((1 << 16) + 1, dtype=np.int64)
    for k in range(n_parts):
        ends[k + 1] += ends[k]
    words = np.empty(len(keys), dtype=np.uint64)
    for i in range(len(keys)):
        part = keys[i, 0] >> shift
        words[np.uint64(ends[part])] = (keys[i, 0] & ~numbers) | np.uint64(i)
        ends[part] += 1
    n_equal = 0
    start = 0
    for k in range(n_parts):
        if not _deal_part(words[start : ends[k]], scratch, buckets, part_bits):
            return words.view(np.int64), -1
        n_equal += _insert(words[start : ends[k]], keys, numbers)
        start = ends[k]
    for i in range(len(words)):
        words[i] &= numbers
    return words.view(np.int64), n_equal


@njit(cache=True, nogil=True)
def _deal_part(
    words: NDArray[np.uint64], scratch: NDArray[np.uint64], buckets: NDArray[np.int64], part_bits: int
) -> bool:
    """Deal words that share their first `part_bits` bits into buckets; False if one is crowded."""
    bits = 1
    while bits < 16 and (1 << bits) < len(words):
        bits += 1
    lead, shift = np.uint64(part_bits), np.uint64(64 - bits)
    one = np.uint64(1)
    ends = buckets[: (1 << bits) + 1]
    ends[:] = 0
    for i in range(len(words)):
        scratch[i] = words[i]
        ends[((words[i] << lead) >> shift) + one] += 1
    if ends.max() > CROWD:
        return False
    for k in range(1 << bits):
        ends[k + 1] += ends[k]
    for i in range(len(words)):
        bucket = (scratch[i] << lead) >> shift
        words[np.uint64(ends[bucket])] = scratch[i]
        ends[bucket] += 1
    return True


@njit(cache=True, nogil=True)
def _insert(words: NDArray[np.uint64], keys: NDArray[np.uint64], numbers: np.uint64) -> int:
    """Insertion sort of nearly sorted words; returns the number of keys equal to their predecessor."""
    n_equal = 0
    none, one = np.uint64(0), np.uint64(1)
    for i in range(1, len(words)):
        j = np.uint64(i)
        word = words[j]
        while j > none:
            before = words[j - one]
            if before ^ word > numbers:
                if before < word:
                    break
            else:
                x, y = keys[np.int64(word & numbers)], keys[np.int64(before & numbers)]
                if y[0] == x[0] and y[1] == x[1]:
                    n_equal += 1
                    break
                if y[0] < x[0] or (y[0] == x[0] and y[1] < x[1]):
                    break
            words[j] = before
            j -= one
        words[j] = word
    return n_equal


@njit(cache=True, nogil=True)
def n_rises(keys: NDArray[np.uint64]) -> int:
    """Number of keys larger than their predecessor."""
    n = 0
    for i in range(1, len(keys)):
        a, b = keys[i - 1, 0], keys[i, 0]
        n += a < b or (a == b and keys[i - 1, 1] < keys[i, 1])
    return n


def rising(keys: Blocks) -> bool:
    """The keys are in strictly rising order, so none occurs twice."""
    return bool(n_rises(keys) == max(0, len(keys) - 1))


@njit(cache=True, nogil=True)
def intersect(
    left: NDArray[np.uint64],
    left_sums: NDArray[np.uint64],
    right: NDArray[np.uint64],
    right_sums: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Tokens in both rising lists, and the sum of their payloads modulo 2^64.

    Payloads are per token, or empty for both lists.
    """
    with_sums = len(left_sums) > 0
    out = np.empty_like(left)
    sums = np.empty_like(left_sums)
    n = 0
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left[i, 0], right[j, 0]
        if a < b or (a == b and left[i, 1] < right[j, 1]):
            i += 1
        elif a > b or left[i, 1] > right[j, 1]:
            j += 1
        else:
            out[n, 0] = a
            out[n, 1] = left[i, 1]
            if with_sums:
                sums[n] = left_sums[i] + right_sums[j]
            n += 1
            i += 1
            j += 1
    return out[:n].copy(), sums[: n if with_sums else 0].copy()
