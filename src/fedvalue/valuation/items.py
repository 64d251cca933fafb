"""The item table: joint counts in the layout that all computations of a valuation share.

- Items are sorted by label, and every step that regroups them is stable, so the samples of one label in a
  block are always one run.
- The table is a `NamedTuple`, which compiled code takes as it is; nobody writes to its arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.information.contingency import pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Codes, Floats

XI_TABLE = 1 << 16
"""k ln k is looked up below this k and computed beyond: the table then stays in the second-level cache."""


class ItemTable(NamedTuple):
    """Weighted items of a joint table; picklable, so that it can travel with a task.

    Args:
        codes: Code of each item, shape (n_parties + 1, n_items); the task party's row is the last. Codes are
            dense and numbered in order of appearance: columns that split the items alike are equal.
        widths: Number of codes of each row of `codes`.
        label: Label per item, dense and ascending.
        weight: Samples per item.
        by_task: The items, at most 2^32, in order of their task code, and by label within one.
        task_start: Borders of the task codes in `by_task`, shape (n_task_codes + 1,).
        packed: What an item adds to the packed label counts of its block.
        field_bits: Width of a field of the packed counts; 0 when the labels do not fit into one word.
        xi: k ln k for small k.
    """

    codes: NDArray[np.uint32]
    widths: NDArray[np.int64]
    label: NDArray[np.int64]
    weight: NDArray[np.int64]
    by_task: NDArray[np.uint32]
    task_start: NDArray[np.int64]
    packed: NDArray[np.uint64]
    field_bits: int
    xi: Floats

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.label)

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.widths) - 1

    @property
    def n_labels(self) -> int:
        """Number of labels that occur."""
        return int(self.label[-1]) + 1

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.weight.sum())


def item_table(counts: JointCounts) -> ItemTable:
    """Lay out joint counts."""
    label = pack([counts.label])
    order = np.argsort(label, kind="stable")
    label = label[order]
    weight = np.ascontiguousarray(counts.count[order], dtype=np.int64)
    columns = [counts.parties[:, d] for d in range(counts.n_parties)]
    codes = np.empty((len(columns) + 1, len(label)), dtype=np.uint32)
    for row, column in enumerate([*columns, counts.task]):
        codes[row] = dense_codes(pack([column])[order])
    task = codes[-1]
    widths = codes.max(axis=1).astype(np.int64) + 1
    # A shift by the full width of a word is undefined, so one label in 64 bits does not count as fitting.
    bits = int(weight.sum()).bit_length()
    if (int(label[-1]) + 1) * bits >= 64:
        bits = 0
    k = np.arange(min(int(weight.sum()) + 1, XI_TABLE), dtype=np.float64)
    return ItemTable(
        codes=codes,
        widths=widths,
        label=label,
        weight=weight,
        by_task=np.argsort(task, kind="stable").astype(np.uint32),
        task_start=np.concatenate([[0], np.cumsum(np.bincount(task))]).astype(np.int64),
        packed=weight.astype(np.uint64) << (label * bits).astype(np.uint64),
        field_bits=bits,
        xi=k * np.log(np.maximum(k, 1.0)),
    )


def dense_codes(codes: NDArray[np.integer]) -> Codes:
    """Codes renumbered in order of appearance: columns that split the items alike become equal."""
    first = np.full(int(codes.max(initial=0)) + 1, len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(rank[codes])


def splittable_items(task: NDArray[np.integer], label: NDArray[np.int64]) -> NDArray[np.int64]:
    """The items whose task code has more than one label, rising; items are sorted by label."""
    first = np.zeros((2, int(task.max(initial=0)) + 1), dtype=np.int64)
    first[0, task[::-1]], first[1, task] = label[::-1], label
    return np.flatnonzero((first[0] != first[1])[task])


def lane_width(n_codes: int) -> int:
    """Bits of a lane that holds any of this number of codes: 8, 16 or 32."""
    return next(bits for bits in (8, 16, 32) if n_codes <= 1 << bits)


def lanes(codes: NDArray[np.integer], bits: int) -> NDArray[np.uint64]:
    """The codes of each item, a row of `codes`, side by side in lanes of 64-bit words."""
    per_word = 64 // bits
    n_words = max(1, -(-codes.shape[1] // per_word))
    row = np.zeros((len(codes), n_words * per_word), dtype=f"<u{bits // 8}")
    row[:, : codes.shape[1]] = codes
    return row.view("<u8").astype(np.uint64)
