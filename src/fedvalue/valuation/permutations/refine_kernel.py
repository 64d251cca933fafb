"""Compiled: one step of a permutation walk.

The state of a walk is the list of *live* items (those in impure blocks) and their block numbers.
One step joins block and code into a new block number, counts labels per new block and drops the
items of pure blocks: all later marginals of a pure block are exactly 0, so stopping when no item is
live has no error.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.walk.count_kernel import xi_of

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True, inline="always")
def _number_blocks(column_codes, width, item, block, live, n_blocks, ids, keys, new):
    """Write the new block number of each live item; return how many blocks there are."""
    n_new = 0
    if n_blocks * width <= len(ids):
        for i in range(live):
            at = np.uint32(block[i] * width + column_codes[item[i]])
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
        key = np.int64(block[i]) * width + np.int64(column_codes[item[i]])
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


@njit(cache=True, nogil=True, inline="always")
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


@njit(cache=True, nogil=True, inline="always")
def _costs_by_run(label, weight, xi, item, new, live, n_new, run, sums, number):
    """The same for labels that do not fit into one word.

    Items are sorted by label and stay so: each label is one run, and the label's count in a block is
    complete when the run ends, whatever the number of labels. `sums` holds per block the samples,
    Σ ξ(N_y) and the number of labels.
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


@njit(cache=True, nogil=True)
def refine(
    codes,
    widths,
    label,
    weight,
    add,
    bits,
    xi,
    column,
    item,
    block,
    live,
    n_blocks,
    scratch,
    keys,
    words,
    sums,
):
    """Refine the live blocks by one column, in place.

    The table's arrays come first (see `SamplingTable`), then the party that joins, then the live items
    and their block numbers, which are overwritten, and how many items and blocks are live. Room to work in:

        scratch: Integers, shape (3, size): block numbers by key (all 0 between calls), new block
            numbers, final block numbers.
        keys: Room for hashed keys.
        words: Packed or running counts per block.
        sums: See `_costs_by_run`.

    Returns:
        Number of live items and blocks, and Σ c over the live blocks.
    """
    ids, new, number = scratch[0], scratch[1], scratch[2]
    n_new = _number_blocks(codes[column], widths[column], item, block, live, n_blocks, ids, keys, new)
    if bits > 0:
        n_kept, cost = _costs_packed(add, bits, xi, item, new, live, n_new, words, number)
    else:
        n_kept, cost = _costs_by_run(label, weight, xi, item, new, live, n_new, words, sums, number)
    kept = 0
    for i in range(live):
        b = number[new[i]]
        item[kept] = item[i]
        block[kept] = b
        kept += b >= 0
    return kept, n_kept, cost
