"""Compiled: every distinct block once, as a tree.

The blocks of a table form a lattice; the walk reaches a block from many sides. Taking for each block
only one way, the *prefix-preserving* one (Uno, Kiyomi, Arimura 2004, closed item sets), makes the
lattice a tree with the same nodes: a part of B by column d is B's child when d comes after B's own
last column and no column before d becomes constant with it. A tree can be sampled, so that the number
of blocks can be estimated without visiting them.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.walk.count_kernel import block_items, find_free, is_constant


@njit(cache=True, nogil=True)
def tree_children(  # noqa: PLR0912 - nested loops over columns, cells and items
    cells, first_cell, label, members, members_start, bitset_row, bitsets, n_walked,
    generator, witness, core, weight, position, words, part_words, items, part, free,
    out_generator, out_witness, out_core, out_weight, out_work, room_needed,
):  # fmt: skip
    """List the children of the nodes from `position` on by the first `n_walked` columns.

    Each child gets its node's weight. Columns beyond split no node, but count as work.

    Returns:
        The next position and the number of children; the position is less than the number of nodes when
        the room is used up.
    """
    n_columns = len(first_cell) - 2
    count = 0
    while position < len(witness) and count + room_needed <= len(out_witness):
        m = block_items(
            cells, members, members_start, bitset_row, bitsets, generator[position], witness[position],
            words, items
        )  # fmt: skip
        n_free = find_free(cells, bitset_row, bitsets, words, items[0], n_columns, free)
        for k in range(n_free):
            column = np.int64(free[k])
            if column <= core[position]:
                continue
            if column >= n_walked:
                break
            for cell in range(first_cell[column], first_cell[column + 1]):
                size = 0
                for i in range(m):
                    if cells[items[i], column] == cell:
                        part[size] = items[i]
                        size += 1
                # Items are sorted by label: impure when the ends differ.
                if size < 2 or label[part[0]] == label[part[size - 1]]:
                    continue
                for w in range(len(part_words)):
                    part_words[w] = 0
                for i in range(size):
                    part_words[part[i] >> np.uint32(6)] |= np.uint64(1) << np.uint64(part[i] & np.uint32(63))
                # The first column that was free and is constant now must be the one that made the part.
                n_varying = 0
                mine = True
                for f in range(n_free):
                    other = np.int64(free[f])
                    if not is_constant(cells, bitset_row, bitsets, part_words, part[0], other):
                        n_varying += 1
                    elif other < column:
                        mine = False
                        break
                if not mine or n_varying == 0:
                    continue
                for w in range(generator.shape[1]):
                    out_generator[count, w] = generator[position, w]
                out_generator[count, column >> 6] |= np.uint64(1) << np.uint64(column & 63)
                out_witness[count] = part[0]
                out_core[count] = column
                out_weight[count] = weight[position]
                out_work[count] = size * n_varying
                count += 1
        position += 1
    return position, count


@njit(cache=True, nogil=True)
def needed_columns(
    cells, members, members_start, bitset_row, bitsets, n_walked, generator, witness, words, items, constant,
    needed
):  # fmt: skip
    """Write for each block on which walked columns it is constant, and which of these no other can replace.

    A column is needed when some item outside the block differs from it in this column alone: without
    the column, no coalition makes the block.
    """
    for b in range(len(witness)):
        block_items(
            cells, members, members_start, bitset_row, bitsets, generator[b], witness[b], words, items
        )
        for column in range(n_walked):
            constant[b, column] = is_constant(cells, bitset_row, bitsets, words, items[0], column)
            needed[b, column] = False
        for item in range(len(cells)):
            alone = -1
            for column in range(n_walked):
                if constant[b, column] and cells[item, column] != cells[witness[b], column]:
                    if alone >= 0:
                        alone = -1
                        break
                    alone = column
            if alone >= 0:
                needed[b, alone] = True
