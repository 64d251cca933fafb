"""What must be known of a column before it can be coded, gathered chunk by chunk.

A summary is the same whatever the chunks and their order, and its memory is bounded: by the number
of categories for text, by the number of values that may be kept for numbers.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.tables.columns import Column, NumberColumn, TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A column with more distinct values than its limit shows it in its first rows nearly always;
# looking there first spares sorting the whole chunk.
_HEAD = 4096


class Summary:
    """Smallest, largest and distinct values of one column.

    Args:
        name: The column.
        limit: Numbers are remembered one by one while there are at most so many distinct ones;
            None for any number of them.
        keep_integers: Remember whole numbers that are no dates without limit (a label's classes).
    """

    def __init__(self, name: str, *, limit: int | None, keep_integers: bool = False) -> None:
        self.name = name
        self.limit = limit
        self.keep_integers = keep_integers
        self.n_samples = 0
        self.n_missing = 0
        self.is_text: bool | None = None  # None until a value was seen
        self.categories: set[str] = set()
        self.numbers: set[int | float] | None = set()
        self.whole = True
        self.categorical = False
        self.unit = ""
        self.dtype: np.dtype[Any] | None = None
        self.lowest: int | float | None = None
        self.highest: int | float | None = None

    def add(self, column: Column) -> None:
        """Take in one more chunk of the column."""
        missing = column.missing
        n_missing = int(missing.sum())
        self.n_samples += len(column)
        self.n_missing += n_missing
        if n_missing == len(column):
            return  # a chunk without values says nothing about the type
        self._check_type(isinstance(column, TextColumn))
        if isinstance(column, TextColumn):
            self.categories.update(column.categories.to_pylist())
        else:
            self._add_numbers(column)

    def merge(self, other: Summary) -> None:
        """Take in what another summary of the same column has seen."""
        self.n_samples += other.n_samples
        self.n_missing += other.n_missing
        if other.is_text is None:
            return
        self._check_type(other.is_text)
        self.categories |= other.categories
        if other.is_text:
            return
        assert other.dtype is not None
        assert other.lowest is not None
        assert other.highest is not None
        self.categorical |= other.categorical
        self._note_range(other.dtype, other.lowest, other.highest, other.unit)
        self.whole &= other.whole
        self._note_distinct(other.numbers)

    def _check_type(self, is_text: bool) -> None:
        if self.is_text is not None and self.is_text != is_text:
            raise InputError(f"column {self.name!r}: expected one type throughout, got numbers and text")
        self.is_text = is_text

    def _add_numbers(self, column: NumberColumn) -> None:
        values = column.present()
        self.categorical |= column.categorical
        self._note_range(values.dtype, values.min().item(), values.max().item(), column.unit)
        if values.dtype.kind == "f" and self.whole and self.keep_integers:
            self.whole = bool((values == np.floor(values)).all())
        self._note_distinct(self._distinct(values))

    def _note_range(self, dtype: np.dtype[Any], lowest: float, highest: float, unit: str) -> None:
        if self.dtype is not None and self.unit != unit:
            raise InputError(f"column {self.name!r}: expected one type throughout, got numbers and dates")
        self.unit = unit
        self.dtype = dtype if self.dtype is None else np.result_type(self.dtype, dtype)
        self.lowest = lowest if self.lowest is None else min(self.lowest, lowest)
        self.highest = highest if self.highest is None else max(self.highest, highest)

    @property
    def _unlimited(self) -> bool:
        return self.categorical or (self.keep_integers and self.whole and not self.unit)

    def _distinct(self, values: NDArray[Any]) -> set[int | float] | None:
        """The distinct values, or None when they are too many to be kept."""
        if self.numbers is None:
            return None
        if self._too_many(np.unique(values[:_HEAD])):
            return None
        return set(np.unique(values).tolist())

    def _note_distinct(self, numbers: set[int | float] | None) -> None:
        if self.numbers is None or numbers is None:
            self.numbers = None
            return
        self.numbers |= numbers
        if self._too_many(self.numbers):
            self.numbers = None

    def _too_many(self, numbers: Sized) -> bool:
        return self.limit is not None and len(numbers) > self.limit and not self._unlimited
