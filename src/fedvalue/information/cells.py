"""Counting distinct rows of code columns in memory bounded by their number.

A row of codes is packed into as few 64-bit words as its columns' ranges need, and counted in an
open-addressing hash table (`cell_kernels`). Adding a chunk costs its rows, not the cells that are already
there. The first rows are sorted instead, in plain NumPy, so that a small table needs no compiler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Counts

_WORD = 2**63
_EMPTY = -1
# A third of the slots stays free at least, so that probing ends after a few steps.
_LOAD = 1.5

PLAIN_ROWS = 20_000
"""Rows up to which a counter sorts, in less time than loading the compiler takes."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Which columns share a word, and their ranges: mixed-radix digits, the first column leading.

    Args:
        n_codes: Size of each column's code range.
    """

    n_codes: tuple[int, ...]

    @property
    def words(self) -> list[list[int]]:
        """The columns of each word."""
        words: list[list[int]] = [[]]
        size = 1
        for k, width in enumerate(self.n_codes):
            if words[-1] and size * width > _WORD:
                words.append([])
                size = 1
            words[-1].append(k)
            size *= width
        return words

    def pack(self, columns: Sequence[Codes]) -> NDArray[np.int64]:
        """Code columns -> keys of shape (n_rows, n_words)."""
        words = self.words
        keys = np.zeros((len(columns[0]), len(words)), dtype=np.int64)
        for w, members in enumerate(words):
            word = columns[members[0]].astype(np.int64)
            for k in members[1:]:
                word *= self.n_codes[k]
                word += columns[k]
            keys[:, w] = word
        return keys

    def column(self, keys: NDArray[np.int64], k: int) -> Codes:
        """One code column of packed keys."""
        w, members = next((w, members) for w, members in enumerate(self.words) if k in members)
        after = math.prod(self.n_codes[j] for j in members[members.index(k) + 1 :])
        return np.asarray(keys[:, w] // after % self.n_codes[k])

    def unpack(self, keys: NDArray[np.int64]) -> list[Codes]:
        """The inverse of `pack`."""
        columns: dict[int, Codes] = {}
        for w, members in enumerate(self.words):
            rest = keys[:, w]
            for k in reversed(members[1:]):
                rest, columns[k] = np.divmod(rest, self.n_codes[k])
            columns[members[0]] = rest.copy()
        return [columns[k] for k in range(len(self.n_codes))]


class CellCounter:
    """Distinct keys and the number of samples of each.

    Args:
        n_words: Words per key.
        plain_rows: Rows up to which it sorts instead of hashing.
    """

    def __init__(self, n_words: int, plain_rows: int = PLAIN_ROWS) -> None:
        self.n_cells = 0
        self._keys = np.empty((1024, n_words), dtype=np.int64)
        self._counts = np.zeros(1024, dtype=np.int64)
        self._slots = np.empty(0, dtype=np.int64)  # none while rows are few enough to sort
        self._n_rows, self._plain_rows = 0, plain_rows

    def add(self, keys: NDArray[np.int64], weights: Counts | None = None) -> None:
        """Count these rows, each once or with its weight."""
        self.number(keys, weights)

    def number(self, keys: NDArray[np.int64], weights: Counts | None = None) -> NDArray[np.int64]:
        """Count these rows and return the cell of each: cells are numbered in order of first appearance."""
        if weights is None:
            weights = np.ones(len(keys), dtype=np.int64)
        if len(weights) != len(keys):
            raise InputError(f"expected {len(keys)} weights, got {len(weights)}")
        self._n_rows += len(keys)
        self._reserve(self.n_cells + len(keys))
        if self._n_rows <= self._plain_rows:
            return self._number_by_sorting(keys, weights)
        self._reserve_slots(self.n_cells + len(keys))
        numbers = np.empty(len(keys), dtype=np.int64)
        from fedvalue.information.cell_kernels import count_rows

        self.n_cells = count_rows(
            np.ascontiguousarray(keys), weights, self._slots, self._keys, self._counts, self.n_cells, numbers
        )
        return numbers

    def _number_by_sorting(self, keys: NDArray[np.int64], weights: Counts) -> NDArray[np.int64]:
        known = self.n_cells
        rows = np.concatenate([self._keys[:known], keys])
        if rows.shape[1] == 1:
            _, first, inverse = np.unique(rows[:, 0], return_index=True, return_inverse=True)
        else:
            _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        # By first appearance: the cells that are known keep their numbers.
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        numbers = rank[inverse.reshape(-1)][known:]
        self.n_cells = len(order)
        self._keys[: self.n_cells] = rows[first[order]]
        np.add.at(self._counts, numbers, weights)
        return numbers

    def cells(self) -> tuple[NDArray[np.int64], Counts]:
        """The distinct keys in lexicographic order, and their counts."""
        order = self._order()
        return self._keys[order], self._counts[order]

    def ranks(self) -> NDArray[np.int64]:
        """The place of each cell, by its number, in that order."""
        ranks = np.empty(self.n_cells, dtype=np.int64)
        ranks[self._order()] = np.arange(self.n_cells)
        return ranks

    def _order(self) -> NDArray[np.int64]:
        return np.lexsort(self._keys[: self.n_cells].T[::-1])

    def _reserve(self, n_cells: int) -> None:
        """Make room for `n_cells` cells, doubling, so that growing costs no more than filling."""
        if n_cells > len(self._counts):
            capacity = max(n_cells, 2 * self.n_cells)
            self._keys = np.resize(self._keys[: self.n_cells], (capacity, self._keys.shape[1]))
            counts = np.zeros(capacity, dtype=np.int64)
            counts[: self.n_cells] = self._counts[: self.n_cells]
            self._counts = counts

    def _reserve_slots(self, n_cells: int) -> None:
        """Make room for `n_cells` cells in the hash table."""
        if n_cells * _LOAD > len(self._slots):
            size = max(2048, 1 << int(np.ceil(np.log2(n_cells * _LOAD))))
            self._slots = np.full(size, _EMPTY, dtype=np.int64)
            if self.n_cells:
                from fedvalue.information.cell_kernels import enter_cells

                enter_cells(self._slots, self._keys, self.n_cells)
