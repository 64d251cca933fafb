"""The items in the layout that the compiled sum over coalitions reads, and its buffers.

- Columns are those of the data parties that vary, from the least to the most telling. The first
  `CUBE_COLUMNS` span the cube; the others are decided one after another, from the last.
- The codes of an item stand side by side in lanes of 64-bit words, so that the columns on which two items
  agree take a few operations.
- The samples of an item are a number in the field of its label, in one word or several, so that the label
  counts of a block are a sum of words.
"""

from __future__ import annotations

from math import comb, factorial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.valuation.items import dense_codes, lane_width, lanes, splittable_items

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.items import ItemTable

CUBE_COLUMNS = 8
"""Columns of the cube: its 256 coalitions of 8 lanes fit into the first-level cache."""

LANES = 8
"""Rows of a block that share a cube: what the widest vector instructions take. More would often stay free."""

SMALL_BLOCK = 6
"""Blocks of at most this number of items are summed in closed form, over the 2^6 subsets of the items."""

WORD = 64
"""Bits of a word."""

MOST_COLUMNS = 62
"""Coalitions are bits of a signed word."""

MOST_SAMPLES = 1 << 22
"""k ln k and 1 / k are looked up for every k up to the number of samples: 64 MiB."""


class CubeTable(NamedTuple):
    """Read-only arrays of the sum; picklable, so that they can travel with a task.

    Args:
        codes: Code of each item in each column, shape (n_columns, n_items).
        rows: The same codes in lanes, shape (n_items, n_words).
        lane_bits: Width of a lane: 8, 16 or 32 bits, as the largest number of codes needs.
        n_cube: Number of columns of the cube.
        label: Label per item.
        packed: Samples of each item in the field of its label, shape (n_items, n_label_words).
        label_word: The word of each label's field.
        label_shift: Its place in that word.
        field_bits: Width of a field.
        order: The items, grouped by task code and sorted by their codes in the cube.
        starts: Where each task code starts in `order`, and its end.
        xi: k ln k.
        inverse: 1 / k, and 0 for 0.
        weights: Σ_T weight(s + |T|) over the coalitions T of r columns, for a coalition of s columns and each
            r: how often a cost counts for everybody.
        member_weights: The same for how often it counts against a member of the coalition.
        sizes: Number of columns in each coalition of the cube.
    """

    codes: NDArray[np.uint32]
    rows: NDArray[np.uint64]
    lane_bits: int
    n_cube: int
    label: NDArray[np.int64]
    packed: NDArray[np.uint64]
    label_word: NDArray[np.int64]
    label_shift: NDArray[np.uint64]
    field_bits: int
    order: NDArray[np.uint32]
    starts: NDArray[np.int64]
    xi: Floats
    inverse: Floats
    weights: Floats
    member_weights: Floats
    sizes: NDArray[np.int64]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.codes)

    @property
    def n_decided(self) -> int:
        """Number of columns that are not in the cube."""
        return self.n_columns - self.n_cube

    @property
    def cube_words(self) -> int:
        """Words of an item's codes that hold the columns of the cube, and no others."""
        return _cube_words(self.rows, self.lane_bits)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.label)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.label_word)


class CubeScratch(NamedTuple):
    """Buffers of one task.

    Args:
        items: The items of each partition, block after block; one row for each decided column, and the root.
        starts: Where each block starts in its row, and the end of the last one.
        n_blocks: Number of blocks of each partition.
        source: The partition at each number of undecided columns.
        state: How far the coalitions at each number of undecided columns are.
        seen: Items of the block in hand with each code.
        present: The codes that occur in it.
        first_label: Label of the first item of each code.
        mixed: Whether each code has several labels.
        place: Where the next item of each code goes.
        row_codes: Codes of each row of the block in hand in the cube's columns. Items that agree on them are
            one row.
        row_counts: Packed label counts of each row.
        cube: Packed label counts of each coalition, word and lane.
        lane_weight: Samples for which each lane stands; 0 for a free lane.
        lane_word: The word of the label that each lane leaves out.
        lane_shift: Its place in that word.
        lane_count: Samples in each lane, of the coalition in hand.
        lane_cost: Their cost.
        costs: n H(Y | S) of the cube's coalitions, from lanes.
        closed: The same from closed forms, before the sum over supersets.
        weighted: Costs times their weight.
        agreed: The columns on which each pair of a small block's items agrees.
        masks: The columns on which each subset of them agrees.
        terms: What each subset costs beyond its own subsets.
        subset_words: Packed label counts of each subset.
        everybody: Weighted costs at each number of undecided columns, not yet handed up.
        members: The same, as they count against the members of the coalition.
        cube_members: The same for each column of the cube, from the leaf in hand.
        against: What counts against each column.
        carry: What the compensated sums of `against` still owe.
        tally: What `count_path` counts; see `cube_kernels.SMALL`.
    """

    items: NDArray[np.uint32]
    starts: NDArray[np.int64]
    n_blocks: NDArray[np.int64]
    source: NDArray[np.int64]
    state: NDArray[np.int64]
    seen: NDArray[np.int64]
    present: NDArray[np.int64]
    first_label: NDArray[np.int64]
    mixed: NDArray[np.int64]
    place: NDArray[np.int64]
    row_codes: NDArray[np.uint64]
    row_counts: NDArray[np.uint64]
    cube: NDArray[np.uint64]
    lane_weight: Floats
    lane_word: NDArray[np.int64]
    lane_shift: NDArray[np.uint64]
    lane_count: NDArray[np.uint64]
    lane_cost: Floats
    costs: Floats
    closed: Floats
    weighted: Floats
    agreed: NDArray[np.int64]
    masks: NDArray[np.int64]
    terms: Floats
    subset_words: NDArray[np.uint64]
    everybody: Floats
    members: Floats
    cube_members: Floats
    against: Floats
    carry: Floats
    tally: NDArray[np.int64]


def cube_table(items: ItemTable) -> tuple[CubeTable, NDArray[np.int64]] | None:
    """Lay out items for the sum.

    Returns:
        The table, and the column of each party, -1 for a party that explains nothing; that of the first one
        for parties with the same data, so that their values are the same to the last bit. None where there
        are too many columns or samples.
    """
    kept = splittable_items(items.codes[-1], items.label)
    codes = items.codes[:-1, kept]
    varying = [d for d in range(items.n_parties) if len(kept) and (codes[d] != codes[d][0]).any()]
    if items.n_samples > MOST_SAMPLES or len(varying) > MOST_COLUMNS:
        return None
    weight = items.weight[kept]
    varying.sort(key=lambda d: -float(np.square(np.bincount(codes[d], weights=weight)).sum()))
    column_of = np.full(items.n_parties, -1, dtype=np.int64)
    first: dict[bytes, int] = {}
    for column, d in enumerate(varying):
        column_of[d] = first.setdefault(dense_codes(codes[d]).tobytes(), column)
    codes = np.ascontiguousarray(codes[varying])
    n_cube = min(len(varying), CUBE_COLUMNS)
    lane_bits = lane_width(int(codes.max(initial=0)) + 1)
    rows = lanes(codes.T, lane_bits)
    task = items.codes[-1, kept]
    order = np.lexsort((*rows[:, : _cube_words(rows, lane_bits)].T, task))
    field_bits = items.n_samples.bit_length()
    of_label = np.arange(items.n_labels)
    label_word = of_label // (WORD // field_bits)
    label_shift = (of_label % (WORD // field_bits) * field_bits).astype(np.uint64)
    label = items.label[kept]
    packed = np.zeros((len(kept), int(label_word[-1]) + 1), dtype=np.uint64)
    packed[np.arange(len(kept)), label_word[label]] = weight.astype(np.uint64) << label_shift[label]
    count = np.arange(items.n_samples + 1, dtype=np.float64)
    weights, member_weights = _weights(len(varying))
    table = CubeTable(
        codes=codes,
        rows=rows,
        lane_bits=lane_bits,
        n_cube=n_cube,
        label=label,
        packed=packed,
        label_word=label_word,
        label_shift=label_shift,
        field_bits=field_bits,
        order=order.astype(np.uint32),
        starts=np.append(np.flatnonzero(np.diff(task[order].astype(np.int64), prepend=-1)), len(kept)),
        xi=count * np.log(np.maximum(count, 1.0)),
        inverse=np.minimum(count, 1.0) / np.maximum(count, 1.0),
        weights=weights,
        member_weights=member_weights,
        sizes=np.array([coalition.bit_count() for coalition in range(1 << n_cube)]),
    )
    return table, column_of


def cube_scratch(table: CubeTable) -> CubeScratch:
    """Buffers for a table."""
    n, n_rows, n_cells = table.n_items, table.n_decided + 1, 1 << table.n_cube
    n_words, n_codes, n_subsets = table.packed.shape[1], int(table.codes.max(initial=0)) + 1, 1 << SMALL_BLOCK
    whole = np.int64
    return CubeScratch(
        items=np.zeros((n_rows, n), dtype=np.uint32),
        starts=np.zeros((n_rows, n // (SMALL_BLOCK + 1) + 2), dtype=whole),
        n_blocks=np.zeros(n_rows, dtype=whole),
        source=np.zeros(table.n_columns + 1, dtype=whole),
        state=np.zeros(table.n_columns + 1, dtype=whole),
        seen=np.zeros(n_codes, dtype=whole),
        present=np.zeros(n_codes, dtype=whole),
        first_label=np.zeros(n_codes, dtype=whole),
        mixed=np.zeros(n_codes, dtype=whole),
        place=np.zeros(n_codes, dtype=whole),
        row_codes=np.zeros((n, table.cube_words), dtype=np.uint64),
        row_counts=np.zeros((n, n_words), dtype=np.uint64),
        cube=np.zeros(n_cells * n_words * LANES, dtype=np.uint64),
        lane_weight=np.zeros(LANES),
        lane_word=np.zeros(LANES, dtype=whole),
        lane_shift=np.zeros(LANES, dtype=np.uint64),
        lane_count=np.zeros(LANES, dtype=np.uint64),
        lane_cost=np.zeros(LANES),
        costs=np.zeros(n_cells),
        closed=np.zeros(n_cells),
        weighted=np.zeros(n_cells),
        agreed=np.zeros(SMALL_BLOCK * SMALL_BLOCK, dtype=whole),
        masks=np.zeros(n_subsets, dtype=whole),
        terms=np.zeros(n_subsets),
        subset_words=np.zeros((n_subsets, n_words), dtype=np.uint64),
        everybody=np.zeros(table.n_columns + 1),
        members=np.zeros(table.n_columns + 1),
        cube_members=np.zeros(table.n_cube),
        against=np.zeros(table.n_columns),
        carry=np.zeros(table.n_columns),
        tally=np.zeros(5, dtype=whole),
    )


def _cube_words(rows: NDArray[np.uint64], lane_bits: int) -> int:
    return min(CUBE_COLUMNS * lane_bits // WORD, int(rows.shape[1]))


def _weights(p: int) -> tuple[Floats, Floats]:
    """Shapley weights, summed over the coalitions that agree in closed form; see `CubeTable`."""
    joins = [factorial(s) * factorial(p - s - 1) / factorial(p) for s in range(p)] + [0.0]
    member = [(joins[s - 1] if s else 0.0) + joins[s] for s in range(p + 1)]
    sums = np.zeros((2, p + 2, p + 1))
    for s in range(p + 1):
        for r in range(p + 1 - s):
            for k, weight in enumerate((joins, member)):
                sums[k, s, r] = sum(comb(r, j) * weight[s + j] for j in range(r + 1))
    return sums[0], sums[1]
