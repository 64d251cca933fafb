"""Counting joint cells of masked sums, chunk by chunk, in memory that grows with cells, not rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol.mirror.row_layout import RowLayout

DENSE_LIMIT = 1 << 20
"""Up to this many possible cells, counts are kept in one array: 8 MiB."""


class OpaqueCellCounter:
    """Counts each joint code."""

    def __init__(self, layout: RowLayout) -> None:
        n_lanes = layout.n_lanes
        n_cells = int(layout.limits()[0])
        dense = n_lanes == 1 and n_cells <= DENSE_LIMIT
        self._dense = np.zeros(n_cells, dtype=np.int64) if dense else None
        self._words = np.empty((0, n_lanes), dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)
        self._pending: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []

    def add(self, rows: NDArray[np.unsignedinteger]) -> None:
        """Count the rows of one chunk, shape (n_rows, n_lanes): the sums over all parties.

        Every lane must be within its limit: `CodeCheck` comes first.
        """
        if self._dense is not None:
            count_dense(rows[:, 0].astype(np.uint32), self._dense)
            return
        self._pending.append(collapse(rows.astype(np.uint64), np.ones(len(rows), dtype=np.int64)))
        if sum(len(counts) for _, counts in self._pending) > max(len(self._counts), DENSE_LIMIT):
            self._merge()

    def cells(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Distinct joint codes in rising order, shape (n_cells, n_lanes), and their counts."""
        if self._dense is not None:
            codes = np.flatnonzero(self._dense)
            return codes.astype(np.uint64).reshape(-1, 1), self._dense[codes]
        self._merge()
        return self._words, self._counts

    def _merge(self) -> None:
        parts = [(self._words, self._counts), *self._pending]
        self._pending = []
        self._words, self._counts = collapse(
            np.concatenate([words for words, _ in parts]), np.concatenate([counts for _, counts in parts])
        )


def collapsed_counts(
    columns: Sequence[NDArray[np.int64]],
    weights: NDArray[np.int64],
    names: tuple[str, ...],
    n_codes: tuple[int, ...],
) -> JointCounts:
    """Joint counts of the columns X_t, Y and one per data party, cells in rising order.

    `names` and `n_codes` are those of the data parties' columns; `weights` counts each row's samples.
    """
    cells, counts = collapse(np.column_stack(columns).astype(np.uint64), weights)
    codes = cells.astype(np.int64)
    return JointCounts(
        task=codes[:, 0].copy(),
        label=codes[:, 1].copy(),
        parties=np.ascontiguousarray(codes[:, 2:]),
        count=counts,
        names=names,
        n_codes=n_codes,
    )


def collapse(
    words: NDArray[np.uint64], weights: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Distinct rows in rising order (first lane first), and the sum of their weights."""
    if not len(words):
        return words, weights
    order = np.lexsort(tuple(words[:, lane] for lane in reversed(range(words.shape[1]))))
    ranked = words[order]
    starts = np.flatnonzero(np.r_[True, (ranked[1:] != ranked[:-1]).any(axis=1)])
    return ranked[starts], np.add.reduceat(weights[order], starts)


@njit(cache=True, nogil=True)
def count_dense(codes: NDArray[np.uint32], counts: NDArray[np.int64]) -> None:
    """Count the codes; every code must be below the length of `counts`."""
    for i in range(len(codes)):
        counts[np.int64(codes[i])] += 1
