"""Compiled permutation walks: refine the blocks party by party, until every block is pure.

Short coalitions come up again and again, so the states of all coalitions of one depth D, and the
costs of all up to D, are made once (`extend_states`); a walk starts from there. A coalition is found
by its rank among all of its size, Σ_i C(e_i, i) for its members e_1 < e_2 < … (the combinatorial
number system).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.permutations.refine_kernel import refine

# Increment of SplitMix64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def extend_states(
    codes, widths, label, weight, add, bits, xi, n_parties, depth, members, binomial,
    old_item, old_block, old_start, old_blocks, item, block, start, blocks, costs, scratch, keys, words, sums,
):  # fmt: skip
    """States of all coalitions of `depth` members, each from the one without its last member.

    Coalitions come in rank order (colexicographic). `item` and `block` must have room for as many
    items as all old states together times the parties; returns the room used.
    """
    rank = 0
    used = 0
    while True:
        # members[0..depth) is the current coalition, rising.
        parent = 0
        for i in range(depth - 1):
            parent += binomial[members[i], i + 1]
        live = old_start[parent + 1] - old_start[parent]
        for i in range(live):
            item[used + i] = old_item[old_start[parent] + i]
            block[used + i] = old_block[old_start[parent] + i]
        live, n_blocks, cost = refine(
            codes, widths, label, weight, add, bits, xi, members[depth - 1], item[used:], block[used:], live,
            old_blocks[parent], scratch, keys, words, sums,
        )  # fmt: skip
        used += live
        start[rank + 1] = used
        blocks[rank] = n_blocks
        costs[rank] = cost
        rank += 1
        # Next coalition in colexicographic order.
        i = 0
        while i < depth - 1 and members[i] + 1 == members[i + 1]:
            members[i] = i
            i += 1
        members[i] += 1
        if members[depth - 1] == n_parties:
            return used


@njit(cache=True, nogil=True, inline="always")
def _random(state):
    """SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every platform."""
    state[0] += _GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def shuffle(order, state):
    """A uniformly random order in place (Fisher and Yates; bias below n / 2^32 per draw)."""
    for k in range(len(order) - 1, 0, -1):
        j = np.int64(((_random(state) >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
        order[k], order[j] = order[j], order[k]


@njit(cache=True, nogil=True)
def walk_order(
    codes, widths, label, weight, add, bits, xi, order, backwards, whole, depth, binomial, costs, cost_start,
    state_item, state_block, state_start, state_blocks, item, block, members, scratch, keys, words, sums,
    marginals, scale,
):  # fmt: skip
    """Add `scale` times the marginals of one order to `marginals`; backwards when asked."""
    p = len(order)
    before = whole
    for k in range(depth):
        d = order[p - 1 - k] if backwards else order[k]
        i = k
        while i > 0 and members[i - 1] > d:
            members[i] = members[i - 1]
            i -= 1
        members[i] = d
        rank = 0
        for i in range(k + 1):
            rank += binomial[members[i], i + 1]
        after = costs[cost_start[k + 1] + rank]
        marginals[d] += scale * (before - after)
        before = after
    # The last rank is that of the whole prefix.
    live = state_start[rank + 1] - state_start[rank]
    n_blocks = state_blocks[rank]
    for i in range(live):
        item[i] = state_item[state_start[rank] + i]
        block[i] = state_block[state_start[rank] + i]
    k = depth
    while live > 0 and k < p:
        d = order[p - 1 - k] if backwards else order[k]
        live, n_blocks, after = refine(
            codes,
            widths,
            label,
            weight,
            add,
            bits,
            xi,
            d,
            item,
            block,
            live,
            n_blocks,
            scratch,
            keys,
            words,
            sums,
        )
        marginals[d] += scale * (before - after)
        before = after
        k += 1


@njit(cache=True, nogil=True)
def walk_pairs(
    codes, widths, label, weight, add, bits, xi, whole, depth, binomial, costs, cost_start,
    state_item, state_block, state_start, state_blocks, n_pairs, seed, item, block, scratch, keys, words,
    sums,
):  # fmt: skip
    """Marginals of `n_pairs` random orders and their reverses.

    Returns:
        Mean and sum of squared deviations of the pair means, per party.
    """
    p = len(widths) - 1
    order = np.arange(p)
    members = np.zeros(depth + 1, dtype=np.int64)
    state = np.array([seed], dtype=np.uint64)
    pair = np.zeros(p)
    origin = np.zeros(p)
    s1 = np.zeros(p)
    s2 = np.zeros(p)
    for k in range(n_pairs):
        shuffle(order, state)
        for d in range(p):
            pair[d] = 0.0
        for backwards in (False, True):
            walk_order(
                codes, widths, label, weight, add, bits, xi, order, backwards, whole, depth, binomial, costs,
                cost_start,
                state_item, state_block, state_start, state_blocks, item, block, members, scratch, keys,
                words, sums, pair, 0.5,
            )  # fmt: skip
        # Deviations from the first pair rather than from 0, so that the variance does not cancel.
        if k == 0:
            origin[:] = pair
        for d in range(p):
            x = pair[d] - origin[d]
            s1[d] += x
            s2[d] += x * x
    return origin + s1 / n_pairs, np.maximum(s2 - s1 * s1 / n_pairs, 0.0)


@njit(cache=True, nogil=True)
def walk_block(
    codes, widths, label, weight, add, bits, xi, order, cost, live, item, block, scratch, keys, words, sums,
    marginals
):  # fmt: skip
    """Add the marginals of one order to `marginals`, starting from one block of the given cost."""
    n_blocks = 1
    before = cost
    for k in range(len(order)):
        if live == 0:
            break
        live, n_blocks, after = refine(
            codes, widths, label, weight, add, bits, xi, order[k], item, block, live, n_blocks, scratch,
            keys, words,
            sums,
        )  # fmt: skip
        marginals[order[k]] += before - after
        before = after
