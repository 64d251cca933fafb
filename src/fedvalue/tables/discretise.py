"""Columns into codes: categories as they are, numbers into bins.

A `ColumnCoding` is fitted once and then gives the same codes to every chunk, later row or other
file. Its rules:

- Text: one code per category, in code point order.
- Numbers with at most `bins` distinct values: one code per value, in rising order.
- Other numbers: `bins` bins of equal width over [min, max], closed on the right, the minimum in the
  first: the answer of `pandas.cut(x, bins)`. Or quantile bins: the answer of
  `pandas.qcut(x, bins, duplicates="drop")`.
- A missing value is a category of its own.

Rows that come later: a number outside [min, max] falls into the first or last bin. A new category,
a new kept number or the first missing value gets a new code after the known ones (`extended`), so
the codes given earlier stay what they were.
"""

from __future__ import annotations

import operator
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

Binning = Literal["width", "quantile"]
Kind = Literal["text", "values", "bins"]


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
        self._check_type(column)
        if self.kind == "bins":
            assert isinstance(column, NumberColumn)
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

    def extended(self, column: Column) -> ColumnCoding:
        """This coding with new codes, after the known ones, for what is new in `column`.

        Raises:
            InputError: Another type of column, or more distinct numbers than are kept one by one.
        """
        self._check_type(column)
        if self.kind == "bins":
            return replace(self, missing=True) if not self.missing and column.missing.any() else self
        _, items = _distinct(column)
        new = [item for item in items if item not in self._place]
        if not new:
            return self
        coding = replace(self, categories=(*self.categories, *new))
        n_kept = sum(item is not None for item in coding.categories)
        if self.limit is not None and n_kept > self.limit:
            raise InputError(
                f"column {self.name!r}: expected at most {self.limit} distinct numbers, as when it was "
                f"first coded, got {n_kept}: code the whole data anew"
            )
        return coding

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

    def _check_type(self, column: Column) -> None:
        if bool(column.missing.all()):
            return  # says nothing about the type
        if self.categories == (None,):
            raise InputError(f"column {self.name!r} had no values when it was coded: code the data anew")
        is_text = isinstance(column, TextColumn)
        if is_text != (self.kind == "text"):
            expected, got = ("text", "numbers") if self.kind == "text" else ("numbers", "text")
            raise InputError(f"column {self.name!r}: expected {expected}, got {got}")
        if isinstance(column, NumberColumn) and column.unit != self.unit:
            expected, got = ("numbers", "dates") if column.unit else ("dates", "numbers")
            raise InputError(f"column {self.name!r}: expected {expected}, got {got}")

    @cached_property
    def _sorted_numbers(self) -> tuple[NDArray[Any], Codes]:
        """The kept numbers in rising order, and the code of each."""
        known = sorted((item, k) for k, item in enumerate(self.categories) if item is not None)  # type: ignore[type-var]
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

    def _bin_codes(self, column: NumberColumn) -> Codes:
        codes = np.searchsorted(np.array(self.edges), column.values, side="left").astype(np.int64)
        if column.missing.any():
            if not self.missing:
                raise InputError(f"column {self.name!r}: expected no missing values, got some")
            codes[column.missing] = len(self.edges) + 1
        return codes


def fit(column: Column, *, bins: int = 5, binning: Binning = "width") -> ColumnCoding:
    """The coding of a column that is all there.

    Args:
        column: The column.
        bins: Number of bins, at least 2; numbers with no more distinct values are kept.
        binning: "width" for bins of equal width, "quantile" for bins of about equal content.

    Raises:
        InputError: `bins` or `binning` is none of the above.
    """
    check_binning(bins, binning)
    summary = Summary(column.name, limit=bins)
    summary.add(column)
    if binning == "quantile" and summary.numbers is None:
        assert isinstance(column, NumberColumn)
        return _binned(summary, quantile_edges(column.present(), bins))
    return fit_summary(summary, bins=bins)


def fit_summary(summary: Summary, *, bins: int) -> ColumnCoding:
    """The coding of a column by its summary, with bins of equal width."""
    tail: tuple[None, ...] = (None,) if summary.n_missing else ()
    if summary.is_text or summary.is_text is None:
        return ColumnCoding(summary.name, "text", categories=(*sorted(summary.categories), *tail))
    if summary.numbers is not None:
        limit = None if summary.categorical or summary.keep_integers else summary.limit
        kept = tuple(sorted(summary.numbers))
        return ColumnCoding(summary.name, "values", (*kept, *tail), limit=limit, unit=summary.unit)
    assert summary.dtype is not None
    assert summary.lowest is not None
    assert summary.highest is not None
    return _binned(summary, width_edges(summary.lowest, summary.highest, bins, summary.dtype))


def _binned(summary: Summary, edges: NDArray[Any]) -> ColumnCoding:
    return ColumnCoding(
        summary.name,
        "bins",
        edges=tuple(edges.tolist()),
        lowest=summary.lowest,
        highest=summary.highest,
        missing=summary.n_missing > 0,
        unit=summary.unit,
    )


def width_edges(lowest: float, highest: float, bins: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Inner edges of `bins` bins of equal width over [lowest, highest].

    Computed in the column's own precision, as `pandas.cut` does, so that ties at an edge fall the
    same way. Edges that rounding makes equal are one edge. pandas drops the minimum when widening
    the range by 0.1% is lost to rounding or overflows; here it is in the first bin always.
    """
    kind = np.float32 if dtype == np.float32 else np.float64
    with np.errstate(over="ignore", invalid="ignore"):
        edges = np.linspace(kind(lowest), kind(highest), bins + 1)
        if not np.isfinite(edges).all():  # the range itself overflows
            edges = 2 * np.linspace(kind(lowest) / 2, kind(highest) / 2, bins + 1)
    return np.unique(edges[1:-1])


def quantile_edges(values: NDArray[Any], bins: int) -> NDArray[Any]:
    """Inner edges of bins of about equal content; repeated edges are dropped, as in `pandas.qcut`."""
    at = np.linspace(0, 1, bins + 1)
    # A quantile that binary floats cannot represent is rounded up, so that k/bins of n samples
    # with n divisible by bins do not fall one sample short (pandas does the same).
    at = np.where(bins * at != np.arange(bins + 1), np.nextafter(at, 1), at)
    edges = np.unique(np.percentile(values, at * 100.0, method="linear"))
    return np.asarray(edges[1:-1])


def check_bins(bins: int) -> int:
    """`bins` as an int of at least 2.

    Raises:
        InputError: It is not.
    """
    try:
        n_bins = operator.index(bins)
    except TypeError as error:
        raise InputError(f"bins must be a whole number of at least 2, got {bins!r}") from error
    if isinstance(bins, bool) or n_bins < 2:
        raise InputError(f"bins must be a whole number of at least 2, got {bins!r}")
    return n_bins


def check_binning(bins: int, binning: str) -> None:
    """Refuse fewer than two bins and unknown kinds of bins.

    Raises:
        InputError: It is one of these.
    """
    check_bins(bins)
    if binning not in ("width", "quantile"):
        raise InputError(f"binning must be 'width' or 'quantile', got {binning!r}")


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
