"""Sorting and intersecting pseudo-random 64- and 128-bit keys in compiled code.

Keys that come out of AES are uniform, so one pass into about n buckets by the leading bits, and an
insertion sort inside each, sorts in linear time. Keys that are not uniform (many equal ones) would
make that quadratic: a bucket beyond `CROWD` is left to a general sort. Tokens are ordered by their
two little-endian 64-bit words, the first one first.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedvalue.crypto.aes import Blocks

CROWD = 2048
"""Largest bucket for insertion sort: uniform keys never get there, 255 copies of an id may."""


def argsort_blocks(keys: Blocks) -> NDArray[np.int64]:
    """The order that sorts 128-bit keys."""
    keys = np.ascontiguousarray(keys)
    n = len(keys)
    bits = max(1, min(22, (n - 1).bit_length())) if n else 1
    order, crowded = _bucket_argsort(keys, bits)
    if crowded:
        return np.lexsort((keys[:, 1], keys[:, 0])).astype(np.int64)
    return order


def sort_tokens(tokens: Blocks, payload: NDArray[np.uint64] | None) -> tuple[Blocks, NDArray[np.uint64]]:
    """Tokens in rising order, with the payload of each (empty without one)."""
    order = argsort_blocks(tokens)
    moved = payload[order] if payload is not None else np.empty(0, dtype=np.uint64)
    return tokens[order], moved


@njit(cache=True, nogil=True)
def _bucket_argsort(keys: NDArray[np.uint64], bits: int) -> tuple[NDArray[np.int64], bool]:
    n = len(keys)
    shift = np.uint64(64 - bits)
    starts = np.zeros((1 << bits) + 1, dtype=np.int64)
    for i in range(n):
        starts[np.int64(keys[i, 0] >> shift) + 1] += 1
    crowded = False
    for b in range(1 << bits):
        if starts[b + 1] > CROWD:
            crowded = True
        starts[b + 1] += starts[b]
    order = np.empty(n, dtype=np.int64)
    if crowded:
        return order, True
    high = np.empty(n, dtype=np.uint64)
    low = np.empty(n, dtype=np.uint64)
    for i in range(n):
        b = np.int64(keys[i, 0] >> shift)
        place = starts[b]
        starts[b] = place + 1
        high[place] = keys[i, 0]
        low[place] = keys[i, 1]
        order[place] = i
    # starts[b] is now the end of bucket b.
    _insertion_sort(high, low, order, 0, starts[0])
    for b in range(1, 1 << bits):
        _insertion_sort(high, low, order, starts[b - 1], starts[b])
    return order, False


@njit(cache=True, nogil=True)
def _insertion_sort(
    high: NDArray[np.uint64], low: NDArray[np.uint64], order: NDArray[np.int64], start: int, end: int
) -> None:
    for i in range(start + 1, end):
        x, y, o = high[i], low[i], order[i]
        j = i - 1
        while j >= start and (high[j] > x or (high[j] == x and low[j] > y)):
            high[j + 1] = high[j]
            low[j + 1] = low[j]
            order[j + 1] = order[j]
            j -= 1
        high[j + 1] = x
        low[j + 1] = y
        order[j + 1] = o


@njit(cache=True, nogil=True)
def rising(tokens: NDArray[np.uint64]) -> bool:
    """Whether tokens stand in strictly rising order, so that none occurs twice."""
    for i in range(1, len(tokens)):
        a, b = tokens[i - 1, 0], tokens[i, 0]
        if a > b or (a == b and tokens[i - 1, 1] >= tokens[i, 1]):
            return False
    return True


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
