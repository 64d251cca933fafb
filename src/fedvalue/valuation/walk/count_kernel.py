"""Compiled: what a block holds. Its items, its free columns, its labels, and the counts of its cells.

Counting. For a block of N samples with l labels, the counts of all labels in a cell are packed
into as few 64-bit words as hold l fields of bit_length(N) bits, so that an item costs one
addition per column whatever the number of labels. The most frequent cell of each column is not
counted but follows by subtraction.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros


@njit(cache=True, nogil=True, inline="always")
def xi_of(k, xi):
    """ξ(k) = k ln k, from the table where it reaches."""
    if k < len(xi):
        return xi[k]
    return k * np.log(float(k))


@njit(cache=True, nogil=True)
def block_items(  # noqa: PLR0912 - two ways to intersect, each a plain loop
    cells, members, members_start, bitset_row, bitsets, generator, witness, words, items
):
    """Write the items that agree with `witness` on the columns of `generator`; return how many.

    A generator with a tiny cell filters that cell's list; otherwise bit sets are intersected. Either way
    `words` holds the block as a bit set afterwards.
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
        for w in range(n_words):
            words[w] = 0
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
                words[item >> np.uint32(6)] |= np.uint64(1) << np.uint64(item & np.uint32(63))
        return m
    for w in range(n_words):
        word = words[w]
        base = w << 6
        while word != 0:
            items[m] = base + bit_index(word)
            m += 1
            word &= word - np.uint64(1)
    return m


@njit(cache=True, nogil=True, inline="always")
def bit_index(word):
    """Position of the lowest set bit."""
    return np.int64(trailing_zeros(word))


@njit(cache=True, nogil=True)
def is_constant(cells, bitset_row, bitsets, words, first, column):
    """Whether a block is constant on a column: all its items lie in the cell of its first item.

    With a bit set for the cell, the first word with an item outside answers no. A cell without one
    is tiny, and so is a block in it: look through its items.
    """
    cell = cells[first, column]
    row = bitset_row[cell]
    if row >= 0:
        for w in range(len(words)):  # noqa: SIM110 - a loop compiles to less than a generator
            if words[w] & ~bitsets[row, w] != 0:
                return False
        return True
    for w in range(len(words)):
        word = words[w]
        while word != 0:
            if cells[(w << 6) + bit_index(word), column] != cell:
                return False
            word &= word - np.uint64(1)
    return True


@njit(cache=True, nogil=True)
def find_free(cells, bitset_row, bitsets, words, first, n_columns, free):
    """Write the columns, among the first `n_columns`, on which the block is not constant; return how many."""
    n_free = 0
    for column in range(n_columns):
        if not is_constant(cells, bitset_row, bitsets, words, first, column):
            free[n_free] = column
            n_free += 1
    return n_free


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
    listed, listed_start, label, weight, hashes, items, m, label_field, bits, n_words, counted, whole
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
