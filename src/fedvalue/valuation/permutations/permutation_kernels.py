"""Compiled: random orders, walked party by party until every block is pure.

The state of a walk is the list of *live* items (those in impure blocks) and their block numbers. One step
joins block and code into a new block number, counts labels per new block and drops the items of pure
blocks: all later marginals of a pure block are exactly 0, so stopping when no item is live has no error.

Short coalitions come up again and again, so the states of all coalitions of one depth D, and the costs of
all up to D, are made once (`extend_states`); a walk starts from there. A coalition is found by its rank among
all of its size, Σ_i C(e_i, i) for its members e_1 < e_2 < … (the combinatorial number system).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import inlined_kernel, inner_kernel, kernel, xi_of
from fedvalue.valuation.frozen_random import GOLDEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

_GOLDEN = np.uint64(GOLDEN)


class Prefixes(NamedTuple):
    """Costs of all coalitions of up to `depth` parties, and the states of those with `depth`.

    Args:
        depth: Size of the coalitions whose states are kept.
        binomial: Binomial coefficients, for ranks.
        costs: n·h(S) by size and rank.
        cost_start: Where each size starts in `costs`.
        item: Live items, state after state.
        block: Their block numbers.
        start: Where each state starts.
        n_blocks: Live blocks of each state.
    """

    depth: int
    binomial: NDArray[np.int64]
    costs: Floats
    cost_start: NDArray[np.int64]
    item: NDArray[np.uint32]
    block: NDArray[np.int32]
    start: NDArray[np.int64]
    n_blocks: NDArray[np.int64]


class PermutationScratch(NamedTuple):
    """Buffers of one walk.

    Args:
        item: Live items.
        block: Their block numbers.
        ids: Block numbers by key; all 0 between steps.
        new: New block number of each live item.
        number: Final number of each new block, -1 for a pure one.
        keys: Hashed keys.
        words: Packed or running counts per block.
        sums: Samples, Σ ξ(N_y) and number of labels per block.
        members: The coalition at hand, rising.
    """

    item: NDArray[np.uint32]
    block: NDArray[np.int32]
    ids: NDArray[np.int32]
    new: NDArray[np.int32]
    number: NDArray[np.int32]
    keys: NDArray[np.int64]
    words: NDArray[np.uint64]
    sums: Floats
    members: NDArray[np.int64]


@inlined_kernel
def _number_blocks(codes, column, width, item, block, live, n_blocks, ids, keys, new):
    """Write the new block number of each live item; return how many blocks there are."""
    n_new = 0
    if n_blocks * width <= len(ids):
        for i in range(live):
            at = np.uint32(block[i] * width + codes[column, item[i]])
            b = ids[at]
            if b == 0:
                n_new += 1
                b = n_new
                ids[at] = b
            new[i] = b - 1
        for at in range(n_blocks * width):
            ids[at] = 0
        return n_new
    # Too many keys for a table: hash them (linear probing).
    mask = np.int64(len(ids) - 1)
    for i in range(live):
        key = np.int64(block[i]) * width + np.int64(codes[column, item[i]])
        at = np.int64(np.uint64(key) * _GOLDEN >> np.uint64(24)) & mask
        while ids[at] != 0 and keys[at] != key:
            at = (at + 1) & mask
        if ids[at] == 0:
            n_new += 1
            ids[at] = n_new
            keys[at] = key
        new[i] = ids[at] - 1
    for at in range(len(ids)):
        ids[at] = 0
    return n_new


@inlined_kernel
def _costs_packed(add, bits, xi, item, new, live, n_new, packed, number):
    """Σ c over the impure new blocks; `number` gets their final numbers, -1 for pure ones.

    The counts of all labels of a block lie in fields of one word: one addition per item.
    """
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    for b in range(n_new):
        packed[b] = 0
    for i in range(live):
        packed[new[i]] += add[item[i]]
    cost = 0.0
    n_kept = 0
    for b in range(n_new):
        counts = packed[b]
        some = counts & ones
        counts >>= shift
        while some == 0:
            some = counts & ones
            counts >>= shift
        if counts == 0:
            number[b] = -1
            continue
        total = np.int64(some)
        cost -= xi_of(total, xi)
        while counts != 0:
            some = counts & ones
            counts >>= shift
            total += np.int64(some)
            cost -= xi_of(np.int64(some), xi)
        cost += xi_of(total, xi)
        number[b] = n_kept
        n_kept += 1
    return n_kept, cost


@inlined_kernel
def _costs_by_run(label, weight, xi, item, new, live, n_new, run, sums, number):
    """The same for labels that do not fit into one word.

    Items are sorted by label and stay so: each label is one run, and the label's count in a block is
    complete when the run ends, whatever the number of labels.
    """
    for b in range(n_new):
        run[b] = 0
        sums[0, b] = sums[1, b] = sums[2, b] = 0.0
    start = 0
    for i in range(live):
        run[new[i]] += np.uint64(weight[item[i]])
        if i + 1 == live or label[item[i + 1]] != label[item[i]]:
            for j in range(start, i + 1):
                b = new[j]
                if run[b] > 0:
                    sums[0, b] += run[b]
                    sums[1, b] += xi_of(np.int64(run[b]), xi)
                    sums[2, b] += 1.0
                    run[b] = 0
            start = i + 1
    cost = 0.0
    n_kept = 0
    for b in range(n_new):
        number[b] = -1
        if sums[2, b] > 1.0:
            cost += xi_of(np.int64(sums[0, b]), xi) - sums[1, b]
            number[b] = n_kept
            n_kept += 1
    return n_kept, cost


@kernel
def refine_live(table, scratch, column, item, block, live, n_blocks):
    """Refine the live blocks by one column, in place.

    Args:
        table: An `ItemTable`.
        scratch: A `PermutationScratch`.
        column: The party that joins.
        item: Live items, overwritten by those that stay live.
        block: Their block numbers, overwritten.
        live: Number of live items.
        n_blocks: Number of live blocks.

    Returns:
        Number of live items and blocks, and Σ c over the live blocks.
    """
    new, number = scratch.new, scratch.number
    n_new = _number_blocks(
        table.codes, column, table.widths[column], item, block, live, n_blocks, scratch.ids, scratch.keys, new
    )
    if table.field_bits > 0:
        n_kept, cost = _costs_packed(
            table.packed, table.field_bits, table.xi, item, new, live, n_new, scratch.words, number
        )
    else:
        n_kept, cost = _costs_by_run(
            table.label, table.weight, table.xi, item, new, live, n_new, scratch.words, scratch.sums, number
        )
    kept = 0
    for i in range(live):
        b = number[new[i]]
        item[kept] = item[i]
        block[kept] = b
        kept += b >= 0
    return kept, n_kept, cost


@kernel
def extend_states(table, scratch, old, depth, item, block, start, n_blocks, costs):
    """States of all coalitions of `depth` members, each from the one without its last member.

    Coalitions come in rank order (colexicographic). `item` and `block` must hold as many items as
    the largest old state times the coalitions.

    Args:
        table: An `ItemTable`.
        scratch: A `PermutationScratch`.
        old: `Prefixes` of one member less.
        depth: Number of members.
        item: Receives the live items.
        block: Receives their block numbers.
        start: Receives where each state starts.
        n_blocks: Receives the live blocks of each state.
        costs: Receives n·h of each coalition.

    Returns:
        Number of items written.
    """
    members = scratch.members
    n_parties = len(table.widths) - 1
    for i in range(depth):
        members[i] = i
    rank = 0
    used = 0
    while True:
        parent = 0
        for i in range(depth - 1):
            parent += old.binomial[members[i], i + 1]
        live = old.start[parent + 1] - old.start[parent]
        for i in range(live):
            item[used + i] = old.item[old.start[parent] + i]
            block[used + i] = old.block[old.start[parent] + i]
        live, n_blocks[rank], costs[rank] = refine_live(
            table, scratch, members[depth - 1], item[used:], block[used:], live, old.n_blocks[parent]
        )
        used += live
        start[rank + 1] = used
        rank += 1
        # Next coalition in colexicographic order.
        i = 0
        while i < depth - 1 and members[i] + 1 == members[i + 1]:
            members[i] = i
            i += 1
        members[i] += 1
        if members[depth - 1] == n_parties:
            return used


@inner_kernel
def walk_order(table, prefixes, scratch, order, step, marginals):
    """Add half the marginals of one order to `marginals`; from its end when `step` is -1."""
    p = len(order)
    first = np.int64(0) if step > 0 else p - 1
    members, item, block = scratch.members, scratch.item, scratch.block
    depth = prefixes.depth
    before = prefixes.costs[0]
    rank = 0
    for k in range(depth):
        d = order[first + step * k]
        i = k
        while i > 0 and members[i - 1] > d:
            members[i] = members[i - 1]
            i -= 1
        members[i] = d
        rank = 0
        for i in range(k + 1):
            rank += prefixes.binomial[members[i], i + 1]
        after = prefixes.costs[prefixes.cost_start[k + 1] + rank]
        marginals[d] += 0.5 * (before - after)
        before = after
    # The last rank is that of the whole prefix.
    begin = prefixes.start[rank]
    live = prefixes.start[rank + 1] - begin
    n_blocks = prefixes.n_blocks[rank]
    for i in range(live):
        item[i] = prefixes.item[begin + i]
        block[i] = prefixes.block[begin + i]
    k = depth
    while live > 0 and k < p:
        d = order[first + step * k]
        live, n_blocks, after = refine_live(table, scratch, d, item, block, live, n_blocks)
        marginals[d] += 0.5 * (before - after)
        before = after
        k += 1


@kernel
def walk_pairs(table, prefixes, scratch, orders, marginals):
    """Write the mean marginals of each order and its reverse, shape (n_orders, n_parties)."""
    for k in range(len(orders)):
        for step in range(-1, 2, 2):
            walk_order(table, prefixes, scratch, orders[k], step, marginals[k])
