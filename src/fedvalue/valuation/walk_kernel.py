"""The compiled heart of the exact walk: take blocks, split each by every party, pass their mass on.

See `walk.py` for the theory. A block is known by its key (the sum of its items' random 64-bit hashes:
among 10^8 blocks two share a key with probability 3·10^-4, among 10^6 with 3·10^-8), its mass q(B),
one item of it (the *witness*) and the set of columns that made it (the *generator*): its items are those
that agree with the witness on the generator. So a waiting block takes a few words, however many items it has.

The kernels never allocate: `split_blocks` returns when the next block's parts might not fit.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.walk_count_kernel import (
    bit_index,
    block_items,
    count_cells,
    find_free,
    find_free_small,
    is_constant,
    label_runs,
)
from fedvalue.valuation.walk_split_kernel import split_narrow, split_wide

# Up to so many items, comparing them one by one is faster than intersecting bit sets.
SMALL_BLOCK = 128
# Places in the counters of a run of the kernel.
COUNT, WORK, N_EDGES = range(3)
N_COUNTERS = 3

# Fibonacci hashing spreads keys; the middle bits of the product are the best mixed.
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(20)


@njit(cache=True, nogil=True, inline="always")
def _slot(slots, h):
    """Where the key is, or the empty place where it belongs (linear probing)."""
    mask = np.uint64(len(slots) - 2)
    slot = (h * HASH_MULTIPLIER >> HASH_SHIFT) & mask
    while slots[slot] != h and slots[slot] != 0:
        slot = (slot + np.uint64(2)) & mask
    return slot


@njit(cache=True, nogil=True)
def _describe(
    cells, members, members_start, bitset_row, bitsets, words, cell, size, free, n_free, n_columns, part_words
):  # fmt: skip
    """The first item of a part of the block in `words`, and on how many columns the part is constant.

    What is constant on the block is constant on its parts.
    """
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
    first = (w << 6) + bit_index(part_words[w] & (~part_words[w] + np.uint64(1)))
    constant = n_columns - n_free
    for k in range(n_free):
        if is_constant(cells, members_start, bitset_row, bitsets, part_words, first, size, free[k]):
            constant += 1
    return first, constant


@njit(cache=True, nogil=True)
def _describe_small(cells, rows, lane_bits, items, m, column, cell, n_columns, differs):
    """The same for a block of few items: look through them."""
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
    lane = (np.uint64(1) << np.uint64(lane_bits)) - np.uint64(1)
    varying = 0
    for w in range(len(differs)):
        word = differs[w]
        while word != 0:
            varying += (word & lane) != 0
            word >>= np.uint64(lane_bits)
    return first, n_columns - varying


@njit(cache=True, nogil=True)
def pass_on(
    cells, rows, lane_bits, items, m, differs, members, members_start, bitset_row, bitsets, words, part_words,
    free, n_free, parent, n_parts, part_key, part_share, part_size, part_cell,
    part_column, n_columns, slots, masses, slot_of, generator, witness, size, rank, count,
):  # fmt: skip
    """Add the shares of the parts to the blocks found so far, enter the new ones; return the new count.

    A part that no column splits further is left out: its cost stays, whoever comes.
    """
    # Known parts first, in a tight loop, so that their cache misses overlap.
    n_new = 0
    for k in range(n_parts):
        h = part_key[k]
        slot = _slot(slots, h)
        if slots[slot] == h:
            masses[slot + np.uint64(1)] += part_share[k]
        else:
            part_key[n_new] = h
            part_share[n_new] = part_share[k]
            part_size[n_new] = part_size[k]
            part_cell[n_new] = part_cell[k]
            part_column[n_new] = part_column[k]
            n_new += 1
    for k in range(n_new):
        h = part_key[k]
        slot = _slot(slots, h)
        if slots[slot] == h:
            masses[slot + np.uint64(1)] += part_share[k]
            continue
        column = part_column[k]
        if m <= SMALL_BLOCK:
            first, constant = _describe_small(
                cells, rows, lane_bits, items, m, column, part_cell[k], n_columns, differs
            )
        else:
            first, constant = _describe(
                cells, members, members_start, bitset_row, bitsets, words, part_cell[k], part_size[k], free,
                n_free, n_columns, part_words,
            )  # fmt: skip
        if constant == n_columns:
            continue
        slots[slot] = h
        masses[slot + np.uint64(1)] = part_share[k]
        slot_of[count] = slot >> np.uint64(1)
        for w in range(generator.shape[1]):
            generator[count, w] = parent[w]
        generator[count, column >> np.uint32(6)] |= np.uint64(1) << np.uint64(column & np.uint32(63))
        witness[count] = first
        size[count] = part_size[k]
        rank[count] = constant
        count += 1
    return count


@njit(cache=True, nogil=True)
def split_blocks(
    cells, rows, lane_bits, first_cell, label, weight, weighted, listed, listed_start, modal, members,
    members_start,
    bitset_row, bitsets, hashes, xi, multiplicity,
    in_mass, in_generator, in_witness, position,
    slots, masses, slot_of, generator, witness, size, rank,
    state, gains, carry, words, part_words, items, differs, free, label_field, counted, whole, rest,
    part_key, part_share, part_size, part_cell, part_column,
):  # fmt: skip
    """Split the blocks from `position` on; collect their parts, each once, with the mass they receive.

    Returns:
        The next position: the number of blocks when all are done, less when the parts of the next block
        might not fit, and the caller has to make room.
    """
    n_columns = len(multiplicity)
    limit = min(len(slots) * 3 // 10, len(slot_of))
    count = state[COUNT]
    while position < len(in_mass):
        if count + len(part_key) > limit:
            break
        m = block_items(
            cells, members, members_start, bitset_row, bitsets, in_generator[position], in_witness[position],
            words,
            items,
        )  # fmt: skip
        if m <= SMALL_BLOCK:
            n_free, players = find_free_small(rows, lane_bits, items, m, multiplicity, differs, free)
        else:
            n_free, players = find_free(
                cells, members_start, bitset_row, bitsets, words, items[0], m, multiplicity, free
            )
        state[WORK] += m * n_free
        n_fields, total, cost = label_runs(label, weight, items, m, xi, label_field)
        bits = np.int64(0)
        while (total >> bits) != 0:
            bits += 1
        n_words = (n_fields + (1 if weighted else 0) + 64 // bits - 1) // (64 // bits)
        count_cells(
            listed, listed_start, label, weight, weighted, hashes, items, m, label_field, n_fields, bits,
            n_words,
            counted, whole,
        )  # fmt: skip
        # Constant columns were counted too: clear what they left.
        k = 0
        for column in range(n_columns):
            if k < n_free and free[k] == column:
                k += 1
            else:
                at = np.int64(cells[items[0], column]) * (n_words + 1)
                for w in range(n_words + 1):
                    counted[at + w] = 0
        share = in_mass[position] / players
        if n_words == 1:
            n_parts = split_narrow(
                cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields,
                weighted, bits,
                xi, counted, whole, gains, carry, part_key, part_share, part_size, part_cell, part_column,
            )  # fmt: skip
        else:
            n_parts = split_wide(
                cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields,
                weighted, bits,
                n_words, xi, counted, whole, rest, gains, carry, part_key, part_share, part_size, part_cell,
                part_column,
            )  # fmt: skip
        state[N_EDGES] += n_parts
        count = pass_on(
            cells, rows, lane_bits, items, m, differs, members, members_start, bitset_row, bitsets, words,
            part_words, free, n_free, in_generator[position], n_parts, part_key, part_share,
            part_size, part_cell, part_column, n_columns, slots, masses, slot_of, generator, witness, size,
            rank,
            count,
        )  # fmt: skip
        position += 1
    state[COUNT] = count
    return position


@njit(cache=True, nogil=True)
def merge_blocks(
    key, mass, in_generator, in_witness, in_size, in_rank, slots, masses, slot_of, generator, witness, size,
    rank, count
):  # fmt: skip
    """Add blocks to a set that has room for them; return the new count."""
    for k in range(len(key)):
        h = key[k]
        slot = _slot(slots, h)
        if slots[slot] == h:
            masses[slot + np.uint64(1)] += mass[k]
            continue
        slots[slot] = h
        masses[slot + np.uint64(1)] = mass[k]
        slot_of[count] = slot >> np.uint64(1)
        for w in range(generator.shape[1]):
            generator[count, w] = in_generator[k, w]
        witness[count] = in_witness[k]
        size[count] = in_size[k]
        rank[count] = in_rank[k]
        count += 1
    return count


@njit(cache=True, nogil=True)
def rehash(old_slots, old_masses, slot_of, count, slots, masses):
    """Move keys and masses into a larger table."""
    for entry in range(count):
        old = np.uint64(slot_of[entry]) << np.uint64(1)
        slot = _slot(slots, old_slots[old])
        slots[slot] = old_slots[old]
        masses[slot + np.uint64(1)] = old_masses[old + np.uint64(1)]
        slot_of[entry] = slot >> np.uint64(1)
