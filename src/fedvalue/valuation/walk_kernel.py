"""The compiled heart of the exact walk: take a block, split it by every party, pass its mass on.

See `walk.py` for the theory. A pending block is five numbers: its key (the sum of its items'
random hashes), its mass q(B), its size, one item of it (the *witness*) and the set of columns
that made it (the *generator*): its items are those that agree with the witness on the generator.
Pending blocks of one size form a linked list; the largest go first, so that a block has received
all its mass before it is split, and each distinct block is split once.

Counting. For a block of N samples with l labels, the counts of all labels in a cell are packed
into as few 64-bit words as hold l fields of bit_length(N) bits, so that an item costs one
addition per column whatever the number of labels. Where items have weights, one more field counts
the items.

The kernel never allocates: it returns GROW when the next block might not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Places in the counters of a run of the kernel.
COUNT, WORK, N_EDGES = range(3)
N_COUNTERS = 3

# Fibonacci hashing spreads keys; the middle bits of the product are the best mixed.
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(20)


@njit(cache=True, nogil=True, inline="always")
def xi_of(k: int, xi: NDArray[np.float64]) -> float:
    """k ln k."""
    if k < len(xi):
        return xi[k]
    return k * np.log(float(k))


@njit(cache=True, nogil=True)
def block_items(cells, members, members_start, bitset_row, bitsets, generator, witness, words, items):
    """Write the items that agree with `witness` on the columns of `generator`; return how many.

    A generator with a tiny cell filters that cell's list; otherwise bit sets are intersected.
    """
    n_columns = cells.shape[1]
    n_words = bitsets.shape[1]
    shortest = -1
    started = False
    for column in range(n_columns):
        if (generator[column >> 6] >> np.uint64(column & 63)) & np.uint64(1) == 0:
            continue
        cell = cells[witness, column]
        row = bitset_row[cell]
        if row < 0:
            if shortest < 0 or (
                members_start[cell + 1] - members_start[cell]
                < members_start[shortest + 1] - members_start[shortest]
            ):
                shortest = cell
        elif shortest < 0:
            if started:
                for w in range(n_words):
                    words[w] &= bitsets[row, w]
            else:
                for w in range(n_words):
                    words[w] = bitsets[row, w]
                started = True
    m = 0
    if shortest >= 0:
        for k in range(members_start[shortest], members_start[shortest + 1]):
            item = members[k]
            agree = True
            for column in range(n_columns):
                if (generator[column >> 6] >> np.uint64(column & 63)) & np.uint64(1) != 0 and cells[
                    item, column
                ] != cells[witness, column]:
                    agree = False
                    break
            if agree:
                items[m] = item
                m += 1
        return m
    for w in range(n_words):
        word = words[w]
        base = w << 6
        while word != 0:
            low = word & (~word + np.uint64(1))
            items[m] = base + _bit_index(low)
            m += 1
            word ^= low
    return m


@njit(cache=True, nogil=True, inline="always")
def _bit_index(low):
    """Position of the only set bit: de Bruijn-free, by popcount of the bits below it."""
    x = low - np.uint64(1)
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def find_free(cells, items, m, multiplicity, differs, free):
    """Write R_B, the columns on which the block is not constant; return how many, and how many parties."""
    n_parties = len(multiplicity)
    first = items[0]
    for column in range(n_parties):
        differs[column] = 0
    for i in range(1, m):
        item = items[i]
        for column in range(n_parties):
            differs[column] |= cells[item, column] ^ cells[first, column]
    n_free = 0
    players = np.int64(0)
    for column in range(n_parties):
        if differs[column] != 0:
            free[n_free] = column
            n_free += 1
            players += multiplicity[column]
    return n_free, players


@njit(cache=True, nogil=True)
def label_runs(label, weight, items, m, xi, label_field):
    """Number the labels of the block; return how many, the samples N_B and the cost c(B).

    Items are sorted by label, so that each label of the block is one run.
    """
    n_fields = 0
    total = np.int64(0)
    run = np.int64(0)
    cost = 0.0
    for i in range(m):
        item = items[i]
        y = label[item]
        run += weight[item]
        if i + 1 == m or label[items[i + 1]] != y:
            label_field[y] = n_fields
            n_fields += 1
            total += run
            cost -= xi_of(run, xi)
            run = 0
    return n_fields, total, cost + xi_of(total, xi)


@njit(cache=True, nogil=True)
def count_cells(
    listed, listed_start, label, weight, weighted, hashes, items, m, label_field, n_fields, bits, n_words, counted
):
    """Add every item to the cells it is listed in: its hash, and one in the field of its label.

    `counted` holds per cell the hash and then the words of packed fields. Returns nothing; the sums
    of the whole block are in the last row, from which the most frequent cells follow by subtraction.
    """
    per_word = 64 // bits
    whole = counted.shape[0] - 1
    for w in range(n_words + 1):
        counted[whole, w] = 0
    for i in range(m):
        item = items[i]
        field = label_field[label[item]]
        h = hashes[item]
        word = field // per_word
        add = np.uint64(weight[item]) << np.uint64((field - word * per_word) * bits)
        if n_words == 1:
            if weighted:
                add += np.uint64(1) << np.uint64(n_fields * bits)
            for k in range(listed_start[item], listed_start[item + 1]):
                cell = listed[k]
                counted[cell, 0] += h
                counted[cell, 1] += add
            counted[whole, 0] += h
            counted[whole, 1] += add
        else:
            for k in range(listed_start[item], listed_start[item + 1]):
                cell = listed[k]
                counted[cell, 0] += h
                counted[cell, word + 1] += add
            counted[whole, 0] += h
            counted[whole, word + 1] += add
            if weighted:
                word = n_fields // per_word
                add = np.uint64(1) << np.uint64((n_fields - word * per_word) * bits)
                for k in range(listed_start[item], listed_start[item + 1]):
                    counted[listed[k], word + 1] += add
                counted[whole, word + 1] += add


@njit(cache=True, nogil=True)
def split_columns(
    cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields, weighted, bits, n_words,
    xi, counted, gains, carry, part_key, part_share, part_size, part_cell, part_column,
):  # fmt: skip
    """Credit every free column with what it explains of the block; list the impure parts; clear the cells."""
    ones = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    per_word = 64 // bits
    whole = counted.shape[0] - 1
    n_parts = 0
    for k in range(n_free):
        column = free[k]
        start = first_cell[column]
        stop = first_cell[column + 1]
        by_item = stop - start > m
        n_scan = m if by_item else stop - start
        top = modal[column]
        for w in range(n_words + 1):
            counted[top, w] = counted[whole, w]
        if by_item:
            # A cell may come up for several items: subtract it once, at the first item that has it.
            for j in range(m):
                cell = np.int64(cells[items[j], column])
                if cell != top and counted[cell, 0] != 0 and _first_time(cells, items, column, j):
                    for w in range(n_words + 1):
                        counted[top, w] -= counted[cell, w]
        else:
            for cell in range(start, stop):
                if cell != top:
                    for w in range(n_words + 1):
                        counted[top, w] -= counted[cell, w]
        remains = 0.0
        given = share * multiplicity[column]
        for j in range(n_scan):
            cell = np.int64(cells[items[j], column]) if by_item else start + j
            h = counted[cell, 0]
            if h == 0:
                continue
            counted[cell, 0] = 0
            part = np.int64(0)
            part_xi = 0.0
            n_present = 0
            n_items = np.int64(0)
            for w in range(n_words):
                packed = counted[cell, w + 1]
                counted[cell, w + 1] = 0
                field = w * per_word
                while packed != 0:
                    number = np.int64(packed & ones)
                    packed >>= np.uint64(bits)
                    if field == n_fields:
                        n_items = number
                    elif number > 0:
                        part += number
                        part_xi += xi_of(number, xi)
                        n_present += 1
                    field += 1
            if n_present > 1:
                remains += xi_of(part, xi) - part_xi
                part_key[n_parts] = h
                part_share[n_parts] = given
                part_size[n_parts] = n_items if weighted else part
                part_cell[n_parts] = cell
                part_column[n_parts] = column
                n_parts += 1
        # Compensated: many small terms go into one sum.
        term = share * (cost - remains) - carry[column]
        bigger = gains[column] + term
        carry[column] = (bigger - gains[column]) - term
        gains[column] = bigger
    return n_parts


@njit(cache=True, nogil=True, inline="always")
def _first_time(cells, items, column, j):
    for i in range(j):
        if cells[items[i], column] == cells[items[j], column]:
            return False
    return True


@njit(cache=True, nogil=True, inline="always")
def _slot(slot_key, h):
    """The slot that holds the key, or the empty one where it belongs (linear probing)."""
    mask = np.uint64(len(slot_key) - 1)
    slot = (h * HASH_MULTIPLIER >> HASH_SHIFT) & mask
    while slot_key[slot, 0] != h and slot_key[slot, 0] != 0:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def _n_constant(cells, items, m, column, cell, free, n_free, n_parties, differs):
    """The witness of a part of the block, and on how many columns the part is constant."""
    at = 0
    while cells[items[at], column] != cell:
        at += 1
    first = items[at]
    for column_2 in range(n_parties):
        differs[column_2] = 0
    for i in range(at + 1, m):
        item = items[i]
        if cells[item, column] == cell:
            for column_2 in range(n_parties):
                differs[column_2] |= cells[item, column_2] ^ cells[first, column_2]
    rank = 0
    for column_2 in range(n_parties):
        if differs[column_2] == 0:
            rank += 1
    return first, rank


@njit(cache=True, nogil=True)
def pass_on(
    cells, items, m, free, n_free, differs, parent, n_parts, part_key, part_share, part_size, part_cell, part_column,
    n_parties, slot_key, slot_mass, slot_of, generator, witness, size, rank, count,
):  # fmt: skip
    """Add the shares of the parts to the blocks found so far, enter the new ones; return the new count.

    A part that no column splits further is left out: its cost stays, whoever comes.
    """
    # Known parts first, in a tight loop, so that their cache misses overlap.
    n_new = 0
    for k in range(n_parts):
        h = part_key[k]
        slot = _slot(slot_key, h)
        if slot_key[slot, 0] == h:
            slot_mass[slot, 1] += part_share[k]
        else:
            part_key[n_new] = h
            part_share[n_new] = part_share[k]
            part_size[n_new] = part_size[k]
            part_cell[n_new] = part_cell[k]
            part_column[n_new] = part_column[k]
            n_new += 1
    for k in range(n_new):
        h = part_key[k]
        slot = _slot(slot_key, h)
        if slot_key[slot, 0] == h:
            slot_mass[slot, 1] += part_share[k]
            continue
        column = part_column[k]
        first, constant = _n_constant(cells, items, m, column, part_cell[k], free, n_free, n_parties, differs)
        if constant == n_parties:
            continue
        slot_key[slot, 0] = h
        slot_mass[slot, 1] = part_share[k]
        slot_of[count] = slot
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
    cells, first_cell, label, weight, weighted, listed, listed_start, modal, members, members_start, bitset_row,
    bitsets, hashes, xi, multiplicity,
    in_mass, in_generator, in_witness, position,
    slot_key, slot_mass, slot_of, generator, witness, size, rank,
    state, gains, carry, words, items, differs, free, label_field, counted,
    part_key, part_share, part_size, part_cell, part_column,
):  # fmt: skip
    """Split the blocks from `position` on; collect their parts, each once, with the mass they receive.

    Returns:
        The next position: the number of blocks when all are done, less when the parts of the next block
        might not fit, and the caller has to make room.
    """
    n_parties = len(multiplicity)
    limit = min(len(slot_key) * 3 // 5, len(slot_of))
    count = state[COUNT]
    while position < len(in_mass):
        # At most this many parts of two items or more.
        if count + len(part_key) > limit:
            break
        m = block_items(
            cells, members, members_start, bitset_row, bitsets, in_generator[position], in_witness[position], words,
            items,
        )  # fmt: skip
        n_free, players = find_free(cells, items, m, multiplicity, differs, free)
        state[WORK] += m * n_free
        n_fields, total, cost = label_runs(label, weight, items, m, xi, label_field)
        bits = np.int64(0)
        while (total >> bits) != 0:
            bits += 1
        n_words = (n_fields + (1 if weighted else 0) + 64 // bits - 1) // (64 // bits)
        count_cells(
            listed, listed_start, label, weight, weighted, hashes, items, m, label_field, n_fields, bits, n_words,
            counted,
        )  # fmt: skip
        # Constant columns were counted too: clear what they left.
        for column in range(n_parties):
            if differs[column] == 0:
                for w in range(n_words + 1):
                    counted[cells[items[0], column], w] = 0
        n_parts = split_columns(
            cells, first_cell, modal, multiplicity, items, m, free, n_free, in_mass[position] / players, cost, n_fields,
            weighted, bits, n_words, xi, counted, gains, carry, part_key, part_share, part_size, part_cell, part_column,
        )  # fmt: skip
        state[N_EDGES] += n_parts
        count = pass_on(
            cells, items, m, free, n_free, differs, in_generator[position], n_parts, part_key, part_share, part_size,
            part_cell, part_column, n_parties, slot_key, slot_mass, slot_of, generator, witness, size, rank, count,
        )  # fmt: skip
        position += 1
    state[COUNT] = count
    return position


@njit(cache=True, nogil=True)
def merge_blocks(
    key, mass, in_generator, in_witness, in_size, in_rank, slot_key, slot_mass, slot_of, generator, witness, size,
    rank, count,
):  # fmt: skip
    """Add blocks to a set that has room for them; return the new count."""
    for k in range(len(key)):
        slot = _slot(slot_key, key[k])
        if slot_key[slot, 0] == key[k]:
            slot_mass[slot, 1] += mass[k]
            continue
        slot_key[slot, 0] = key[k]
        slot_mass[slot, 1] = mass[k]
        slot_of[count] = slot
        for w in range(generator.shape[1]):
            generator[count, w] = in_generator[k, w]
        witness[count] = in_witness[k]
        size[count] = in_size[k]
        rank[count] = in_rank[k]
        count += 1
    return count


@njit(cache=True, nogil=True)
def rehash(old_key, old_mass, slot_of, count, slot_key, slot_mass):
    """Move keys and masses into a larger table."""
    for entry in range(count):
        old = slot_of[entry]
        slot = _slot(slot_key, old_key[old, 0])
        slot_key[slot, 0] = old_key[old, 0]
        slot_mass[slot, 1] = old_mass[old, 1]
        slot_of[entry] = slot
