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
def find_free(rows, lane_bits, items, m, multiplicity, differs, free):
    """Write R_B, the columns on which the block is not constant; return how many, and how many parties.

    `rows` holds the codes of an item side by side in lanes of 64-bit words, so that one XOR compares
    several columns.
    """
    first = items[0]
    for w in range(len(differs)):
        differs[w] = 0
    for i in range(1, m):
        item = items[i]
        for w in range(len(differs)):
            differs[w] |= rows[item, w] ^ rows[first, w]
    per_word = 64 // lane_bits
    lane = (np.uint64(1) << np.uint64(lane_bits)) - np.uint64(1)
    n_free = 0
    players = np.int64(0)
    for column in range(len(multiplicity)):
        w = column // per_word
        if (differs[w] >> np.uint64((column - w * per_word) * lane_bits)) & lane != 0:
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
    listed,
    listed_start,
    label,
    weight,
    weighted,
    hashes,
    items,
    m,
    label_field,
    n_fields,
    bits,
    n_words,
    counted,
    whole,
):
    """Add every item to the cells it is listed in: its hash, and its weight in the field of its label.

    `counted` has n_words + 1 numbers per cell: the hash and the words of packed fields. `whole` gets
    the sums of the whole block, from which the modal cells follow by subtraction.
    """
    per_word = 64 // bits
    stride = np.uint64(n_words + 1)
    for w in range(n_words + 1):
        whole[w] = 0
    for i in range(m):
        item = items[i]
        field = label_field[label[item]]
        word = field // per_word
        h = hashes[item]
        add = np.uint64(weight[item]) << np.uint64((field - word * per_word) * bits)
        start = listed_start[item]
        stop = listed_start[item + 1]
        if n_words == 1:
            if weighted:
                add += np.uint64(1) << np.uint64(n_fields * bits)
            for k in range(start, stop):
                at = np.uint64(listed[k]) << np.uint64(1)
                counted[at] += h
                counted[at | np.uint64(1)] += add
            whole[0] += h
            whole[1] += add
            continue
        for k in range(start, stop):
            at = np.uint64(listed[k]) * stride
            counted[at] += h
            counted[at + np.uint64(word + 1)] += add
        whole[0] += h
        whole[word + 1] += add
        if weighted:
            word = n_fields // per_word
            add = np.uint64(1) << np.uint64((n_fields - word * per_word) * bits)
            for k in range(start, stop):
                counted[np.uint64(listed[k]) * stride + np.uint64(word + 1)] += add
            whole[word + 1] += add


@njit(cache=True, nogil=True)
def split_narrow(
    cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields, weighted, bits, xi,
    counted, whole, gains, carry, part_key, part_share, part_size, part_cell, part_column,
):  # fmt: skip
    """Credit every free column with what it explains of the block, list the impure parts, clear the cells.

    For blocks whose label counts fit into one word, which is nearly all of them.
    """
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    item_shift = np.uint64(n_fields * bits)
    label_mask = (np.uint64(1) << item_shift) - np.uint64(1) if weighted else ~np.uint64(0)
    n_parts = 0
    for k in range(n_free):
        column = free[k]
        start = first_cell[column]
        n_cells = first_cell[column + 1] - start
        by_item = n_cells > m
        n_scan = m if by_item else n_cells
        rest_hash = whole[0]
        rest = whole[1]
        remains = 0.0
        given = share * multiplicity[column]
        # One round more than there are cells: the last one is for the modal cell, by subtraction.
        for j in range(n_scan + 1):
            if j == n_scan:
                h = rest_hash
                packed = rest
                cell = np.uint64(modal[column])
            else:
                cell = np.uint64(cells[items[j], column]) if by_item else np.uint64(start + j)
                at = cell << np.uint64(1)
                h = counted[at]
                packed = counted[at | np.uint64(1)]
                if h == 0:
                    continue
                counted[at] = 0
                counted[at | np.uint64(1)] = 0
                rest_hash -= h
                rest -= packed
            counts = packed & label_mask
            number = counts & ones
            counts >>= shift
            while number == 0 and counts != 0:
                number = counts & ones
                counts >>= shift
            if counts == 0:
                continue  # pure, or empty
            part = np.int64(number)
            part_xi = xi_of(part, xi)
            while counts != 0:
                number = counts & ones
                counts >>= shift
                part += np.int64(number)
                part_xi += xi_of(np.int64(number), xi)
            remains += xi_of(part, xi) - part_xi
            part_key[n_parts] = h
            part_share[n_parts] = given
            part_size[n_parts] = np.int64(packed >> item_shift) if weighted else part
            part_cell[n_parts] = cell
            part_column[n_parts] = column
            n_parts += 1
        _credit(gains, carry, column, share * (cost - remains))
    return n_parts


@njit(cache=True, nogil=True)
def split_wide(
    cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields, weighted, bits, n_words, xi,
    counted, whole, rest, gains, carry, part_key, part_share, part_size, part_cell, part_column,
):  # fmt: skip
    """The same for label counts that take several words."""
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    per_word = 64 // bits
    stride = np.int64(n_words + 1)
    n_parts = 0
    for k in range(n_free):
        column = free[k]
        start = first_cell[column]
        n_cells = first_cell[column + 1] - start
        by_item = n_cells > m
        n_scan = m if by_item else n_cells
        for w in range(stride):
            rest[w] = whole[w]
        remains = 0.0
        given = share * multiplicity[column]
        for j in range(n_scan + 1):
            cell = modal[column]
            if j < n_scan:
                cell = np.int64(cells[items[j], column]) if by_item else start + j
                if counted[cell * stride] == 0:
                    continue
                for w in range(stride):
                    rest[w] -= counted[cell * stride + w]
            part = np.int64(0)
            part_xi = 0.0
            n_present = 0
            n_items = np.int64(0)
            h = rest[0] if j == n_scan else counted[cell * stride]
            for w in range(1, stride):
                packed = rest[w] if j == n_scan else counted[cell * stride + w]
                field = (w - 1) * per_word
                while packed != 0:
                    number = np.int64(packed & ones)
                    packed >>= shift
                    if field == n_fields:
                        n_items = number
                    elif number > 0:
                        part += number
                        part_xi += xi_of(number, xi)
                        n_present += 1
                    field += 1
            if j < n_scan:
                for w in range(stride):
                    counted[cell * stride + w] = 0
            if n_present > 1:
                remains += xi_of(part, xi) - part_xi
                part_key[n_parts] = h
                part_share[n_parts] = given
                part_size[n_parts] = n_items if weighted else part
                part_cell[n_parts] = cell
                part_column[n_parts] = column
                n_parts += 1
        _credit(gains, carry, column, share * (cost - remains))
    return n_parts


@njit(cache=True, nogil=True, inline="always")
def _credit(gains, carry, column, term):
    """Compensated sum (Kahan): many small terms go into one number."""
    term -= carry[column]
    bigger = gains[column] + term
    carry[column] = (bigger - gains[column]) - term
    gains[column] = bigger


@njit(cache=True, nogil=True, inline="always")
def _slot(slots, h):
    """Where the key is, or the empty place where it belongs (linear probing)."""
    mask = np.uint64(len(slots) - 2)
    slot = (h * HASH_MULTIPLIER >> HASH_SHIFT) & mask
    while slots[slot] != h and slots[slot] != 0:
        slot = (slot + np.uint64(2)) & mask
    return slot


@njit(cache=True, nogil=True)
def _describe(cells, rows, lane_bits, items, m, column, cell, n_columns, differs):
    """The first item of a part, and on how many columns the part is constant."""
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
    varying = 0
    for w in range(len(differs)):
        word = differs[w]
        while word != 0:
            varying += (word & lane) != 0
            word >>= np.uint64(lane_bits)
    return first, n_columns - varying


@njit(cache=True, nogil=True)
def pass_on(
    cells, rows, lane_bits, items, m, differs, parent, n_parts, part_key, part_share, part_size, part_cell,
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
        first, constant = _describe(
            cells, rows, lane_bits, items, m, column, part_cell[k], n_columns, differs
        )
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
    cells, rows, lane_bits, first_cell, label, weight, weighted, listed, listed_start, modal, members, members_start,
    bitset_row, bitsets, hashes, xi, multiplicity,
    in_mass, in_generator, in_witness, position,
    slots, masses, slot_of, generator, witness, size, rank,
    state, gains, carry, words, items, differs, free, label_field, counted, whole, rest,
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
            cells, members, members_start, bitset_row, bitsets, in_generator[position], in_witness[position], words,
            items,
        )  # fmt: skip
        n_free, players = find_free(rows, lane_bits, items, m, multiplicity, differs, free)
        state[WORK] += m * n_free
        n_fields, total, cost = label_runs(label, weight, items, m, xi, label_field)
        bits = np.int64(0)
        while (total >> bits) != 0:
            bits += 1
        n_words = (n_fields + (1 if weighted else 0) + 64 // bits - 1) // (64 // bits)
        count_cells(
            listed, listed_start, label, weight, weighted, hashes, items, m, label_field, n_fields, bits, n_words,
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
                cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields, weighted, bits,
                xi, counted, whole, gains, carry, part_key, part_share, part_size, part_cell, part_column,
            )  # fmt: skip
        else:
            n_parts = split_wide(
                cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields, weighted, bits,
                n_words, xi, counted, whole, rest, gains, carry, part_key, part_share, part_size, part_cell,
                part_column,
            )  # fmt: skip
        state[N_EDGES] += n_parts
        count = pass_on(
            cells, rows, lane_bits, items, m, differs, in_generator[position], n_parts, part_key, part_share,
            part_size, part_cell, part_column, n_columns, slots, masses, slot_of, generator, witness, size, rank,
            count,
        )  # fmt: skip
        position += 1
    state[COUNT] = count
    return position


@njit(cache=True, nogil=True)
def merge_blocks(
    key, mass, in_generator, in_witness, in_size, in_rank, slots, masses, slot_of, generator, witness, size, rank, count
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


@njit(cache=True, nogil=True)
def block_costs(
    cells, members, members_start, bitset_row, bitsets, label, weight, xi, generator, witness, words, items, label_field
):  # fmt: skip
    """c(B) of each block."""
    costs = np.zeros(len(witness))
    for b in range(len(witness)):
        m = block_items(
            cells, members, members_start, bitset_row, bitsets, generator[b], witness[b], words, items
        )
        costs[b] = label_runs(label, weight, items, m, xi, label_field)[2]
    return costs
