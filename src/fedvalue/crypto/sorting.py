"""Sorting and intersecting pseudo-random 128-bit keys in compiled code.

Keys that come out of AES are uniform, so they are dealt by their leading bits, first into parts that
fit the cache, then inside each part into buckets of about one key, and an insertion sort finishes
each bucket: linear time. Keys that are not uniform (many equal ones) would make that quadratic; a
bucket beyond `CROWD` is left to a general sort. Keys are ordered by their two little-endian 64-bit
words, the first one first.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedvalue.crypto.aes import Blocks

CROWD = 2048
"""Largest bucket for insertion sort: uniform keys never get there, 255 copies of an id may."""

PART = 1024
"""Keys per part: 24 bytes each stay in the first-level cache."""


def sort_blocks(keys: Blocks) -> tuple[Blocks, NDArray[np.int64]]:
    """128-bit keys in rising order, and where each of them stood."""
    keys = np.ascontiguousarray(keys)
    part_bits = min(12, max(1, (len(keys) // PART).bit_length()))
    ranked, order, crowded = _deal_and_sort(keys, part_bits)
    if crowded:
        order = np.lexsort((keys[:, 1], keys[:, 0])).astype(np.int64)
        return keys[order], order
    return ranked, order


def sort_tokens(tokens: Blocks, payload: NDArray[np.uint64] | None) -> tuple[Blocks, NDArray[np.uint64]]:
    """Tokens in rising order, with the payload of each (empty without one)."""
    ranked, order = sort_blocks(tokens)
    return ranked, np.empty(0, dtype=np.uint64) if payload is None else payload[order]


@njit(cache=True, nogil=True)
def _deal_and_sort(
    keys: NDArray[np.uint64], part_bits: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], bool]:
    n = len(keys)
    n_parts = 1 << part_bits
    shift = np.uint64(64 - part_bits)
    ends = np.zeros(n_parts + 1, dtype=np.int64)
    for i in range(n):
        ends[np.int64(keys[i, 0] >> shift) + 1] += 1
    largest = ends.max()
    for k in range(n_parts):
        ends[k + 1] += ends[k]
    ranked = np.empty((n, 2), dtype=np.uint64)
    order = np.empty(n, dtype=np.int64)
    for i in range(n):
        part = np.int64(keys[i, 0] >> shift)
        place = ends[part]
        ends[part] = place + 1
        ranked[place, 0] = keys[i, 0]
        ranked[place, 1] = keys[i, 1]
        order[place] = i
    scratch = np.empty((largest, 2), dtype=np.uint64)
    scratch_order = np.empty(largest, dtype=np.int64)
    for k in range(n_parts):
        start, end = ends[k - 1] if k else ends[n_parts] - n, ends[k]
        m = end - start
        scratch[:m] = ranked[start:end]
        scratch_order[:m] = order[start:end]
        if not _sort_part(scratch[:m], scratch_order[:m], ranked[start:end], order[start:end], part_bits):
            return ranked, order, True
    return ranked, order, False


@njit(cache=True, nogil=True)
def _sort_part(
    keys: NDArray[np.uint64],
    places: NDArray[np.int64],
    ranked: NDArray[np.uint64],
    order: NDArray[np.int64],
    part_bits: int,
) -> bool:
    """Sort keys that share their first `part_bits` bits; False if a bucket is crowded."""
    bits = 1
    while bits < 16 and (1 << bits) < len(keys):
        bits += 1
    lead, shift = np.uint64(part_bits), np.uint64(64 - bits)
    ends = np.zeros((1 << bits) + 1, dtype=np.int64)
    for i in range(len(keys)):
        ends[np.int64((keys[i, 0] << lead) >> shift) + 1] += 1
    if ends.max() > CROWD:
        return False
    for k in range(1 << bits):
        ends[k + 1] += ends[k]
    starts = ends.copy()
    for i in range(len(keys)):
        bucket = np.int64((keys[i, 0] << lead) >> shift)
        x, y = keys[i, 0], keys[i, 1]
        j = ends[bucket]
        ends[bucket] = j + 1
        while j > starts[bucket] and (
            ranked[j - 1, 0] > x or (ranked[j - 1, 0] == x and ranked[j - 1, 1] > y)
        ):
            ranked[j, 0] = ranked[j - 1, 0]
            ranked[j, 1] = ranked[j - 1, 1]
            order[j] = order[j - 1]
            j -= 1
        ranked[j, 0] = x
        ranked[j, 1] = y
        order[j] = places[i]
    return True


@njit(cache=True, nogil=True)
def n_rises(keys: NDArray[np.uint64]) -> int:
    """How many keys are larger than the one before."""
    n = 0
    for i in range(1, len(keys)):
        a, b = keys[i - 1, 0], keys[i, 0]
        n += a < b or (a == b and keys[i - 1, 1] < keys[i, 1])
    return n


def n_repeated(ranked: Blocks) -> int:
    """How many of the keys, in rising order, are equal to the one before."""
    return max(0, len(ranked) - 1 - int(n_rises(ranked)))


def rising(keys: Blocks) -> bool:
    """Whether keys stand in strictly rising order, so that none occurs twice."""
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
