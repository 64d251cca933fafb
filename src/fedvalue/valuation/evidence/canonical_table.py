"""A feature table in an order that depends on its content alone.

- Two holders of the same rows may number rows, codes and labels differently. They are renumbered by how often
  codes and labels occur together, which renaming does not change. So both holders add up the same numbers in
  the same order; where counts cannot tell codes apart, sums differ by rounding only.
- Columns that split the rows in the same way are one column with several holders: a copy adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.information.contingency import narrow_type, pack
from fedvalue.valuation.frozen_random import GOLDEN, mix
from fedvalue.valuation.items import dense_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.evidence.feature_table import FeatureTable

    Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class CanonicalTable:
    """Distinct rows in canonical order, and distinct columns.

    Args:
        codes: Codes of each distinct column, shape (n_columns, n_items).
        n_codes: Number of codes of each distinct column.
        label: Label per item, numbered by rising frequency.
        count: Samples per item, as floating-point numbers.
        members: Per distinct column the columns of the feature table that equal it, in order.
        holders: Per distinct column the parties that hold it, as a bit mask.
        at_task: Per distinct column whether the task party holds it.
        key: Hash of each item's content, the same under any numbering.
        n_samples: Number of samples.
        n_labels: Number of labels that occur.
        n_pooled: Number of items that pools see: the first ones.
    """

    codes: NDArray[np.unsignedinteger]
    n_codes: tuple[int, ...]
    label: Codes
    count: Floats
    members: tuple[tuple[int, ...], ...]
    holders: tuple[int, ...]
    at_task: tuple[bool, ...]
    key: Hashes
    n_samples: int
    n_labels: int
    n_pooled: int

    @property
    def n_items(self) -> int:
        """Number of distinct rows."""
        return len(self.label)

    @property
    def n_columns(self) -> int:
        """Number of distinct columns."""
        return len(self.n_codes)

    def n_first(self, n_items: int) -> int:
        """About n_items, chosen by content: items are in the order of their keys.

        Items with equal keys come together or not at all, so there may be more.
        """
        if n_items >= self.n_items:
            return self.n_items
        return int(np.searchsorted(self.key, self.key[n_items - 1], side="right"))

    def pooled_on(self, n_items: int) -> CanonicalTable:
        """The same table, of which pools see about n_items."""
        return replace(self, n_pooled=self.n_first(n_items))

    def pooled_items(self) -> CanonicalTable:
        """The table of the items that pools see, codes and labels numbered as before."""
        if self.n_pooled == self.n_items:
            return self
        kept = slice(self.n_pooled)
        count = self.count[kept].copy()  # not a view, so that the whole table may go
        return replace(
            self,
            codes=self.codes[:, kept],
            label=self.label[kept].copy(),
            count=count,
            key=self.key[kept],
            n_samples=int(count.sum()),
        )

    def first_items(self, n_items: int) -> CanonicalTable:
        """The table of the first items alone (see `n_first`), with codes and labels renumbered."""
        if n_items >= self.n_items:
            return self
        kept = slice(self.n_first(n_items))
        codes = self.codes[:, kept]
        count = self.count[kept]
        label = pack([self.label[kept]])
        dense = [pack([column.astype(np.int64)]) for column in codes]
        n_codes = tuple(int(column.max()) + 1 for column in dense)
        return CanonicalTable(
            codes=np.array(dense, dtype=codes.dtype).reshape(codes.shape),
            n_codes=n_codes,
            label=label,
            count=count,
            members=self.members,
            holders=self.holders,
            at_task=self.at_task,
            key=self.key[kept],
            n_samples=int(count.sum()),
            n_labels=int(label.max()) + 1,
            n_pooled=len(label),
        )


def canonical_table(table: FeatureTable) -> CanonicalTable:
    """The feature table in canonical order."""
    count = table.count
    given = pack([table.label])
    cells = [_cells(table.codes[:, k], given, count) for k in range(table.n_columns)]
    label_rank, label_signature = _label_order(given, count, cells)
    label = label_rank[given]
    invariant = mix(label_signature)[given]
    del given
    exact = mix(np.arange(len(label_rank), dtype=np.uint64))[label]
    columns: list[NDArray[np.unsignedinteger]] = []
    for k in range(table.n_columns):
        rank, signature = _code_order(cells[k], label_signature)
        codes = rank.astype(cells[k].codes.dtype)[cells[k].codes]
        salt = _salt(k)
        invariant += mix(signature ^ salt)[codes]
        exact += mix(np.arange(len(signature), dtype=np.uint64) ^ salt)[codes]
        columns.append(codes)
        cells[k] = replace(cells[k], codes=codes[:0].copy())
    order = np.lexsort((exact, invariant))
    # Neighbours with equal keys are equal rows, save for collisions: those stay apart.
    same = np.ones(len(order) - 1, dtype=bool)
    for hashes in (invariant, exact):
        ranked = hashes[order]
        same &= ranked[1:] == ranked[:-1]
    del exact, hashes, ranked
    for codes in (label, *columns):
        candidates = np.flatnonzero(same)
        if len(candidates) == 0:
            break
        same[candidates] = codes[order[candidates + 1]] == codes[order[candidates]]
    starts = np.concatenate([[0], np.flatnonzero(~same) + 1])
    totals = np.add.reduceat(count[order], starts)
    first = order[starts]
    del order, starts, same
    key = invariant[first]
    del invariant
    for k, codes in enumerate(columns):
        columns[k] = codes[first]
    distinct, members = _distinct_columns(columns)
    n_codes = tuple(int(columns[k].max()) + 1 for k in distinct)
    narrow = np.uint16 if max(n_codes, default=1) <= 2**16 else np.uint32
    stacked: NDArray[np.unsignedinteger] = np.empty((len(distinct), len(first)), dtype=narrow)
    for row, k in enumerate(distinct):
        stacked[row] = columns[k]
    owners = [[table.owner[k] for k in group] for group in members]
    return CanonicalTable(
        codes=stacked,
        n_codes=n_codes,
        label=label[first],
        count=totals.astype(np.float64),
        members=members,
        holders=tuple(sum(1 << k for k in set(group) if k >= 0) for group in owners),
        at_task=tuple(min(group) < 0 for group in owners),
        key=key,
        n_samples=int(totals.sum()),
        n_labels=len(label_rank),
        n_pooled=len(first),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """A column's codes, and its cells (code, label) in the order of codes."""

    codes: NDArray[np.unsignedinteger]
    code: Codes
    label: Codes
    samples: Hashes


def _cells(column: NDArray[np.integer], label: Codes, count: NDArray[np.int64]) -> _Cells:
    codes = pack([column])
    narrow = codes.astype(narrow_type(codes))
    cell = pack([codes, label])
    samples = np.bincount(cell, weights=count).astype(np.uint64)
    code_of, label_of = np.empty((2, len(samples)), dtype=np.int64)
    code_of[cell], label_of[cell] = codes, label
    return _Cells(narrow, code_of, label_of, samples)


def _salt(column: int) -> np.uint64:
    return np.uint64((2 * column + 1) * GOLDEN % 2**64)


def _label_order(label: Codes, count: NDArray[np.int64], cells: list[_Cells]) -> tuple[Codes, Hashes]:
    """Rank of each label by rising frequency, and its signature.

    A signature adds up hashes of (column, samples with a code, samples with this code and label): equal
    under any renaming, so labels of equal frequency are distinguished by what they come with.
    """
    frequency = np.bincount(label, weights=count).astype(np.uint64)
    signature = mix(frequency)
    for k, column in enumerate(cells):
        starts = np.flatnonzero(np.diff(column.code, prepend=-1))
        totals = np.add.reduceat(column.samples, starts)
        np.add.at(signature, column.label, mix(mix(totals ^ _salt(k))[column.code] ^ column.samples))
    order = np.lexsort((signature, frequency))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank, signature


def _code_order(column: _Cells, label_signature: Hashes) -> tuple[Codes, Hashes]:
    """Rank of each code by what it comes with, and the signatures in this order.

    A signature adds up hashes of (label, samples with this code and label).
    """
    hashes = mix(mix(label_signature)[column.label] ^ column.samples)
    signature = np.add.reduceat(hashes, np.flatnonzero(np.diff(column.code, prepend=-1)))
    order = np.argsort(signature, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank, signature[order]


def _distinct_columns(
    columns: list[NDArray[np.unsignedinteger]],
) -> tuple[list[int], tuple[tuple[int, ...], ...]]:
    """The first of each set of columns that cut the items in the same way, and the members of each set."""
    members: dict[bytes, list[int]] = {}
    for k, column in enumerate(columns):
        digest = sha256(dense_codes(column).astype(np.uint32).tobytes()).digest()
        members.setdefault(digest, []).append(k)
    return [group[0] for group in members.values()], tuple(tuple(group) for group in members.values())
