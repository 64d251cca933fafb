"""Compiled: all coalitions of the columns outside the cube, one after another.

- Columns are decided from the last to the first of them: first outside the coalition, then inside. A column
  inside splits the blocks; parts with a single label are left out, and so are all coalitions below when no
  block is left.
- A part of a few items is summed in closed form for all coalitions below, and left out as well.
- What a partition costs is handed up to the number of columns that were undecided before: to the column just
  decided if it is inside, and to everybody.

`table` is a `CubeTable` and `scratch` a `CubeScratch` everywhere; `undecided` is a number of columns, and
`size` the number of columns inside so far.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from fedvalue.compiled import add_compensated, bit_index, inner_kernel, kernel
from fedvalue.valuation.cubes.cube_kernels import (
    CLOSED,
    SPLIT,
    agreement,
    count_leaf,
    subset_terms,
    sum_leaf,
)
from fedvalue.valuation.cubes.cube_table import SMALL_BLOCK

NEW, OUTSIDE, INSIDE, DONE = range(4)
"""States of the coalitions at a number of undecided columns: none visited; those with the next column outside
under way; those with it inside under way; all visited."""


@inner_kernel
def close_block(table, scratch, items, n, undecided, size):
    """Add what a block of n items costs all coalitions below, in closed form.

    For a coalition T of the undecided columns it is Σ_U a(U)·[T ⊆ A_U] over the subsets U of the items: a is
    the Möbius transform of their costs, and A_U the columns on which they agree.
    """
    agreed, masks, terms, words = scratch.agreed, scratch.masks, scratch.terms, scratch.subset_words
    below = (1 << undecided) - 1
    for i in range(n):
        for j in range(i):
            agreed[i * SMALL_BLOCK + j] = agreement(table.rows, items[i], items[j], table.lane_bits) & below
    for w in range(words.shape[1]):
        words[0, w] = 0
    for u in range(1, 1 << n):
        i, rest = bit_index(u), u & (u - 1)
        masks[u] = below
        if rest != 0:
            masks[u] = masks[rest] & agreed[bit_index(rest) * SMALL_BLOCK + i]
        for w in range(words.shape[1]):
            words[u, w] = words[rest, w] + table.packed[items[i], w]
    subset_terms(table, scratch, n)
    for u in range(1, 1 << n):
        if terms[u] == 0.0:
            continue
        n_agreed = 0
        mask = masks[u]
        while mask != 0:
            n_agreed += 1
            mask &= mask - 1
        scratch.everybody[undecided] += terms[u] * table.weights[size, n_agreed]
        scratch.members[undecided] += terms[u] * table.member_weights[size, n_agreed]
        if n_agreed > 0:
            share = terms[u] * table.member_weights[size + 1, n_agreed - 1]
            mask = masks[u]
            while mask != 0:
                add_compensated(scratch.against, scratch.carry, bit_index(mask), share)
                mask &= mask - 1


@inner_kernel
def enter(table, scratch, close):
    """Start with the blocks of the task codes, and close the small ones if asked."""
    items, starts, order = scratch.items, scratch.starts, table.order
    end = 0
    n_blocks = 0
    for b in range(len(table.starts) - 1):
        low, high = table.starts[b], table.starts[b + 1]
        if high - low > SMALL_BLOCK:
            starts[0, n_blocks] = end
            n_blocks += 1
            for i in range(low, high):
                items[0, end] = order[i]
                end += 1
        elif close:
            close_block(table, scratch, order[low:high], high - low, len(table.codes), 0)
    starts[0, n_blocks] = end
    scratch.n_blocks[0] = n_blocks


@inner_kernel
def split_blocks(table, scratch, source, column, size, close):  # noqa: PLR0912 - codes, items, parts
    """Split the blocks of a partition by a column into its own partition; return that one.

    Args:
        table: The table.
        scratch: The buffers.
        source: The partition.
        column: The column.
        size: Columns inside, with this one.
        close: Whether to close the small parts; otherwise they are left out.
    """
    items, starts, codes, label = scratch.items, scratch.starts, table.codes, table.label
    seen, present, first_label = scratch.seen, scratch.present, scratch.first_label
    mixed, place = scratch.mixed, scratch.place
    target = len(codes) - column
    end = 0
    n_blocks = 0
    for b in range(scratch.n_blocks[source]):
        low, high = starts[source, b], starts[source, b + 1]
        n_present = 0
        for i in range(low, high):
            item = items[source, i]
            code = codes[column, item]
            if seen[code] == 0:
                present[n_present] = code
                n_present += 1
                first_label[code] = label[item]
                mixed[code] = 0
            elif label[item] != first_label[code]:
                mixed[code] = 1
            seen[code] += 1
        # Small parts stand behind the large ones, until the next block overwrites them.
        at = end
        for k in range(n_present):
            code = present[k]
            if mixed[code] and seen[code] > SMALL_BLOCK:
                starts[target, n_blocks] = at
                n_blocks += 1
                place[code] = at
                at += seen[code]
        end = at
        for k in range(n_present):
            code = present[k]
            if mixed[code] and seen[code] <= SMALL_BLOCK:
                place[code] = at
                at += seen[code]
        for i in range(low, high):
            item = items[source, i]
            code = codes[column, item]
            if mixed[code]:
                items[target, place[code]] = item
                place[code] += 1
        for k in range(n_present):
            code = present[k]
            n = seen[code]
            if mixed[code] and n <= SMALL_BLOCK:
                scratch.tally[CLOSED] += 1
                if close:
                    close_block(table, scratch, items[target, place[code] - n : place[code]], n, column, size)
            seen[code] = 0
        scratch.tally[SPLIT] += high - low
    starts[target, n_blocks] = end
    scratch.n_blocks[target] = n_blocks
    return target


@inner_kernel
def hand_up(scratch, column, inside):
    """Hand what was summed with a column decided to the number of columns before."""
    scratch.everybody[column + 1] += scratch.everybody[column]
    scratch.members[column + 1] += scratch.members[column]
    if inside:
        add_compensated(scratch.against, scratch.carry, column, scratch.members[column])
    scratch.everybody[column] = 0.0
    scratch.members[column] = 0.0


@kernel
def sum_coalitions(table, scratch, prefix, n_prefix):
    """Sum over all coalitions in which the last columns are as `prefix` says.

    Args:
        table: The table.
        scratch: The buffers; `everybody[-1]` and `against` get the sums.
        prefix: Bits of the last columns, the last one highest.
        n_prefix: Number of these columns.
    """
    source, state = scratch.source, scratch.state
    undecided = len(table.codes)
    top = undecided - n_prefix
    size = 0
    # A block closed on the way covers all coalitions below: it counts where the columns below are outside.
    enter(table, scratch, prefix == 0)
    source[undecided] = 0
    while undecided > top:
        undecided -= 1
        source[undecided] = source[undecided + 1]
        if prefix >> (undecided - top) & 1:
            size += 1
            last = prefix & ((1 << (undecided - top)) - 1) == 0
            source[undecided] = split_blocks(table, scratch, source[undecided + 1], undecided, size, last)
    state[top] = NEW
    while state[top] != DONE:
        if state[undecided] == NEW and scratch.n_blocks[source[undecided]] == 0:
            state[undecided] = DONE
        elif state[undecided] == NEW and undecided == table.n_cube:
            sum_leaf(table, scratch, source[undecided], size)
            state[undecided] = DONE
        elif state[undecided] == NEW:
            state[undecided] = OUTSIDE
            source[undecided - 1] = source[undecided]
            undecided -= 1
            state[undecided] = NEW
        elif state[undecided] == OUTSIDE:
            state[undecided] = INSIDE
            size += 1
            column = undecided - 1
            source[column] = split_blocks(table, scratch, source[undecided], column, size, True)
            undecided = column
            state[undecided] = NEW
        elif state[undecided] == INSIDE:
            size -= 1
            state[undecided] = DONE
        if state[undecided] == DONE and undecided < top:
            hand_up(scratch, undecided, state[undecided + 1] == INSIDE)
            undecided += 1
    for column in range(top, len(table.codes)):
        hand_up(scratch, column, prefix >> (column - top) & 1)


@kernel
def count_path(table, scratch, path, totals):
    """Count the work on the way to one leaf, each step's divided by the number of leaves that share it.

    Args:
        table: The table.
        scratch: The buffers.
        path: The columns inside; bits of the cube's columns are not looked at.
        totals: Gets the counts, in the order of `SMALL` and so on.
    """
    tally = scratch.tally
    undecided = len(table.codes)
    source = 0
    enter(table, scratch, False)
    for k in range(len(tally)):
        totals[k] = 0.0
    while undecided > table.n_cube and scratch.n_blocks[source] > 0:
        undecided -= 1
        if path >> undecided & 1:
            tally[CLOSED] = 0
            tally[SPLIT] = 0
            source = split_blocks(table, scratch, source, undecided, 0, False)
            sharing = 1 << (undecided - table.n_cube)
            totals[CLOSED] += tally[CLOSED] / sharing
            totals[SPLIT] += tally[SPLIT] / sharing
    for k in range(len(tally)):
        tally[k] = 0
    if scratch.n_blocks[source] > 0:
        count_leaf(table, scratch, source)
        for k in range(len(tally)):
            totals[k] += tally[k]
