"""The compiled heart of the exact walk: all blocks of one region, each split once by every party.

See `exact.py` for the theory. A block is known by its key (the sum of its items' random 64-bit hashes:
among the 10^6 blocks of a region two share a key with probability 3·10^-8), its masses, one item of it (the
*witness*) and the set of columns that made it (the *generator*): its items are those that agree with the
witness on the generator. So a block takes a few words, however many items it has.

Blocks are found by key in an open hash table whose slots hold the key and the masses side by side, one
cache line per look-up. The blocks of one rank, the number of walked columns on which they are constant, form
a linked list; parts have a larger rank, so that going through the lists by rising rank meets every block
after it has received all its mass.

The kernels never allocate: `walk_blocks` returns when the next block's parts might not fit.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.walk.count_kernel import bit_index, block_items, count_cells, is_constant, label_runs
from fedvalue.valuation.walk.split_kernel import credit, split_narrow, split_two, split_wide

# Up to so many items, comparing them one by one is faster than intersecting bit sets.
SMALL_BLOCK = 128
# Places in the counters of a walk: blocks found, blocks split, items times columns of those, rank in hand.
COUNT, DONE, WORK, RANK = range(4)
N_COUNTERS = 4

# Columns of the entries: one item, the slot of key and masses, the next entry of the same rank (counted from
# 1; 0 ends the list), and from there on the generator. An entry of up to 63 columns is half a cache line.
WITNESS, SLOT, NEXT, GENERATOR = range(4)

# Fibonacci hashing spreads keys; the middle bits of the product are the best mixed.
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(20)


@njit(cache=True, nogil=True, inline="always")
def _place(slots, mask, stride, h):
    """Where the key is, or the empty place where it belongs (linear probing)."""
    slot = (h * HASH_MULTIPLIER >> HASH_SHIFT) & mask
    while slots[slot * stride] != h and slots[slot * stride] != 0:
        slot = (slot + np.uint64(1)) & mask
    return slot * stride


@njit(cache=True, nogil=True)
def _describe(
    cells, members, members_start, bitset_row, bitsets, words, cell, n_walked, n_columns, part_words
):  # fmt: skip
    """The first item of a part of the block in `words`, its rank, and whether it can be split at all."""
    row = bitset_row[cell]
    if row >= 0:
        for w in range(len(words)):
            part_words[w] = words[w] & bitsets[row, w]
    else:
        for w in range(len(words)):
            part_words[w] = 0
        for k in range(members_start[cell], members_start[cell + 1]):
            item = members[k]
            w = item >> np.uint32(6)
            part_words[w] |= words[w] & (np.uint64(1) << np.uint64(item & np.uint32(63)))
    w = 0
    while part_words[w] == 0:
        w += 1
    first = (w << 6) + bit_index(part_words[w])
    rank = 0
    n_constant = 0
    for column in range(n_columns):
        if is_constant(cells, bitset_row, bitsets, part_words, first, column):
            n_constant += 1
            rank += column < n_walked
    return first, rank, n_constant < n_columns


@njit(cache=True, nogil=True)
def _describe_small(cells, rows, lane_bits, items, m, column, cell, n_walked, n_columns, differs):
    """The same for a block of few items: look through them.

    `rows` holds the codes of an item side by side in lanes of 64-bit words, so that one XOR compares
    several columns.
    """
    at = 0
    while cells[items[at], column] != cell:
        at += 1
    first = items[at]
    for w in range(len(differs)):
        differs[w] = 0
    for i in range(at + 1, m):
        item = items[i]
        if cells[item, column] == cell:
            for w in range(len(differs)):
                differs[w] |= rows[item, w] ^ rows[first, w]
    per_word = 64 // lane_bits
    lane = (np.uint64(1) << np.uint64(lane_bits)) - np.uint64(1)
    rank = n_walked
    varies = False
    other = 0
    for w in range(len(differs)):
        word = differs[w]
        varies = varies or word != 0
        for _ in range(min(per_word, n_walked - other)):
            rank -= (word & lane) != 0
            word >>= np.uint64(lane_bits)
        other += min(per_word, n_walked - other)
    return first, rank, varies


@njit(cache=True, nogil=True)
def _pass_on(
    cells, rows, lane_bits, items, m, differs, members, members_start, bitset_row, bitsets, words, part_words,
    n_walked, multiplicity, parent, shares, n_parts, part_key, part_cell, part_column,
    slots, masses, mask, stride, entries, heads, count,
):  # fmt: skip
    """Give every part its share of the masses and enter the new ones; return the new count of blocks.

    A part that no column splits further is left out: its cost stays, whoever comes.
    """
    n_masses = len(shares)
    # Touch all slots first, without a branch that would wait for one of them: their cache misses overlap.
    touched = np.uint64(0)
    for k in range(n_parts):
        slot = (part_key[k] * HASH_MULTIPLIER >> HASH_SHIFT) & mask
        touched += slots[slot * stride] ^ slots[slot * stride + stride - np.uint64(1)]
    part_key[n_parts] = touched  # so that the loop is not optimised away
    n_new = 0
    for k in range(n_parts):
        h = part_key[k]
        at = _place(slots, mask, stride, h)
        if slots[at] == h:
            times = multiplicity[part_column[k]]
            for j in range(n_masses):
                masses[at + np.uint64(1 + j)] += shares[j] * times
        else:
            part_key[n_new] = h
            part_cell[n_new] = part_cell[k]
            part_column[n_new] = part_column[k]
            n_new += 1
    for k in range(n_new):
        h = part_key[k]
        at = _place(slots, mask, stride, h)
        column = np.int64(part_column[k])
        times = multiplicity[column]
        if slots[at] != h:
            if m <= SMALL_BLOCK:
                first, rank, varies = _describe_small(
                    cells,
                    rows,
                    lane_bits,
                    items,
                    m,
                    column,
                    part_cell[k],
                    n_walked,
                    len(multiplicity),
                    differs,
                )
            else:
                first, rank, varies = _describe(
                    cells, members, members_start, bitset_row, bitsets, words, part_cell[k], n_walked,
                    len(multiplicity), part_words,
                )  # fmt: skip
            if not varies:
                continue
            slots[at] = h
            new = entries[count]
            new[WITNESS] = first
            new[SLOT] = at
            new[NEXT] = heads[rank]
            for w in range(GENERATOR, len(new)):
                new[w] = parent[w]
            new[GENERATOR + (column >> 6)] |= np.uint64(1) << np.uint64(column & 63)
            heads[rank] = count + 1
            count += 1
        for j in range(n_masses):
            masses[at + np.uint64(1 + j)] += shares[j] * times
    return count


@njit(cache=True, nogil=True)
def walk_blocks(
    cells, rows, lane_bits, first_cell, label, weight, listed, listed_start, modal, members, members_start,
    bitset_row, bitsets, hashes, xi, multiplicity, n_walked, awaited, exits,
    slots, masses, entries, heads, state, gains, carry,
    words, part_words, items, differs, label_field, counted, whole, rest, remains, shares,
    part_key, part_cell, part_column,
):  # fmt: skip
    """Split the blocks that wait in `heads`, by rising rank, and their parts after them.

    Returns:
        Whether all are split; if not, the parts of the next block might not fit, and the caller has to
        make room.
    """
    stride = np.uint64(awaited + 2)
    n_slots = len(slots) // (awaited + 2)
    mask = np.uint64(n_slots - 1)
    limit = min(n_slots * 6 // 10, len(entries))
    count = state[COUNT]
    rank = state[RANK]
    n_done = state[DONE]
    work = state[WORK]
    complete = True
    touched = np.uint64(0)
    while rank <= n_walked:
        if heads[rank] == 0:
            rank += 1
            continue
        if count + len(part_key) > limit:
            complete = False
            break
        entry = entries[heads[rank] - 1]
        heads[rank] = entry[NEXT]
        if heads[rank] != 0:
            # Read ahead, so that the next block's masses are at hand when their turn comes.
            touched += slots[entries[heads[rank] - 1, SLOT]]
        m = block_items(
            cells,
            members,
            members_start,
            bitset_row,
            bitsets,
            entry[GENERATOR:],
            entry[WITNESS],
            words,
            items,
        )
        n_fields, total, cost = label_runs(label, weight, items, m, xi, label_field)
        bits = np.int64(0)
        while (total >> bits) != 0:
            bits += 1
        n_words = (n_fields + 64 // bits - 1) // (64 // bits)
        count_cells(
            listed, listed_start, label, weight, hashes, items, m, label_field, bits, n_words, counted, whole
        )
        if n_fields == 2 and n_words == 1 and total < len(xi):
            n_free, players, n_parts = split_two(
                cells, first_cell, modal, multiplicity, n_walked, items, m, bits, xi, counted, whole,
                remains, part_key, part_cell, part_column,
            )  # fmt: skip
        elif n_words == 1:
            n_free, players, n_parts = split_narrow(
                cells, first_cell, modal, multiplicity, n_walked, items, m, bits, xi, counted, whole,
                remains, part_key, part_cell, part_column,
            )  # fmt: skip
        else:
            n_free, players, n_parts = split_wide(
                cells, first_cell, modal, multiplicity, n_walked, items, m, bits, n_words, xi, counted, whole,
                rest, remains, part_key, part_cell, part_column,
            )  # fmt: skip
        # Whoever comes first: a column that splits the block, one that is awaited, one that ends the region.
        base = entry[SLOT] + np.uint64(1)
        arrived = 0.0
        for j in range(awaited + 1):
            shares[j] = (masses[base + np.uint64(j)] + arrived) / (players + awaited - j + exits)
            arrived = shares[j] * (awaited - j)
        for column in range(len(multiplicity)):
            if remains[column] >= 0.0:
                credit(gains, carry, column, shares[awaited] * (cost - remains[column]))
        count = _pass_on(
            cells, rows, lane_bits, items, m, differs, members, members_start, bitset_row, bitsets, words,
            part_words, n_walked, multiplicity, entry, shares, n_parts, part_key, part_cell,
            part_column, slots, masses, mask, stride, entries, heads, count,
        )  # fmt: skip
        n_done += 1
        work += m * n_free
    state[COUNT] = count
    state[RANK] = rank
    state[DONE] = n_done
    state[WORK] = work
    part_key[0] = touched  # so that reading ahead is not optimised away
    return complete


@njit(cache=True, nogil=True)
def enter_roots(
    cells, members, members_start, bitset_row, bitsets, hashes, n_walked, generator, witness, words, items,
    slots, masses, stride, entries, heads,
):  # fmt: skip
    """Enter blocks with mass 1 and nobody arrived yet into an empty set with room; return their number."""
    mask = np.uint64(len(slots) // stride - 1)
    for k in range(len(witness)):
        m = block_items(
            cells, members, members_start, bitset_row, bitsets, generator[k], witness[k], words, items
        )
        h = np.uint64(0)
        for i in range(m):
            h += hashes[items[i]]
        rank = 0
        for column in range(n_walked):
            rank += is_constant(cells, bitset_row, bitsets, words, items[0], column)
        at = _place(slots, mask, np.uint64(stride), h)
        slots[at] = h
        masses[at + np.uint64(1)] = 1.0
        entries[k, WITNESS] = witness[k]
        entries[k, SLOT] = at
        entries[k, NEXT] = heads[rank]
        for w in range(generator.shape[1]):
            entries[k, GENERATOR + w] = generator[k, w]
        heads[rank] = k + 1
    return len(witness)


@njit(cache=True, nogil=True)
def rehash(old_slots, entries, count, stride, slots):
    """Move keys and masses into a larger table."""
    mask = np.uint64(len(slots) // stride - 1)
    for entry in range(count):
        old = entries[entry, SLOT]
        at = _place(slots, mask, np.uint64(stride), old_slots[old])
        for j in range(stride):
            slots[at + np.uint64(j)] = old_slots[old + np.uint64(j)]
        entries[entry, SLOT] = at
