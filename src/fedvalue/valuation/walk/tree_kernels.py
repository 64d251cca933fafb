"""Compiled: every distinct block once, as a tree.

The blocks of a table form a lattice; the walk reaches a block from many sides. Taking for each block only one
way, the *prefix-preserving* one (Uno, Kiyomi, Arimura 2004, closed item sets), makes the lattice a tree with
the same nodes: a part of B by column d is B's child when d comes after B's own last column and no column
before d becomes constant with it. A tree can be sampled, so that the number of blocks can be estimated
without visiting them.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import kernel
from fedvalue.valuation.walk.block_kernels import block_items, is_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats


class Nodes(NamedTuple):
    """Some blocks, each standing for `weight` of them.

    Args:
        generator: Columns on which the block's items agree with the witness, as bits of 64-bit words.
        witness: One item of the block.
        core: The column that made the block in the tree.
        weight: How many blocks it stands for.
        work: Items times columns that split the block.
    """

    generator: NDArray[np.uint64]
    witness: NDArray[np.uint64]
    core: NDArray[np.int64]
    weight: Floats
    work: Floats


@kernel
def tree_children(table, scratch, n_walked, nodes, position, out):  # noqa: PLR0912 - columns, cells, items
    """List the children of the nodes from `position` on by the first `n_walked` columns.

    Each child gets its node's weight. Columns beyond split no node, but count as work.

    Args:
        table: A `BlockTable`.
        scratch: A `BlockScratch`.
        n_walked: Number of columns that split.
        nodes: `Nodes`.
        position: The node to begin with.
        out: `Nodes` that receive the children; large enough for those of one node.

    Returns:
        The next position and the number of children; the position is less than the number of nodes when
        `out` is full.
    """
    cells, label, first_cell = table.cells, table.label, table.first_cell
    items, part, part_words, free = scratch.items, scratch.part, scratch.part_words, scratch.free
    count = 0
    while position < len(nodes.witness) and count + len(scratch.part_key) <= len(out.witness):
        m = block_items(table, scratch, nodes.generator[position], nodes.witness[position])
        n_free = 0
        for column in range(len(table.multiplicity)):
            if not is_constant(table, scratch.words, np.int64(items[0]), column):
                free[n_free] = column
                n_free += 1
        for k in range(n_free):
            column = free[k]
            if column <= nodes.core[position]:
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
                    if not is_constant(table, part_words, np.int64(part[0]), free[f]):
                        n_varying += 1
                    elif free[f] < column:
                        mine = False
                        break
                if not mine or n_varying == 0:
                    continue
                for w in range(nodes.generator.shape[1]):
                    out.generator[count, w] = nodes.generator[position, w]
                out.generator[count, column >> 6] |= np.uint64(1) << np.uint64(column & 63)
                out.witness[count] = part[0]
                out.core[count] = column
                out.weight[count] = nodes.weight[position]
                out.work[count] = size * n_varying
                count += 1
        position += 1
    return position, count


@kernel
def needed_columns(table, scratch, n_walked, nodes, constant, needed):
    """Write for each block on which walked columns it is constant, and which of these no other can replace.

    A column is needed when some item outside the block differs from it in this column alone: without
    the column, no coalition makes the block.
    """
    cells = table.cells
    for b in range(len(nodes.witness)):
        block_items(table, scratch, nodes.generator[b], nodes.witness[b])
        for column in range(n_walked):
            constant[b, column] = is_constant(table, scratch.words, np.int64(scratch.items[0]), column)
            needed[b, column] = False
        for item in range(len(cells)):
            alone = -1
            for column in range(n_walked):
                if constant[b, column] and cells[item, column] != cells[nodes.witness[b], column]:
                    if alone >= 0:
                        alone = -1
                        break
                    alone = column
            if alone >= 0:
                needed[b, alone] = True
