"""The joint table in the layout that the compiled walk reads.

Items are sorted by label. Columns are the data parties and, last, the task party. A *cell* is
one code of one column; cells are numbered through, column after column, so that one array holds
what is counted per cell. The items of a cell are kept as a sorted list and, for cells that are
not tiny, as a bit set too: the items on which several columns agree with a given item are then
an AND of a few rows of words.

Columns that split the items in the same way are kept once, with their multiplicity: parties
with the same data get the same value, and the walk gets shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats

# k ln k is looked up to this k and computed beyond: the table then stays in the second-level cache.
XI_TABLE = 1 << 16
# Cells with fewer than n_items / 256 items get no bit set, so all bit sets of a column take at most
# 32 bytes per item, however many codes it has.
BITSET_SHARE = 256


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """Read-only arrays of one valuation; picklable, so a task can travel with it.

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
        column_of: Column of each party.
    """

    cells: NDArray[np.unsignedinteger]
    rows: NDArray[np.uint64]
    lane_bits: int
    first_cell: NDArray[np.int64]
    label: NDArray[np.int64]
    weight: NDArray[np.int64]
    modal: NDArray[np.int64]
    listed: NDArray[np.unsignedinteger]
    listed_start: NDArray[np.int64]
    members: NDArray[np.uint32]
    members_start: NDArray[np.int64]
    bitset_row: NDArray[np.int32]
    bitsets: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    xi: Floats
    multiplicity: NDArray[np.int64]
    column_of: NDArray[np.int64]

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.label)

    @property
    def n_columns(self) -> int:
        """Number of columns of data parties, without the task column."""
        return len(self.multiplicity)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.weight.sum())


def block_table(
    counts: JointCounts, *, merge_duplicates: bool = True, bitset_share: int = BITSET_SHARE
) -> BlockTable:
    """Lay out joint counts for the walk.

    Columns come in falling order of entropy: the order does not change the values.
    """
    order = np.argsort(counts.label, kind="stable")
    dense = [_by_first_seen(counts.parties[order, d]) for d in range(counts.n_parties)]
    columns, column_of, multiplicity = _merge(dense, merge=merge_duplicates)
    columns.append(_by_first_seen(counts.task[order]))
    widths = np.array([int(column.max()) + 1 for column in columns], dtype=np.int64)
    first_cell = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    return _lay_out(
        np.stack(columns, axis=1) + first_cell[:-1],
        first_cell,
        label=np.unique(counts.label[order], return_inverse=True)[1].astype(np.int64),
        weight=counts.count[order].astype(np.int64),
        # Any fixed odd seed does: keys only have to differ for different blocks.
        hashes=np.random.default_rng(20_240_229).integers(1, 2**64, len(order), dtype=np.uint64),
        multiplicity=multiplicity,
        column_of=column_of,
        bitset_share=bitset_share,
    )


def restrict(
    table: BlockTable, items: NDArray[np.integer], columns: list[int], bitset_share: int = BITSET_SHARE
) -> BlockTable:
    """Some items and some columns of a table, and its task column.

    Args:
        table: The table.
        items: Rising.
        columns: Of data parties; `column_of` of the result names them.
        bitset_share: As for `block_table`.
    """
    kept = [*columns, table.n_columns]
    old = table.cells[items][:, kept].astype(np.int64)
    present = np.bincount(old.ravel(), minlength=int(table.first_cell[-1])) > 0
    cells = (np.cumsum(present) - 1)[old]
    widths = [int(present[table.first_cell[c] : table.first_cell[c + 1]].sum()) for c in kept]
    first_cell = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    # Columns need not be in the order of the table: number the cells through in the new one.
    cells += first_cell[:-1] - cells.min(axis=0)
    return _lay_out(
        cells,
        first_cell,
        label=table.label[items],
        weight=table.weight[items],
        hashes=table.hashes[items],
        multiplicity=table.multiplicity[columns],
        column_of=np.array(columns, dtype=np.int64),
        bitset_share=bitset_share,
        xi=table.xi,
    )


def _lay_out(
    cells: NDArray[np.int64],
    first_cell: NDArray[np.int64],
    *,
    label: NDArray[np.int64],
    weight: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    multiplicity: NDArray[np.int64],
    column_of: NDArray[np.int64],
    bitset_share: int,
    xi: Floats | None = None,
) -> BlockTable:
    n_cells = int(first_cell[-1])
    members, members_start = _members(cells, n_cells)
    bitset_row, bitsets = _bitsets(members, members_start, len(label), bitset_share)
    sizes = np.diff(members_start)
    modal = np.array([lo + np.argmax(sizes[lo:hi]) for lo, hi in pairwise(first_cell[:-1])], dtype=np.int64)
    rare = cells[:, :-1] != modal
    # Narrow and unsigned: half the memory traffic, and no test for negative indices in the kernel.
    narrow: type[np.uint16] | type[np.uint32] = np.uint16 if n_cells < 1 << 16 else np.uint32
    widest = int(np.diff(first_cell[:-1]).max(initial=1))
    lane_bits = next(bits for bits in (8, 16, 32) if widest <= 1 << bits)
    if xi is None:
        k = np.arange(min(int(weight.sum()) + 1, XI_TABLE), dtype=np.float64)
        xi = k * np.log(np.maximum(k, 1.0))
    return BlockTable(
        cells=np.ascontiguousarray(cells, dtype=narrow),
        rows=_lanes(cells[:, :-1] - first_cell[:-2], lane_bits),
        lane_bits=lane_bits,
        first_cell=first_cell,
        label=label,
        weight=weight,
        modal=modal,
        listed=cells[:, :-1][rare].astype(narrow),
        listed_start=np.concatenate([[0], np.cumsum(rare.sum(axis=1))]).astype(np.int64),
        members=members,
        members_start=members_start,
        bitset_row=bitset_row,
        bitsets=bitsets,
        hashes=hashes,
        xi=xi,
        multiplicity=multiplicity,
        column_of=column_of,
    )


def split_entropy(table: BlockTable) -> tuple[float, float]:
    """n·H(Y | X_t) and n·H(Y | X_t, X_all)."""
    everyone = np.arange(table.n_items)
    everything = np.unique(table.cells, axis=0, return_inverse=True)[1].ravel()
    return cost_of(table, everyone, table.cells[:, -1].astype(np.int64)), cost_of(table, everyone, everything)


def cost_of(table: BlockTable, items: NDArray[np.integer], block: NDArray[np.integer]) -> float:
    """Σ c(B) over the blocks of some items."""
    n_labels = int(table.label.max()) + 1
    joint = np.unique(block * n_labels + table.label[items], return_inverse=True)[1]
    per_block = np.bincount(np.unique(block, return_inverse=True)[1], weights=table.weight[items])
    per_label = np.bincount(joint, weights=table.weight[items])
    return float((per_block * np.log(per_block)).sum() - (per_label * np.log(per_label)).sum())


def _by_first_seen(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Codes renumbered in order of appearance: equal partitions become equal columns."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def _merge(
    columns: list[NDArray[np.int64]], *, merge: bool
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64], NDArray[np.int64]]:
    distinct: dict[object, int] = {}
    kept: list[NDArray[np.int64]] = []
    column_of = np.empty(len(columns), dtype=np.int64)
    for d, column in enumerate(columns):
        key: object = column.tobytes() if merge else d
        if key not in distinct:
            distinct[key] = len(kept)
            kept.append(column)
        column_of[d] = distinct[key]
    return kept, column_of, np.bincount(column_of, minlength=len(kept)).astype(np.int64)


def _members(cells: NDArray[np.int64], n_cells: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    flat = cells.T.ravel()
    if n_cells < 1 << 16:
        flat = flat.astype(np.uint16)  # sorted by radix
    items = np.tile(np.arange(len(cells)), cells.shape[1])
    order = np.argsort(flat, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=n_cells))])
    return items[order].astype(np.uint32), start.astype(np.int64)


def _bitsets(
    members: NDArray[np.uint32], start: NDArray[np.int64], n_items: int, share: int
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    sizes = np.diff(start)
    big = np.flatnonzero(sizes * share >= n_items)
    row = np.full(len(sizes), -1, dtype=np.int32)
    row[big] = np.arange(len(big))
    n_words = (n_items + 63) // 64
    bits = np.zeros((max(len(big), 1), n_words * 64), dtype=np.uint8)
    for r, cell in enumerate(big):
        bits[r, members[start[cell] : start[cell + 1]]] = 1
    packed = np.packbits(bits, axis=1, bitorder="little")
    return row, np.ascontiguousarray(packed).view("<u8").astype(np.uint64)


def _lanes(codes: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    per_word = 64 // bits
    n_words = max(1, -(-codes.shape[1] // per_word))
    lanes = np.zeros((len(codes), n_words * per_word), dtype=f"<u{bits // 8}")
    lanes[:, : codes.shape[1]] = codes
    return lanes.view("<u8").astype(np.uint64)
