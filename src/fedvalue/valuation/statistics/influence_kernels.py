"""Compiled walks behind `influence`: pointwise Shapley values, exact and from permutations."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,assignment"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import kernel
from fedvalue.valuation.statistics.partition_kernels import refine_blocks

if TYPE_CHECKING:
    from fedvalue.typing import Floats


class InfluenceSums(NamedTuple):
    """Sums over coalitions, which add up over tasks.

    Args:
        psi: Pointwise sum of each party, shape (n_parties, n_items).
        base: Pointwise sum that all parties share, shape (n_items,).
        shift: The same as `psi` for the degrees of freedom, shape (n_parties,).
        shift_base: The same as `base` for them, shape (1,).
        live: Items in impure blocks before the k-th party of an order, summed over the orders.
    """

    psi: Floats
    base: Floats
    shift: Floats
    shift_base: Floats
    live: Floats


@kernel
def pointwise(table, scratch, depth):
    """Write ln p(y_i | block) to `scratch.gain` and drop the blocks that are pure in Y, in place.

    In a pure block the logarithm is 0, there and in every refinement, so nothing is lost.

    Returns:
        Degrees of freedom: the sum over blocks of labels seen - 1.
    """
    label, weight, gain = table.label, table.weight, scratch.gain
    items, starts = scratch.items[depth], scratch.starts[depth]
    kept = 0
    place = 0
    lo = 0
    freedom = 0
    for block in range(scratch.n_blocks[depth]):
        hi = starts[block + 1]
        if label[items[lo]] != label[items[hi - 1]]:
            total = 0
            for j in range(lo, hi):
                total += weight[items[j]]
            log_total = np.log(float(total))
            j = lo
            while j < hi:
                end = j
                run = 0
                while end < hi and label[items[end]] == label[items[j]]:
                    run += weight[items[end]]
                    end += 1
                value = np.log(float(run)) - log_total
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
    scratch.n_blocks[depth] = kept
    return freedom


@kernel
def influence_subtree(table, scratch, weight, top, subtree, sums, budget):
    """Pointwise Shapley values over the coalitions whose largest member is `top`.

    The sum over the coalitions below a node is credited to the party that the node added, so accounting is
    O(1) per item and node.

    Args:
        table: An `ItemTable`.
        scratch: A `PartitionScratch` with the impure blocks by X_t at depth 0.
        weight: Shapley weight of a coalition of each size, 0 for all parties together.
        top: The largest member.
        subtree: Zeros of shape (n_depths, n_items + 1); the last column is for the degrees of freedom.
        sums: `InfluenceSums` to add to.
        budget: Item visits after which to stop.

    Returns:
        Item visits; more than `budget` when the walk stopped unfinished.
    """
    m = len(table.label)
    scratch.member[0] = top + 1
    scratch.following[0] = top
    depth = np.int64(0)
    work = 0
    while depth >= 0:
        d = scratch.following[depth]
        starts = scratch.starts[depth]
        n_live = starts[scratch.n_blocks[depth]]
        if d >= scratch.member[depth] or n_live == 0:
            if depth > 0:
                party = scratch.member[depth]
                freedom_sum = subtree[depth, m]
                sums.shift[party] += freedom_sum
                subtree[depth, m] = 0.0
                # Credit the subtree, and hand it to the parent, whose items include ours.
                for j in range(n_live):
                    item = scratch.items[depth, j]
                    value = subtree[depth, item]
                    subtree[depth, item] = 0.0
                    sums.psi[party, item] += value
                    if depth > 1:
                        subtree[depth - 1, item] += value
                if depth > 1:
                    subtree[depth - 1, m] += freedom_sum
            depth -= 1
            continue
        scratch.following[depth] += 1
        work += n_live
        if work > budget:
            return work
        child = depth + 1
        refine_blocks(table.codes[d], scratch, depth, child)
        freedom = pointwise(table, scratch, child)
        if scratch.n_blocks[child] == 0:
            continue
        own = weight[child - 1] + weight[child]
        sums.shift_base[0] += weight[child] * freedom
        subtree[child, m] += own * freedom
        for j in range(scratch.starts[child, scratch.n_blocks[child]]):
            item = scratch.items[child, j]
            sums.base[item] += weight[child] * scratch.gain[j]
            subtree[child, item] += own * scratch.gain[j]
        scratch.member[child] = d
        scratch.following[child] = 0
        depth = child
    return work


@kernel
def influence_along(table, scratch, orders, root_gain, root_freedom, before, sums):
    """Add the marginal contributions along each order of the parties.

    Each order stops when every block is pure: all later contributions are exactly 0.

    Args:
        table: An `ItemTable`.
        scratch: A `PartitionScratch` with the impure blocks by X_t at depth 0, and two depths more.
        orders: Orders of the parties, one per row.
        root_gain: ln p(y_i | x_t) of each item.
        root_freedom: Degrees of freedom of the blocks by X_t.
        before: Buffer of one number per item.
        sums: `InfluenceSums`; `psi`, `shift` and `live` are added to.
    """
    n_root = scratch.starts[0, scratch.n_blocks[0]]
    for k in range(len(orders)):
        freedom = root_freedom
        for j in range(n_root):
            item = scratch.items[0, j]
            before[item] = root_gain[item]
        here = np.int64(0)
        for step in range(orders.shape[1]):
            n_live = scratch.starts[here, scratch.n_blocks[here]]
            if n_live == 0:
                break
            d = orders[k, step]
            there = 1 + step % 2
            sums.live[step] += n_live
            sums.shift[d] -= freedom
            for j in range(n_live):
                item = scratch.items[here, j]
                sums.psi[d, item] -= before[item]
            refine_blocks(table.codes[d], scratch, here, there)
            freedom = pointwise(table, scratch, there)
            sums.shift[d] += freedom
            for j in range(scratch.starts[there, scratch.n_blocks[there]]):
                item = scratch.items[there, j]
                sums.psi[d, item] += scratch.gain[j]
                before[item] = scratch.gain[j]
            here = there
