"""Statistics of a column that its coder needs, gathered chunk by chunk.

A summary depends on the rows, not on their order or chunks. Its memory is bounded: by `MOST_CATEGORIES`
for text and `MOST_NUMBERS` for numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.cells import CellCounter
from fedvalue.tables.columns import Column, Scale, TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Counts

MOST_NUMBERS = 1 << 15
"""Numbers that are counted one by one. A column with more pools neighbours (`NumberCounts`)."""

MOST_CATEGORIES = 1 << 20
"""Different texts of a column that are counted; they take about 100 MB."""

_SLICE = 1 << 14
_DENSE_RANGE = 1 << 14


class NumberCounts:
    """Rows per number; neighbours are pooled beyond `MOST_NUMBERS` distinct numbers.

    Numbers are compared as 64-bit floats, mapped to integers of the same order. Pooling drops the
    last bits of these integers, as few as needed. A subset of the rows never needs to drop more bits than all
    rows do, so the pools do not depend on the order of the rows.
    """

    def __init__(self) -> None:
        self.lowest, self.highest = math.inf, -math.inf
        self.dtype: np.dtype[Any] = np.dtype(np.bool_)  # any number's type widens it to itself
        self.whole = True
        self._cells = CellCounter(1)
        self._dropped = 0

    def add(self, values: NDArray[Any]) -> None:
        """Count these numbers, at least one."""
        self._widen(values.dtype, values.min().item(), values.max().item())
        if self.whole and values.dtype.kind == "f":
            self.whole = bool((values == np.floor(values)).all())
        for start in range(0, len(values), _SLICE):
            keys, counts = _counted(values[start : start + _SLICE])
            self._add(keys >> self._dropped, counts)

    def merge(self, other: NumberCounts) -> None:
        """Add the counts of other rows."""
        self._widen(other.dtype, other.lowest, other.highest)
        self.whole &= other.whole
        keys, counts = other._cells.cells()
        self._drop(other._dropped)
        self._add(keys[:, 0] >> (self._dropped - other._dropped), counts)

    @property
    def exact(self) -> bool:
        """Every number is counted separately."""
        return self._dropped == 0

    @property
    def counts(self) -> Counts:
        """Rows per number (or pool), in rising order of the numbers."""
        return self._cells.cells()[1]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The numbers in rising order; the upper end of a pool."""
        keys = self._cells.cells()[0][:, 0]
        return _number((keys << self._dropped) | ((1 << self._dropped) - 1))

    def _widen(self, dtype: np.dtype[Any], lowest: float, highest: float) -> None:
        self.dtype = np.result_type(self.dtype, dtype)
        self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)

    def _add(self, keys: NDArray[np.int64], counts: Counts | None) -> None:
        self._cells.add(keys[:, np.newaxis], counts)
        if self._cells.n_cells > MOST_NUMBERS:
            keys = self._cells.cells()[0][:, 0]
            # The fewest bits that leave room, by bisection.
            few, many = 0, 64 - self._dropped
            while few < many:
                bits = (few + many) // 2
                fits = np.count_nonzero(np.diff(keys >> bits)) < MOST_NUMBERS
                few, many = (few, bits) if fits else (bits + 1, many)
            self._drop(self._dropped + few)

    def _drop(self, dropped: int) -> None:
        """Pool numbers that differ in their last `dropped` bits only."""
        if dropped > self._dropped:
            keys, counts = self._cells.cells()
            self._cells = CellCounter(1)
            self._cells.add(keys >> (dropped - self._dropped), counts)
            self._dropped = dropped


def _counted(values: NDArray[Any]) -> tuple[NDArray[np.int64], Counts | None]:
    """The keys of these numbers, with their counts where they are cheap to compute."""
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < _DENSE_RANGE and high < 2**63:
            counts = np.bincount(values.astype(np.int64) - low)
            kept = np.flatnonzero(counts)
            return _key(kept + low), counts[kept]
    return _key(values), None


def _key(values: NDArray[Any]) -> NDArray[np.int64]:
    """64-bit floats as integers of the same order: negative numbers have their other bits flipped."""
    bits = (values.astype(np.float64) + 0.0).view(np.int64)  # adding 0 makes -0.0 the same as 0.0
    return np.asarray(bits ^ ((bits >> 63) & np.int64(2**63 - 1)))


def _number(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray((keys ^ ((keys >> 63) & np.int64(2**63 - 1))).view(np.float64))


class ColumnSummary:
    """Distinct values of one column and their counts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_samples = 0
        self.n_missing = 0
        self.is_text: bool | None = None  # None before the first value
        self.categories: dict[str, int] = {}
        self.numbers = NumberCounts()
        self.scale: Scale = ""

    @property
    def n_present(self) -> int:
        """Rows with a value."""
        return self.n_samples - self.n_missing

    @property
    def n_distinct(self) -> int | None:
        """Distinct values; None where numbers were pooled."""
        if self.is_text:
            return len(self.categories)
        return len(self.numbers.counts) if self.numbers.exact else None

    def add(self, column: Column) -> None:
        """Add a chunk of the column."""
        n_missing = int(column.missing.sum())
        self.n_samples += len(column)
        self.n_missing += n_missing
        if n_missing == len(column):
            return  # the type is unknown
        if isinstance(column, TextColumn):
            self._check_type(is_text=True)
            counts = np.bincount(column.index[column.index >= 0], minlength=len(column.categories))
            self._add_categories(zip(column.categories.to_pylist(), counts.tolist(), strict=True))
        else:
            self._check_type(is_text=False, scale=column.scale)
            self.numbers.add(column.present())

    def merge(self, other: ColumnSummary) -> None:
        """Add another summary of the same column."""
        self.n_samples += other.n_samples
        self.n_missing += other.n_missing
        if other.is_text is None:
            return
        self._check_type(is_text=other.is_text, scale=other.scale)
        if other.is_text:
            self._add_categories(other.categories.items())
        else:
            self.numbers.merge(other.numbers)

    def _check_type(self, *, is_text: bool, scale: Scale = "") -> None:
        if self.is_text is not None and self.is_text != is_text:
            raise InputError(f"column {self.name!r} has numbers in one part and text in another")
        if self.is_text is not None and self.scale != scale:
            raise InputError(f"column {self.name!r} has dates in one part and numbers in another")
        self.is_text, self.scale = is_text, scale

    def _add_categories(self, counts: Any) -> None:
        for category, count in counts:
            if count:
                self.categories[category] = self.categories.get(category, 0) + count
        if len(self.categories) > MOST_CATEGORIES:
            raise InputError(
                f"column {self.name!r} has more than {MOST_CATEGORIES:,} different texts: "
                "leave it out or group them"
            )
