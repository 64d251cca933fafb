"""Compiled walks behind `interaction`: conditional entropies of all coalitions, and of sampled ones."""

# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
# Compiled functions take their types from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.statistics.blocks import refine


@njit(cache=True, nogil=True)
def impurity(label, count, items, starts, n_blocks):
    """Sum n h of the given blocks; blocks that are pure in Y are dropped, in place.

    Returns:
        (blocks left, sum over samples of -ln p(y | block)).
    """
    kept = 0
    place = 0
    lo = 0
    entropy = 0.0
    for block in range(n_blocks):
        hi = starts[block + 1]
        if label[items[lo]] != label[items[hi - 1]]:
            total = 0
            inner = 0.0
            j = lo
            while j < hi:
                run = 0
                first = label[items[j]]
                while j < hi and label[items[j]] == first:
                    run += count[items[j]]
                    items[place] = items[j]
                    place += 1
                    j += 1
                inner += run * np.log(run)
                total += run
            entropy += total * np.log(total) - inner
            kept += 1
            starts[kept] = place
        lo = hi
    return kept, entropy


@njit(cache=True, nogil=True)
def entropies(codes, label, count, start, width, budget):
    """Table of n h(S) of all 2^p coalitions by bit mask, and the item visits it took.

    Beyond `budget` visits the walk stops and the table is not complete.
    """
    p, m = codes.shape
    table = np.zeros(1 << p)
    items = np.empty((p + 1, m), dtype=np.int64)
    starts = np.zeros((p + 1, m + 1), dtype=np.int64)
    blocks = np.zeros(p + 1, dtype=np.int64)
    mask = np.zeros(p + 1, dtype=np.int64)
    last = np.zeros(p + 1, dtype=np.int64)
    following = np.zeros(p + 1, dtype=np.int64)
    size = np.zeros(width, dtype=np.int64)
    seen = np.empty(m, dtype=np.int64)
    for j in range(m):
        items[0, j] = j
    starts[0, : len(start)] = start
    blocks[0], table[0] = impurity(label, count, items[0], starts[0], len(start) - 1)
    last[0] = p
    depth = 0
    work = 0
    while depth >= 0:
        d = following[depth]
        if d >= last[depth] or blocks[depth] == 0:
            depth -= 1
            continue
        following[depth] += 1
        work += starts[depth, blocks[depth]]
        if work > budget:
            return table, work
        child = depth + 1
        blocks[child] = refine(
            codes[d], items[depth], starts[depth], blocks[depth], items[child], starts[child], size, seen
        )
        mask[child] = mask[depth] | (1 << d)
        blocks[child], table[mask[child]] = impurity(label, count, items[child], starts[child], blocks[child])
        last[child] = d
        following[child] = 0
        depth = child
    return table, work


@njit(cache=True, nogil=True)
def exact_interactions(table, p, both, one, none):
    """Sum over S of table[S] times a weight by |S| and by how many of {i, j} are in S, shape (p, p)."""
    everywhere = 0.0
    with_one = np.zeros(p)
    with_two = np.zeros((p, p))
    members = np.empty(p, dtype=np.int64)
    for mask in range(1 << p):
        s = 0
        for d in range(p):
            if mask >> d & 1:
                members[s] = d
                s += 1
        everywhere += none[s] * table[mask]
        first = (one[s] - none[s]) * table[mask]
        second = (both[s] - 2.0 * one[s] + none[s]) * table[mask]
        for a in range(s):
            with_one[members[a]] += first
            for b in range(a):
                with_two[members[a], members[b]] += second
    out = np.zeros((p, p))
    for a in range(p):
        for b in range(a):
            out[a, b] = everywhere + with_one[a] + with_one[b] + with_two[a, b]
            out[b, a] = out[a, b]
    return out


@njit(cache=True, nogil=True)
def sampled_interactions(codes, label, count, start, width, orders):
    """Sums, sums of squares and numbers of observed second differences of n val, each (p, p).

    Two neighbours i, j in a random order are an observation of their interaction behind the parties before
    them: that set has every size 0..p-2 equally often, which is the weight of the index.
    """
    p, m = codes.shape
    total = np.zeros((p, p))
    square = np.zeros((p, p))
    times = np.zeros((p, p), dtype=np.int64)
    items = np.empty((3, m), dtype=np.int64)
    starts = np.zeros((3, m + 1), dtype=np.int64)
    root_items = np.arange(m)
    root_starts = np.zeros(m + 1, dtype=np.int64)
    root_starts[: len(start)] = start
    root_blocks, root_entropy = impurity(label, count, root_items, root_starts, len(start) - 1)
    size = np.zeros(width, dtype=np.int64)
    seen = np.empty(m, dtype=np.int64)
    for k in range(orders.shape[0]):
        n_blocks = root_blocks
        h = root_entropy
        items[0, : root_starts[n_blocks]] = root_items[: root_starts[n_blocks]]
        starts[0, : n_blocks + 1] = root_starts[: n_blocks + 1]
        here = 0
        for step in range(p - 1):
            i = orders[k, step]
            j = orders[k, step + 1]
            there = 1 - here
            h_j = 0.0
            h_ij = 0.0
            h_i = 0.0
            if n_blocks > 0:
                alone = refine(codes[j], items[here], starts[here], n_blocks, items[2], starts[2], size, seen)
                alone, h_j = impurity(label, count, items[2], starts[2], alone)
                left = refine(
                    codes[i], items[here], starts[here], n_blocks, items[there], starts[there], size, seen
                )
                n_blocks, h_i = impurity(label, count, items[there], starts[there], left)
                if n_blocks > 0:
                    left = refine(
                        codes[j], items[there], starts[there], n_blocks, items[2], starts[2], size, seen
                    )
                    left, h_ij = impurity(label, count, items[2], starts[2], left)
            value = h_i + h_j - h_ij - h
            for a, b in ((i, j), (j, i)):
                total[a, b] += value
                square[a, b] += value * value
                times[a, b] += 1
            h = h_i
            here = there
    return total, square, times
