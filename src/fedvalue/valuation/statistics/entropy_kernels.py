"""Compiled: n H(Y | X_t, X_S) of every coalition with one largest member (see `pieces`)."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,assignment"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np

from fedvalue.compiled import inner_kernel, kernel, xi_of
from fedvalue.valuation.statistics.partition_kernels import refine_blocks


@kernel
def entropy_subtree(table, scratch, top, entropy):
    """Add the entropies of all coalitions, by the bit mask of their other members, to `entropy`.

    Args:
        table: An `ItemTable`; its X_t has the top's codes in it.
        scratch: A `PartitionScratch` with the blocks by X_t at depth 0.
        top: The largest member.
        entropy: Takes 2^top sums.
    """
    depth = np.int64(0)
    scratch.member[0] = top
    scratch.following[0] = 0
    entropy[0] += _surprise(table, scratch, depth)
    while depth >= 0:
        d = scratch.following[depth]
        if d >= scratch.member[depth] or scratch.n_blocks[depth] == 0:
            depth -= 1
            continue
        scratch.following[depth] += 1
        refine_blocks(table.codes[d], scratch, depth, depth + 1)
        depth += 1
        scratch.member[depth] = d
        scratch.following[depth] = 0
        mask = 0
        for k in range(1, depth + 1):
            mask |= 1 << scratch.member[k]
        entropy[mask] += _surprise(table, scratch, depth)


@inner_kernel
def _surprise(table, scratch, depth):
    """The sum over blocks of xi(N_B) less that over their labels; pure blocks, which add 0, are dropped."""
    label, weight, xi = table.label, table.weight, table.xi
    items, starts = scratch.items[depth], scratch.starts[depth]
    total_surprise = 0.0
    kept = 0
    place = 0
    lo = 0
    for block in range(scratch.n_blocks[depth]):
        hi = np.int64(starts[block + 1])
        if label[items[lo]] != label[items[hi - 1]]:
            total = 0
            run = 0
            runs = 0.0
            for j in range(lo, hi):
                item = items[j]
                items[place] = item
                place += 1
                run += weight[item]
                total += weight[item]
                if j + 1 == hi or label[items[j + 1]] != label[item]:
                    runs += xi_of(run, xi)
                    run = 0
            total_surprise += xi_of(total, xi) - runs
            kept += 1
            starts[kept] = place
        lo = hi
    scratch.n_blocks[depth] = kept
    return total_surprise
