"""Counting distinct rows of code columns in memory bounded by their number.

A row of codes is packed into as few 64-bit words as its columns' ranges need, and counted in an
open-addressing hash table (`cell_kernels`). Adding a chunk costs its rows, not the cells that are already
there.
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
    """

    def __init__(self, n_words: int) -> None:
        self.n_cells = 0
        self._keys = np.empty((1024, n_words), dtype=np.int64)
        self._counts = np.zeros(1024, dtype=np.int64)
        self._slots = np.full(2048, _EMPTY, dtype=np.int64)

    def add(self, keys: NDArray[np.int64], weights: Counts | None = None) -> None:
        """Count these rows, each once or with its weight."""
        self.number(keys, weights)

    def number(self, keys: NDArray[np.int64], weights: Counts | None = None) -> NDArray[np.int64]:
        """Count these rows, and tell the cell of each: cells are numbered as they are first met."""
        if weights is None:
            weights = np.ones(len(keys), dtype=np.int64)
        if len(weights) != len(keys):
            raise InputError(f"expected {len(keys)} weights, got {len(weights)}")
        self._reserve(self.n_cells + len(keys))
        numbers = np.empty(len(keys), dtype=np.int64)
        from fedvalue.information.cell_kernels import count_rows

        self.n_cells = count_rows(
            np.ascontiguousarray(keys), weights, self._slots, self._keys, self._counts, self.n_cells, numbers
        )
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
        """Room for so many cells, doubling, so that growing costs no more than filling."""
        if n_cells > len(self._counts):
            capacity = max(n_cells, 2 * self.n_cells)
            self._keys = np.resize(self._keys[: self.n_cells], (capacity, self._keys.shape[1]))
            counts = np.zeros(capacity, dtype=np.int64)
            counts[: self.n_cells] = self._counts[: self.n_cells]
            self._counts = counts
        if n_cells * _LOAD > len(self._slots):
            size = 1 << int(np.ceil(np.log2(n_cells * _LOAD)))
            self._slots = np.full(size, _EMPTY, dtype=np.int64)
            if self.n_cells:
                from fedvalue.information.cell_kernels import enter_cells

                enter_cells(self._slots, self._keys, self.n_cells)
