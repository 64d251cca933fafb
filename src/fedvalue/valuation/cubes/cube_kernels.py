"""Compiled: what the blocks of one leaf cost all coalitions of the cube.

A cube holds, for eight rows of blocks at a time, how many samples of each label agree with the row on each
coalition: every row of the block counts at the columns on which it agrees, and sums over supersets do the
rest. Rows side by side make every step a vector instruction.

`table` is a `CubeTable` and `scratch` a `CubeScratch` everywhere.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg,misc"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np

from fedvalue.compiled import add_compensated, bit_index, float_kernel, inlined_kernel, inner_kernel
from fedvalue.valuation.cubes.cube_table import LANES, SMALL_BLOCK, WORD

SMALL, CLOSED, ROWS, PAIRS, SPLIT = range(5)
"""Places in `CubeScratch.tally`: blocks closed at a leaf, blocks closed above it, rows that take a lane,
pairs of rows compared, items split."""

_ONE = np.uint64(1)


def _lane_constants(bits: int) -> tuple[np.uint64, np.uint64]:
    """The top bit of every lane, and the factor that moves all bottom bits to the top of the word.

    Lane i's bit goes from place i·bits to 64 − per_word + i. No two products meet in one place, so that
    nothing is carried.
    """
    per_word = WORD // bits
    top = sum(1 << (i * bits + bits - 1) for i in range(per_word))
    factor = sum(1 << (WORD - per_word + i - i * bits) for i in range(per_word))
    return np.uint64(top), np.uint64(factor)


_TOP_8, _FACTOR_8 = _lane_constants(8)
_TOP_16, _FACTOR_16 = _lane_constants(16)
_TOP_32, _FACTOR_32 = _lane_constants(32)


@inlined_kernel
def agreement(rows, i, j, lane_bits):
    """The columns on which two rows of codes in lanes agree, as bits."""
    top, factor, per_word = _TOP_8, _FACTOR_8, np.uint64(8)
    if lane_bits == 16:
        top, factor, per_word = _TOP_16, _FACTOR_16, np.uint64(4)
    elif lane_bits == 32:
        top, factor, per_word = _TOP_32, _FACTOR_32, np.uint64(2)
    bottom = np.uint64(lane_bits) - _ONE
    every = (_ONE << per_word) - _ONE
    found = np.uint64(0)
    for w in range(rows.shape[1]):
        x = rows[i, w] ^ rows[j, w]
        # The top bit of a lane is set if its other bits overflow into it, or if it was set.
        differs = (((x & ~top) + ~top) | x) & top
        lanes = ((differs >> bottom) * factor) >> (np.uint64(WORD) - per_word)
        found |= (lanes ^ every) << (np.uint64(w) * per_word)
    return np.int64(found)


@inner_kernel
def cost_of(table, words):
    """c(B) = ξ(N) − Σ_y ξ(N_y) of a block with these packed label counts."""
    field = (_ONE << np.uint64(table.field_bits)) - _ONE
    whole = np.uint64(0)
    cost = 0.0
    for y in range(len(table.label_word)):
        count = (words[table.label_word[y]] >> table.label_shift[y]) & field
        whole += count
        cost -= table.xi[count]
    return cost + table.xi[whole]


@inner_kernel
def subset_terms(table, scratch, n):
    """What each subset of n rows costs beyond its own subsets, from `subset_words`: a Möbius transform."""
    terms, words = scratch.terms, scratch.subset_words
    terms[0] = 0.0
    for u in range(1, 1 << n):
        terms[u] = cost_of(table, words[u])
    for i in range(n):
        for u in range(1 << n):
            if u >> i & 1:
                terms[u] -= terms[u ^ (1 << i)]


@float_kernel("reassoc", "contract", "nsz")
def superset_sums(cells, n_columns, length):
    """Replace every coalition's cells by their sum over its supersets; a coalition has `length` cells."""
    half = length
    for _ in range(n_columns):
        for start in range(0, len(cells), 2 * half):
            lower = cells[start : start + half]
            upper = cells[start + half : start + 2 * half]
            for i in range(half):
                lower[i] += upper[i]
        half *= 2


@float_kernel("reassoc", "contract", "nsz")
def add_costs_of_two(table, scratch):
    """Add the lanes' part of their blocks' costs for every coalition of the cube, for two labels in a word.

    A block's cost is divided equally among the samples whose label is not its most frequent one.
    """
    bits = np.uint64(table.field_bits)
    field = (_ONE << bits) - _ONE
    xi, inverse, cube, costs = table.xi, table.inverse, scratch.cube, scratch.costs
    weight, frequent = scratch.lane_weight, scratch.lane_shift
    for coalition in range(len(costs)):
        row = cube[coalition * LANES : (coalition + 1) * LANES]
        cost = 0.0
        for lane in range(LANES):
            one, other = row[lane] & field, row[lane] >> bits
            shared = (row[lane] >> (bits - frequent[lane])) & field
            cost += (xi[one + other] - xi[one] - xi[other]) * inverse[shared] * weight[lane]
        costs[coalition] += cost


@float_kernel("reassoc", "contract", "nsz")
def add_costs(table, scratch):
    """The same for any number of labels."""
    n_words = table.packed.shape[1]
    field = (_ONE << np.uint64(table.field_bits)) - _ONE
    xi, inverse, cube, costs = table.xi, table.inverse, scratch.cube, scratch.costs
    count, part, weight = scratch.lane_count, scratch.lane_cost, scratch.lane_weight
    for coalition in range(len(costs)):
        for lane in range(LANES):
            count[lane] = 0
            part[lane] = 0.0
        for y in range(len(table.label_word)):
            start = (coalition * n_words + table.label_word[y]) * LANES
            row = cube[start : start + LANES]
            shift = table.label_shift[y]
            for lane in range(LANES):
                samples = (row[lane] >> shift) & field
                count[lane] += samples
                part[lane] -= xi[samples]
        cost = 0.0
        for lane in range(LANES):
            at = (coalition * n_words + scratch.lane_word[lane]) * LANES + lane
            shared = count[lane] - ((cube[at] >> scratch.lane_shift[lane]) & field)
            cost += (part[lane] + xi[count[lane]]) * inverse[shared] * weight[lane]
        costs[coalition] += cost


@inner_kernel
def finish_cube(table, scratch, n_lanes):
    """Add what the lanes in use cost, and clear the cube."""
    for lane in range(n_lanes, LANES):
        scratch.lane_weight[lane] = 0.0
    superset_sums(scratch.cube, table.n_cube, table.packed.shape[1] * LANES)
    if len(table.label_word) == 2 and table.packed.shape[1] == 1:
        add_costs_of_two(table, scratch)
    else:
        add_costs(table, scratch)
    for i in range(len(scratch.cube)):
        scratch.cube[i] = 0


@inner_kernel
def merge_rows(table, scratch, source, low, high):
    """Merge the items of a block that agree in the cube: they are neighbours. Return the number of rows."""
    items, codes, words = scratch.items, scratch.row_codes, scratch.row_counts
    n = 0
    for at in range(low, high):
        item = np.int64(items[source, at])
        same = n > 0
        for w in range(codes.shape[1]):
            same = same and table.rows[item, w] == codes[n - 1, w]
        if not same:
            for w in range(codes.shape[1]):
                codes[n, w] = table.rows[item, w]
            for w in range(words.shape[1]):
                words[n, w] = 0
            n += 1
        for w in range(words.shape[1]):
            words[n - 1, w] += table.packed[item, w]
    return n


@inner_kernel
def most_frequent(table, scratch, n):
    """The label of which the block's n rows have most samples."""
    field = (_ONE << np.uint64(table.field_bits)) - _ONE
    best, label = np.uint64(0), 0
    for y in range(len(table.label_word)):
        count = np.uint64(0)
        for r in range(n):
            count += (scratch.row_counts[r, table.label_word[y]] >> table.label_shift[y]) & field
        if count > best:
            best, label = count, y
    return label


@inner_kernel
def samples_without(table, words, label):
    """Samples of a row that have another label."""
    field = (_ONE << np.uint64(table.field_bits)) - _ONE
    count = np.uint64(0)
    for y in range(len(table.label_word)):
        if y != label:
            count += (words[table.label_word[y]] >> table.label_shift[y]) & field
    return np.float64(np.int64(count))


@inner_kernel
def close_rows(table, scratch, n):
    """Add a block of few rows in closed form: a subset of them costs every coalition on which it agrees."""
    masks, words = scratch.masks, scratch.subset_words
    everything = (1 << table.n_cube) - 1
    for w in range(words.shape[1]):
        words[0, w] = 0
    for u in range(1, 1 << n):
        i, rest = bit_index(u), u & (u - 1)
        masks[u] = everything
        if rest != 0:
            masks[u] = masks[rest] & agreement(scratch.row_codes, i, bit_index(rest), table.lane_bits)
        for w in range(words.shape[1]):
            words[u, w] = words[rest, w] + scratch.row_counts[i, w]
    subset_terms(table, scratch, n)
    for u in range(1, 1 << n):
        scratch.closed[masks[u]] += scratch.terms[u]


@inner_kernel
def sum_leaf(table, scratch, source, size):
    """Add what the blocks of a partition cost every coalition of the cube, for `size` members beyond it."""
    everything = (1 << table.n_cube) - 1
    words, cube = scratch.row_counts, scratch.cube
    n_words = words.shape[1]
    lane = 0
    for b in range(scratch.n_blocks[source]):
        n = merge_rows(table, scratch, source, scratch.starts[source, b], scratch.starts[source, b + 1])
        if n <= SMALL_BLOCK:
            close_rows(table, scratch, n)
            continue
        label = most_frequent(table, scratch, n)
        for r in range(n):
            weight = samples_without(table, words[r], label)
            if weight == 0.0:
                continue
            scratch.lane_weight[lane] = weight
            scratch.lane_word[lane] = table.label_word[label]
            scratch.lane_shift[lane] = table.label_shift[label]
            for other in range(n):
                cell = agreement(scratch.row_codes, r, other, table.lane_bits) & everything
                for w in range(n_words):
                    cube[(cell * n_words + w) * LANES + lane] += words[other, w]
            lane += 1
            if lane == LANES:
                finish_cube(table, scratch, lane)
                lane = 0
    if lane > 0:
        finish_cube(table, scratch, lane)
    superset_sums(scratch.closed, table.n_cube, 1)
    k = table.n_cube
    everybody, members = weigh(table, scratch, size)
    scratch.everybody[k] += everybody
    scratch.members[k] += members
    for column in range(k):
        add_compensated(scratch.against, scratch.carry, column, scratch.cube_members[column])


@float_kernel("reassoc", "contract", "nsz")
def weigh(table, scratch, size):
    """Weigh the costs of the cube's coalitions and clear them.

    Returns:
        The sum for everybody, and the sum that counts against every member outside the cube.
        `cube_members` gets what counts against each column of the cube.
    """
    costs, closed, weighted = scratch.costs, scratch.closed, scratch.weighted
    everybody = 0.0
    members = 0.0
    for coalition in range(len(costs)):
        cost = costs[coalition] + closed[coalition]
        n = size + table.sizes[coalition]
        everybody += cost * table.weights[n, 0]
        weighted[coalition] = cost * table.member_weights[n, 0]
        members += weighted[coalition]
        costs[coalition] = 0.0
        closed[coalition] = 0.0
    for column in range(table.n_cube - 1, -1, -1):
        half = 1 << column
        lower, upper = weighted[:half], weighted[half : 2 * half]
        against = 0.0
        for coalition in range(half):
            against += upper[coalition]
            lower[coalition] += upper[coalition]
        scratch.cube_members[column] = against
    return everybody, members


@inner_kernel
def count_leaf(table, scratch, source):
    """Tally what `sum_leaf` would have to do."""
    tally = scratch.tally
    for b in range(scratch.n_blocks[source]):
        n = merge_rows(table, scratch, source, scratch.starts[source, b], scratch.starts[source, b + 1])
        if n <= SMALL_BLOCK:
            tally[SMALL] += 1
            continue
        label = most_frequent(table, scratch, n)
        rows = 0
        for r in range(n):
            rows += samples_without(table, scratch.row_counts[r], label) > 0.0
        tally[ROWS] += rows
        tally[PAIRS] += rows * n
