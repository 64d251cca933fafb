"""Compiled walks behind `influence`: pointwise Shapley values, exact and from permutations."""

# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
# Compiled functions take their types from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.statistics.blocks import refine


@njit(cache=True, nogil=True)
def pointwise(label, count, items, starts, n_blocks, gain):
    """Write ln p(y_i | block) to `gain` and drop the blocks that are pure in Y, in place.

    In a pure block the logarithm is 0, there and in every refinement, so nothing is lost.

    Returns:
        (number of blocks left, degrees of freedom: the sum over blocks of labels seen - 1).
    """
    kept = 0
    place = 0
    lo = 0
    freedom = 0
    for block in range(n_blocks):
        hi = starts[block + 1]
        if label[items[lo]] != label[items[hi - 1]]:
            total = 0
            for j in range(lo, hi):
                total += count[items[j]]
            log_total = np.log(total)
            j = lo
            while j < hi:
                end = j
                run = 0
                while end < hi and label[items[end]] == label[items[j]]:
                    run += count[items[end]]
                    end += 1
                value = np.log(run) - log_total
                while j < end:
                    items[place] = items[j]
                    gain[place] = value
                    place += 1
                    j += 1
                freedom += 1
            freedom -= 1
            kept += 1
            starts[kept] = place
        lo = hi
    return kept, freedom


@njit(cache=True, nogil=True)
def exact_influence(codes, label, count, start, width, weight, budget):  # noqa: PLR0915 - one walk
    """Pointwise Shapley values over the whole coalition lattice.

    A node is a coalition; its children add a party of smaller index. The sum over a subtree is
    credited to the party that was added last, so accounting is O(1) per item and node.

    Returns:
        (psi of shape (n_parties, n_items), Shapley value of the degrees of freedom, work done). The work
        is the number of item visits; when it would pass `budget` the walk stops unfinished.
    """
    p, m = codes.shape
    psi = np.zeros((p, m))
    base = np.zeros(m)
    shift = np.zeros(p)
    shift_base = 0.0
    shift_subtree = np.zeros(p + 1)
    items = np.empty((p + 1, m), dtype=np.int64)
    starts = np.zeros((p + 1, m + 1), dtype=np.int64)
    blocks = np.zeros(p + 1, dtype=np.int64)
    subtree = np.zeros((p + 1, m))
    last = np.zeros(p + 1, dtype=np.int64)
    following = np.zeros(p + 1, dtype=np.int64)
    size = np.zeros(width, dtype=np.int64)
    seen = np.empty(m, dtype=np.int64)
    gain = np.empty(m)
    for j in range(m):
        items[0, j] = j
    starts[0, : len(start)] = start
    blocks[0], freedom = pointwise(label, count, items[0], starts[0], len(start) - 1, gain)
    shift_base += weight[0] * freedom
    for j in range(starts[0, blocks[0]]):
        base[items[0, j]] += weight[0] * gain[j]
    depth = 0
    last[0] = p
    work = 0
    while depth >= 0:
        d = following[depth]
        if d >= last[depth] or blocks[depth] == 0:
            if depth > 0:
                shift[last[depth]] += shift_subtree[depth]
                shift_subtree[depth - 1] += shift_subtree[depth]
                shift_subtree[depth] = 0.0
                # Credit the subtree, and hand it to the parent, whose items include ours.
                for j in range(starts[depth, blocks[depth]]):
                    item = items[depth, j]
                    value = subtree[depth, item]
                    psi[last[depth], item] += value
                    subtree[depth - 1, item] += value
                    subtree[depth, item] = 0.0
            depth -= 1
            continue
        following[depth] += 1
        work += starts[depth, blocks[depth]]
        if work > budget:
            return psi, shift, work
        child = depth + 1
        blocks[child] = refine(
            codes[d], items[depth], starts[depth], blocks[depth], items[child], starts[child], size, seen
        )
        blocks[child], freedom = pointwise(label, count, items[child], starts[child], blocks[child], gain)
        if blocks[child] == 0:
            continue
        own = weight[child - 1] + weight[child]
        shift_base += weight[child] * freedom
        shift_subtree[child] += own * freedom
        for j in range(starts[child, blocks[child]]):
            item = items[child, j]
            base[item] += weight[child] * gain[j]
            subtree[child, item] += own * gain[j]
        last[child] = d
        following[child] = 0
        depth = child
    for d in range(p):
        for j in range(m):
            psi[d, j] -= base[j]
        shift[d] -= shift_base
    return psi, shift, work


@njit(cache=True, nogil=True)
def sampled_influence(codes, label, count, start, width, orders, psi, shift):
    """Add the marginal contributions along each order of the parties.

    The pointwise ones go to `psi`, those of the degrees of freedom to `shift`. Each order stops when every
    block is pure: all later contributions are exactly 0.
    """
    p, m = codes.shape
    items = np.empty((2, m), dtype=np.int64)
    starts = np.zeros((2, m + 1), dtype=np.int64)
    root_items = np.arange(m)
    root_starts = np.zeros(m + 1, dtype=np.int64)
    root_starts[: len(start)] = start
    root_gain = np.empty(m)
    root_blocks, root_freedom = pointwise(label, count, root_items, root_starts, len(start) - 1, root_gain)
    root_size = root_starts[root_blocks]
    before = np.zeros(m)
    gain = np.empty(m)
    size = np.zeros(width, dtype=np.int64)
    seen = np.empty(m, dtype=np.int64)
    for k in range(orders.shape[0]):
        n_blocks = root_blocks
        freedom = root_freedom
        items[0, :root_size] = root_items[:root_size]
        starts[0, : n_blocks + 1] = root_starts[: n_blocks + 1]
        for j in range(root_size):
            before[root_items[j]] = root_gain[j]
        here = 0
        for step in range(p):
            if n_blocks == 0:
                break
            d = orders[k, step]
            there = 1 - here
            live = starts[here, n_blocks]
            for j in range(live):
                item = items[here, j]
                psi[d, item] -= before[item]
            n_blocks = refine(
                codes[d], items[here], starts[here], n_blocks, items[there], starts[there], size, seen
            )
            shift[d] -= freedom
            n_blocks, freedom = pointwise(label, count, items[there], starts[there], n_blocks, gain)
            shift[d] += freedom
            for j in range(starts[there, n_blocks]):
                item = items[there, j]
                psi[d, item] += gain[j]
                before[item] = gain[j]
            here = there
