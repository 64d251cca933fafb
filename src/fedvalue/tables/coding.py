"""A fitted coding: what turns a column into codes, the same for every chunk, later row or other file.

Rows that come after the fit: a number outside the fitted range falls into the first or last bin. A
new category, a new kept number or the first missing value gets a new code after the known ones
(`extended`), so the codes given earlier stay what they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedvalue.errors import InputError
from fedvalue.tables.columns import Column, NumberColumn, TextColumn
from fedvalue.tables.summary import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes

Kind = Literal["text", "values", "bins"]

# Up to so many edges, comparing with each of them is faster than a binary search per value.
_FEW_EDGES = 16


@dataclass(frozen=True)
class ColumnCoding:
    """How one column becomes codes. Frozen, and exact in JSON.

    Args:
        name: The column.
        kind: "text" or "values": `categories` lists what has a code. "bins": `edges` does.
        categories: Code k stands for categories[k]; None is the missing value.
        edges: Inner edges of the bins, rising; bin k holds edges[k-1] < x <= edges[k].
        lowest, highest: The range that the bins were fitted on.
        missing: Bins only: missing values have the code after the last bin.
        limit: "values" only: the largest number of kept values, or None for no limit.
        unit: "us" for dates and times.
    """

    name: str
    kind: Kind
    categories: tuple[str | int | float | None, ...] = ()
    edges: tuple[float, ...] = ()
    lowest: float | None = None
    highest: float | None = None
    missing: bool = False
    limit: int | None = None
    unit: str = ""

    @property
    def n_codes(self) -> int:
        """Size of the code range."""
        if self.kind == "bins":
            return len(self.edges) + 1 + self.missing
        return len(self.categories)

    @cached_property
    def _place(self) -> dict[str | int | float | None, int]:
        return {item: k for k, item in enumerate(self.categories)}

    def codes(self, column: Column) -> Codes:
        """The code of every sample.

        Raises:
            InputError: The column holds a category, a kept number or a missing value that this
                coding has not seen (see `extended`), or is of another type.
        """
        if not column.missing.all():  # else it says nothing about the type
            self._check_type(isinstance(column, TextColumn), getattr(column, "unit", ""))
        if self.kind == "bins":
            return self._bin_codes(column)
        if isinstance(column, NumberColumn):
            codes = self._value_codes(column)
            if codes is not None:
                return codes
        index, items = _distinct(column)
        lookup = [self._place.get(item, -1) for item in items]
        n_unseen = lookup.count(-1)
        if n_unseen:
            raise InputError(
                f"column {self.name!r}: {n_unseen} values are not among the {self.n_codes} known"
            )
        return np.array(lookup, dtype=np.int64)[index]

    def summary(self) -> Summary:
        """An empty summary for rows that come later; hand it to `extended`."""
        return Summary(self.name, limit=0 if self.kind == "bins" else self.limit)

    def extended(self, summary: Summary) -> ColumnCoding:
        """This coding with new codes, after the known ones, for what is new in later rows.

        Raises:
            InputError: Another type of column, or more distinct numbers than are kept one by one.
        """
        if summary.is_text is not None:
            self._check_type(summary.is_text, summary.unit)
        if self.kind == "bins":
            return replace(self, missing=self.missing or summary.n_missing > 0)
        if summary.numbers is None:
            raise self._too_many(f"more than {self.limit}")
        seen: list[str | int | float | None] = [*sorted(summary.categories), *sorted(summary.numbers)]
        if summary.n_missing:
            seen.append(None)
        new = [item for item in seen if item not in self._place]
        coding = replace(self, categories=(*self.categories, *new)) if new else self
        n_kept = sum(item is not None for item in coding.categories)
        if self.limit is not None and n_kept > self.limit:
            raise self._too_many(str(n_kept))
        return coding

    def _too_many(self, got: str) -> InputError:
        return InputError(
            f"column {self.name!r}: expected at most {self.limit} distinct numbers, as when it was "
            f"first coded, got {got}: code the whole data anew"
        )

    def to_dict(self) -> dict[str, Any]:
        """This coding as JSON-ready data. Floats keep every bit."""
        return {
            "name": self.name, "kind": self.kind, "categories": list(self.categories),
            "edges": list(self.edges), "lowest": self.lowest, "highest": self.highest,
            "missing": self.missing, "limit": self.limit, "unit": self.unit,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ColumnCoding:
        """The coding that `to_dict` wrote.

        Raises:
            InputError: The data is no coding.
        """
        try:
            parts = {**data, "categories": tuple(data["categories"]), "edges": tuple(data["edges"])}
            return cls(**parts)
        except (KeyError, TypeError) as error:
            raise InputError(f"expected the coding of a column, got something else ({error})") from error

    def _check_type(self, is_text: bool, unit: str) -> None:
        if self.categories == (None,):
            raise InputError(f"column {self.name!r} had no values when it was coded: code the data anew")
        expected = "text" if self.kind == "text" else "dates" if self.unit else "numbers"
        got = "text" if is_text else "dates" if unit else "numbers"
        if expected != got:
            raise InputError(f"column {self.name!r}: expected {expected}, got {got}")

    @cached_property
    def _sorted_numbers(self) -> tuple[NDArray[Any], Codes]:
        """The kept numbers in rising order, and the code of each."""
        known = sorted((item, k) for k, item in enumerate(self.categories) if item is not None)
        numbers, codes = zip(*known, strict=True) if known else ((), ())
        return np.array(numbers), np.array(codes, dtype=np.int64)

    def _value_codes(self, column: NumberColumn) -> Codes | None:
        """The codes of kept numbers without sorting the samples, or None where one is not known."""
        numbers, known = self._sorted_numbers
        if not len(numbers):
            return None
        place = np.minimum(np.searchsorted(numbers, column.values), len(numbers) - 1)
        if not ((numbers[place] == column.values) | column.missing).all():
            return None
        codes = known[place]
        if column.missing.any():
            if None not in self._place:
                return None
            codes[column.missing] = self._place[None]
        return codes

    def _bin_codes(self, column: Column) -> Codes:
        if isinstance(column, NumberColumn):
            codes = _count_below(np.array(self.edges), column.values)
        else:
            codes = np.zeros(len(column), dtype=np.int64)  # all missing: the type was not known
        if column.missing.any():
            if not self.missing:
                raise InputError(f"column {self.name!r}: expected no missing values, got some")
            codes[column.missing] = len(self.edges) + 1
        return codes


def _count_below(edges: NDArray[np.float64], values: NDArray[Any]) -> Codes:
    """How many edges are smaller than each value."""
    if len(edges) > _FEW_EDGES:
        return np.searchsorted(edges, values, side="left").astype(np.int64)
    codes = np.zeros(len(values), dtype=np.int64)
    for edge in edges:
        codes += values > edge
    return codes


def _distinct(column: Column) -> tuple[NDArray[np.int64], list[str | int | float | None]]:
    """Per sample the place among the distinct items, and these; None, for missing, comes last."""
    if isinstance(column, TextColumn):
        items: list[str | int | float | None] = column.categories.to_pylist()
        index = column.index
    else:
        distinct, inverse = np.unique(column.present(), return_inverse=True)
        items = distinct.tolist()
        index = np.full(len(column), -1, dtype=np.int64)
        index[~column.missing] = inverse
    missing = index < 0
    if missing.any():
        index = np.where(missing, len(items), index)
        items = [*items, None]
    return index, items
