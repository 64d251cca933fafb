"""Compiled: the items of a block, its labels, and the counts of its cells.

Counting. For a block of N samples with l labels, the counts of all labels in a cell are packed into as few
64-bit words as hold l fields of bit_length(N) bits, so that an item costs one addition per column whatever
the number of labels. The most frequent cell of each column is not counted but follows by subtraction.

`table` is a `BlockTable` and `scratch` a `BlockScratch` everywhere.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import bit_index, inlined_kernel, inner_kernel, kernel, xi_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.block_table import BlockTable


class BlockScratch(NamedTuple):
    """Buffers for one block at a time.

    Args:
        words: The block's items as a bit set.
        part_words: The same of a part of it.
        items: The block's items.
        part: Those of a part of it.
        free: Columns on which the block is not constant.
        differs: Lanes of codes in which some items differ.
        label_field: Number of each label within the block.
        counted: Hash and packed label counts of each cell, n_words + 1 numbers each.
        whole: The same of the whole block.
        rest: The same of the modal cell.
        remains: Σ c over the parts by each column; -1 where the block is constant.
        part_key: Key of each impure part.
        part_cell: Its cell.
        part_column: Its column.
    """

    words: NDArray[np.uint64]
    part_words: NDArray[np.uint64]
    items: NDArray[np.uint32]
    part: NDArray[np.uint32]
    free: NDArray[np.int64]
    differs: NDArray[np.uint64]
    label_field: NDArray[np.int64]
    counted: NDArray[np.uint64]
    whole: NDArray[np.uint64]
    rest: NDArray[np.uint64]
    remains: Floats
    part_key: NDArray[np.uint64]
    part_cell: NDArray[np.uint64]
    part_column: NDArray[np.uint32]


def block_scratch(table: BlockTable) -> BlockScratch:
    """Buffers for the blocks of a table."""
    n_words, n_labels = table.bitsets.shape[1], int(table.label[-1]) + 1
    # The most words that the packed label counts of a block can take, and the hash.
    stride = 1 + -(-n_labels // (64 // table.n_samples.bit_length()))
    most_parts = min(table.n_cells, table.n_columns * (table.n_items // 2)) + 1
    return BlockScratch(
        words=np.zeros(n_words, dtype=np.uint64),
        part_words=np.zeros(n_words, dtype=np.uint64),
        items=np.zeros(table.n_items, dtype=np.uint32),
        part=np.zeros(table.n_items, dtype=np.uint32),
        free=np.zeros(table.n_columns, dtype=np.int64),
        differs=np.zeros(table.rows.shape[1], dtype=np.uint64),
        label_field=np.zeros(n_labels, dtype=np.int64),
        counted=np.zeros(table.n_cells * stride, dtype=np.uint64),
        whole=np.zeros(stride, dtype=np.uint64),
        rest=np.zeros(stride, dtype=np.uint64),
        remains=np.zeros(table.n_columns),
        part_key=np.zeros(most_parts, dtype=np.uint64),
        part_cell=np.zeros(most_parts, dtype=np.uint64),
        part_column=np.zeros(most_parts, dtype=np.uint32),
    )


@inlined_kernel
def has_column(generator, column):
    """Whether a set of columns has a column."""
    return (generator[column >> 6] >> np.uint64(column & 63)) & np.uint64(1) != 0


@kernel
def block_items(table, scratch, generator, witness):  # noqa: PLR0912 - two ways to intersect, plain loops
    """Write the items that agree with `witness` on the columns of `generator`; return how many.

    A generator with a tiny cell filters that cell's list; otherwise bit sets are intersected. Either way
    `scratch.words` holds the block as a bit set afterwards.
    """
    cells, members, start, bitsets = table.cells, table.members, table.members_start, table.bitsets
    words, items = scratch.words, scratch.items
    n_words = len(words)
    shortest = -1
    started = False
    for column in range(cells.shape[1]):
        if not has_column(generator, column):
            continue
        cell = np.int64(cells[witness, column])
        row = table.bitset_row[cell]
        if row < 0:
            if shortest < 0 or start[cell + 1] - start[cell] < start[shortest + 1] - start[shortest]:
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
        for k in range(start[shortest], start[shortest + 1]):
            item = members[k]
            agree = True
            for column in range(cells.shape[1]):
                if has_column(generator, column) and cells[item, column] != cells[witness, column]:
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


@inner_kernel
def is_constant(table, words, first, column):
    """Whether a block is constant on a column: all its items lie in the cell of its first item.

    With a bit set for the cell, the first word with an item outside answers no. A cell without one
    is tiny, and so is a block in it: look through its items.
    """
    cell = table.cells[first, column]
    row = table.bitset_row[cell]
    if row >= 0:
        for w in range(len(words)):  # noqa: SIM110 - a loop compiles to less than a generator
            if words[w] & ~table.bitsets[row, w] != 0:
                return False
        return True
    for w in range(len(words)):
        word = words[w]
        while word != 0:
            if table.cells[(w << 6) + bit_index(word), column] != cell:
                return False
            word &= word - np.uint64(1)
    return True


@inner_kernel
def label_runs(table, scratch, m):
    """Number the labels of the block; return how many, the samples N_B and the cost c(B).

    Items are sorted by label, so that each label of the block is one run.
    """
    label, items, xi = table.label, scratch.items, table.xi
    n_fields = 0
    total = np.int64(0)
    run = np.int64(0)
    cost = 0.0
    for i in range(m):
        item = items[i]
        y = label[item]
        run += table.weight[item]
        if i + 1 == m or label[items[i + 1]] != y:
            scratch.label_field[y] = n_fields
            n_fields += 1
            total += run
            cost -= xi_of(run, xi)
            run = 0
    return n_fields, total, cost + xi_of(total, xi)


@inner_kernel
def count_cells(table, scratch, m, bits, n_words):
    """Add every item to the cells it is listed in: its hash, and its weight in the field of its label.

    `scratch.whole` gets the sums of the whole block, from which the modal cells follow by subtraction.
    """
    listed, counted, whole = table.listed, scratch.counted, scratch.whole
    per_word = 64 // bits
    stride = np.uint64(n_words + 1)
    for w in range(n_words + 1):
        whole[w] = 0
    for i in range(m):
        item = scratch.items[i]
        field = scratch.label_field[table.label[item]]
        word = field // per_word
        h = table.hashes[item]
        add = np.uint64(table.weight[item]) << np.uint64((field - word * per_word) * bits)
        start = table.listed_start[item]
        stop = table.listed_start[item + 1]
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
