"""Compiled walks behind `influence`: pointwise Shapley values, exact and from permutations."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,assignment"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import inner_kernel, kernel
from fedvalue.valuation.statistics.partition_kernels import refine_blocks

if TYPE_CHECKING:
    from fedvalue.typing import Floats


class InfluenceSums(NamedTuple):
    """Sums over coalitions, which add up over tasks.

    Args:
        psi: Pointwise sum of each party, shape (n_parties, n_items).
        base: Pointwise sum that all parties share, shape (n_items,), where a walk needs one.
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
        hi = np.int64(starts[block + 1])
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


@inner_kernel
def _enter(table, scratch, weight, depth, subtree, sums):
    """Add up the coalition whose blocks stand at a depth; pure blocks are dropped."""
    freedom = pointwise(table, scratch, depth)
    own = weight[depth] + weight[depth + 1]
    sums.shift_base[0] += weight[depth + 1] * freedom
    subtree[depth, -1] += own * freedom
    for j in range(scratch.starts[depth, scratch.n_blocks[depth]]):
        item = scratch.items[depth, j]
        sums.base[item] += weight[depth + 1] * scratch.gain[j]
        subtree[depth, item] += own * scratch.gain[j]


@kernel
def influence_subtree(table, scratch, weight, top, subtree, sums, budget):
    """Pointwise Shapley values over the coalitions whose largest member is `top`.

    The sum over the coalitions below a node is credited to the party that the node added, so accounting is
    O(1) per item and node.

    Args:
        table: An `ItemTable`; its X_t has the top's codes in it.
        scratch: A `PartitionScratch` with the blocks by X_t at depth 0.
        weight: Shapley weight of a coalition of each size, 0 for all parties together.
        top: The largest member.
        subtree: Zeros of shape (n_depths, n_items + 1); the last column is for the degrees of freedom.
        sums: `InfluenceSums` to add to.
        budget: Item visits after which to stop.

    Returns:
        Item visits beyond the first coalition; more than `budget` when the walk stopped unfinished.
    """
    depth = np.int64(0)
    work = 0
    scratch.member[0] = top
    scratch.following[0] = 0
    _enter(table, scratch, weight, depth, subtree, sums)
    while depth >= 0:
        d = scratch.following[depth]
        n_live = np.int64(scratch.starts[depth, scratch.n_blocks[depth]])
        if d >= scratch.member[depth] or n_live == 0:
            party = scratch.member[depth]
            freedom_sum = subtree[depth, -1]
            sums.shift[party] += freedom_sum
            subtree[depth, -1] = 0.0
            # Credit the subtree, and hand it to the parent, whose items include ours.
            for j in range(n_live):
                item = scratch.items[depth, j]
                value = subtree[depth, item]
                subtree[depth, item] = 0.0
                sums.psi[party, item] += value
                if depth > 0:
                    subtree[depth - 1, item] += value
            if depth > 0:
                subtree[depth - 1, -1] += freedom_sum
            depth -= 1
            continue
        scratch.following[depth] += 1
        work += n_live
        if work > budget:
            return work
        refine_blocks(table.codes[d], scratch, depth, depth + 1)
        depth += 1
        scratch.member[depth] = d
        scratch.following[depth] = 0
        _enter(table, scratch, weight, depth, subtree, sums)
    return work


@kernel
def influence_along(table, scratch, orders, root_freedom, sums):
    """Add the marginal contributions along each order of the parties.

    Each order stops when every block is pure: all later contributions are exactly 0. What the blocks by X_t
    say is left out: the caller takes it from the first party of each order.

    Args:
        table: An `ItemTable`.
        scratch: A `PartitionScratch` with the impure blocks by X_t at depth 0, and two depths more.
        orders: Orders of the parties, one per row.
        root_freedom: Degrees of freedom of the blocks by X_t.
        sums: `InfluenceSums`; `psi`, `shift` and `live` are added to.
    """
    last = orders.shape[1] - 1
    for k in range(len(orders)):
        freedom = root_freedom
        here = np.int64(0)
        for step in range(orders.shape[1]):
            n_live = np.int64(scratch.starts[here, scratch.n_blocks[here]])
            if n_live == 0:
                break
            d = orders[k, step]
            there = 1 + step % 2
            sums.live[step] += n_live
            sums.shift[d] -= freedom
            refine_blocks(table.codes[d], scratch, here, there)
            freedom = pointwise(table, scratch, there)
            sums.shift[d] += freedom
            # What this party brings the next one to is where that one starts.
            after = orders[k, min(step + 1, last)]
            for j in range(scratch.starts[there, scratch.n_blocks[there]]):
                item = scratch.items[there, j]
                sums.psi[d, item] += scratch.gain[j]
                if step < last:
                    sums.psi[after, item] -= scratch.gain[j]
            here = there
