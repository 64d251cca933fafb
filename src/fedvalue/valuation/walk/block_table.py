"""The items in the layout that the compiled walk reads.

- Columns are the distinct columns of the data parties and, last, the task party.
- A *cell* is one code of one column. Cells are numbered consecutively, column after column, so that one array
  holds a number per cell.
- The items of a cell are kept as a sorted list and, for cells that are not tiny, as a bit set too: the items
  on which several columns agree with a given item are then an AND of a few rows of words.
- Columns that split the items in the same way are kept once, with their multiplicity: parties with the same
  data get the same value, and the walk gets shorter.
- Items of a task code with a single label, and columns that are then constant, are left out: they add
  nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.valuation.frozen_random import random_words
from fedvalue.valuation.items import dense_codes, lane_width, lanes, splittable_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.items import ItemTable

BITSET_SHARE = 256
"""Cells with fewer than n_items / 256 items get no bit set, so that all bit sets of a column take at most 32
bytes per item, however many codes it has."""

HASH_SEED = 20_240_229
"""Arbitrary: keys only have to differ for different blocks."""


class BlockTable(NamedTuple):
    """Read-only arrays of a walk; picklable, so that they can travel with a task.

    Args:
        cells: Cell of each item in each column, shape (n_items, n_columns + 1); task column last.
        rows: The same codes, without the task column, side by side in lanes of 64-bit words.
        lane_bits: Width of a lane: 8, 16 or 32 bits, as the largest number of codes needs.
        first_cell: First cell of each column, and the number of cells at the end.
        label: Label per item, ascending.
        weight: Samples per item.
        modal: The most frequent cell of each column of a data party.
        listed: The cells of each item that are not modal, item after item.
        listed_start: Where each item's list starts in `listed`, and its end.
        members: Items of each cell, ascending, cell after cell.
        members_start: Where each cell's list starts in `members`, and its end.
        bitset_row: Row of each cell in `bitsets`, -1 for a cell that has none.
        bitsets: Bit sets of items, shape (n_rows, ceil(n_items / 64)).
        hashes: One random number per item; a block's key is their sum.
        xi: k ln k for small k.
        multiplicity: How many parties each column stands for.
    """

    cells: NDArray[np.uint32]
    rows: NDArray[np.uint64]
    lane_bits: int
    first_cell: NDArray[np.int64]
    label: NDArray[np.int64]
    weight: NDArray[np.int64]
    modal: NDArray[np.int64]
    listed: NDArray[np.uint32]
    listed_start: NDArray[np.int64]
    members: NDArray[np.uint32]
    members_start: NDArray[np.int64]
    bitset_row: NDArray[np.int32]
    bitsets: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    xi: Floats
    multiplicity: NDArray[np.int64]

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.label)

    @property
    def n_columns(self) -> int:
        """Number of columns of data parties, without the task column."""
        return len(self.multiplicity)

    @property
    def n_cells(self) -> int:
        """Number of cells of all columns."""
        return int(self.first_cell[-1])

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.weight.sum())


def block_table(items: ItemTable) -> tuple[BlockTable, NDArray[np.int64]]:
    """Lay out items for the walk.

    Returns:
        The table, and the column of each party; -1 for a party that explains nothing.
    """
    kept = splittable_items(items.codes[-1], items.label)
    rows = items.codes[:, kept]
    columns: list[NDArray[np.int64]] = []
    number: dict[bytes, int] = {}
    column_of = np.full(items.n_parties, -1, dtype=np.int64)
    for d, row in enumerate(rows[:-1]):
        if len(row) == 0 or (row == row[0]).all():
            continue
        column = dense_codes(row)
        key = column.tobytes()
        if key not in number:
            number[key] = len(columns)
            columns.append(column)
        column_of[d] = number[key]
    table = _lay_out(
        [*columns, dense_codes(rows[-1])],
        label=items.label[kept],
        weight=items.weight[kept],
        hashes=random_words(items.n_items, seed=HASH_SEED)[kept],
        xi=items.xi,
        multiplicity=np.bincount(column_of[column_of >= 0], minlength=len(columns)).astype(np.int64),
    )
    return table, column_of


def restrict(table: BlockTable, items: NDArray[np.integer], columns: Sequence[int]) -> BlockTable:
    """The table of some items, in rising order, and some columns; it keeps the task column."""
    return _lay_out(
        [
            _squeezed(table.cells[items, column] - table.first_cell[column])
            for column in (*columns, table.n_columns)
        ],
        label=table.label[items],
        weight=table.weight[items],
        hashes=table.hashes[items],
        xi=table.xi,
        multiplicity=table.multiplicity[list(columns)],
    )


def _squeezed(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Codes renumbered without gaps, in their order."""
    present = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
    present[codes] = 1
    return (np.cumsum(present) - 1)[codes]


def _lay_out(
    columns: Sequence[NDArray[np.int64]],
    *,
    label: NDArray[np.int64],
    weight: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    xi: Floats,
    multiplicity: NDArray[np.int64],
) -> BlockTable:
    widths = [int(column.max(initial=0)) + 1 for column in columns]
    first_cell = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    codes = np.stack(columns, axis=1)
    cells = codes + first_cell[:-1]
    members, members_start = _members(cells, int(first_cell[-1]))
    bitset_row, bitsets = _bitsets(members, members_start, len(label))
    sizes = np.diff(members_start)
    modal = np.array([lo + np.argmax(sizes[lo:hi]) for lo, hi in pairwise(first_cell[:-1])], dtype=np.int64)
    rare = cells[:, :-1] != modal
    lane_bits = lane_width(max(widths[:-1], default=1))
    return BlockTable(
        cells=cells.astype(np.uint32),
        rows=lanes(codes[:, :-1], lane_bits),
        lane_bits=lane_bits,
        first_cell=first_cell,
        label=label,
        weight=weight,
        modal=modal,
        listed=cells[:, :-1][rare].astype(np.uint32),
        listed_start=np.concatenate([[0], np.cumsum(rare.sum(axis=1))]).astype(np.int64),
        members=members,
        members_start=members_start,
        bitset_row=bitset_row,
        bitsets=bitsets,
        hashes=hashes,
        xi=xi,
        multiplicity=multiplicity,
    )


def _members(cells: NDArray[np.int64], n_cells: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    flat = cells.T.ravel()
    if n_cells < 1 << 16:
        flat = flat.astype(np.uint16)  # sorted by radix
    items = np.tile(np.arange(len(cells)), cells.shape[1])
    order = np.argsort(flat, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=n_cells))])
    return items[order].astype(np.uint32), start.astype(np.int64)


def _bitsets(
    members: NDArray[np.uint32], start: NDArray[np.int64], n_items: int
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    sizes = np.diff(start)
    big = np.flatnonzero(sizes * BITSET_SHARE >= n_items)
    row = np.full(len(sizes), -1, dtype=np.int32)
    row[big] = np.arange(len(big))
    n_words = (n_items + 63) // 64
    bits = np.zeros((max(len(big), 1), n_words * 64), dtype=np.uint8)
    for r, cell in enumerate(big):
        bits[r, members[start[cell] : start[cell + 1]]] = 1
    packed = np.packbits(bits, axis=1, bitorder="little")
    return row, np.ascontiguousarray(packed).view("<u8").astype(np.uint64)
