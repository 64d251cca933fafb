"""A fitted coder: turns a column into codes, the same for every chunk, later row or other file.

Rules of the fit:

- Categories: one code each, in code point order. With quantile bins, a column of more than
  `FEW_CATEGORIES` categories merges those with fewer than max(`FEWEST_ROWS`, n / `RAREST`) of its n
  rows into "other"; with the paper's width bins every category is kept.
- Numbers with at most `bins` distinct values: one code each, in rising order.
- Other numbers: bins (see `binning`).
- Missing values: one code.

Rows added after the fit: a number outside the fitted range falls into the first or last bin. A new
category is "other" where there is one; otherwise it gets a new code after the known ones (`extended`),
like a new number among few and the first missing value, so that earlier codes keep their meaning.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.tables.binning import bin_codes, quantile_edges, width_edges
from fedvalue.tables.coding_settings import Binning
from fedvalue.tables.column_summary import ColumnSummary
from fedvalue.tables.columns import Column, NumberColumn, Scale, TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes

FEW_CATEGORIES = 20
"""A column with no more categories keeps them all."""

FEWEST_ROWS = 5
"""A category with fewer rows is too rare to predict other rows."""

RAREST = 1000
"""A category with less than 1/RAREST of the rows carries at most about that part of the label's entropy."""


class ColumnCoder(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """How one column becomes codes. Frozen, and exact in JSON.

    Args:
        kind: What has a code: "categories", "values" (few numbers) or "bins".
        categories: Of kind "categories", in the order of their codes.
        values: Of kind "values", in the order of their codes.
        edges: Of kind "bins", inner edges, rising; bin k holds edges[k-1] < x <= edges[k].
        lowest, highest: The range that the bins were fitted on.
        other: Code of the merged rare categories, if there is one.
        missing: Code of missing values, if there is one.
        most_values: Most distinct numbers of kind "values"; None for any number.
    """

    name: str
    kind: Literal["categories", "values", "bins"]
    categories: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    lowest: float | None = None
    highest: float | None = None
    other: int | None = None
    missing: int | None = None
    most_values: int | None = None
    scale: Scale = ""

    @property
    def n_codes(self) -> int:
        """Size of the code range."""
        sizes = {"categories": len(self.categories), "values": len(self.values), "bins": len(self.edges) + 1}
        return sizes[self.kind] + (self.other is not None) + (self.missing is not None)

    @property
    def is_empty(self) -> bool:
        """No value was seen in the fit, so even the type is unknown."""
        return self.kind == "categories" and not self.categories and self.other is None

    @cached_property
    def plain_codes(self) -> Codes:
        """The codes of the categories or values, in their order: all that are neither other nor missing."""
        special = [code for code in (self.other, self.missing) if code is not None]
        return np.setdiff1d(np.arange(self.n_codes), special)

    def codes(self, column: Column) -> Codes:
        """The code of every sample.

        Raises:
            InputError: The column holds a category, a kept number or a missing value that this
                coder has not seen (see `extended`), or is of another type.
        """
        missing = column.missing
        if missing.all():  # the type is unknown
            codes = np.zeros(len(column), dtype=np.int64)
        else:
            self._check_type(isinstance(column, TextColumn), getattr(column, "scale", ""))
            if isinstance(column, TextColumn):
                codes = self._category_codes(column)
            elif self.kind == "values":
                codes = self._value_codes(column)
            else:
                codes = bin_codes(np.array(self.edges), column.values)
        if missing.any():
            if self.missing is None:
                raise InputError(f"column {self.name!r} had no missing values when it was coded, got some")
            codes[missing] = self.missing
        return codes

    def rows_per_code(self, summary: ColumnSummary) -> NDArray[np.int64]:
        """Summarised rows per code; near an edge, pooled numbers count as one."""
        rows = np.zeros(self.n_codes, dtype=np.int64)
        if self.kind == "categories":
            for category, count in summary.categories.items():
                rows[self._code_of.get(category, self.other or 0)] += count
        elif self.kind == "values":
            rows[self.plain_codes] = summary.numbers.counts
        else:
            np.add.at(rows, bin_codes(np.array(self.edges), summary.numbers.numbers), summary.numbers.counts)
        if self.missing is not None:
            rows[self.missing] = summary.n_missing
        return rows

    def extended(self, summary: ColumnSummary) -> ColumnCoder:
        """This coder with new codes, after the known ones, for new values in later rows.

        Raises:
            InputError: Another type of column, or more distinct numbers than are kept individually.
        """
        coder = self
        if summary.is_text is not None:
            self._check_type(summary.is_text, summary.scale)
            if self.kind == "categories" and self.other is None:
                new = sorted(set(summary.categories) - set(self.categories))
                coder = replace(coder, categories=(*self.categories, *new)) if new else coder
            if self.kind == "values":
                coder = self._with_values(summary)
        if summary.n_missing and self.missing is None:
            coder = replace(coder, missing=coder.n_codes)
        return coder

    def _with_values(self, summary: ColumnSummary) -> ColumnCoder:
        new = sorted(set(summary.numbers.numbers.tolist()) - set(self.values))
        n_values = len(self.values) + len(new)
        if not summary.numbers.exact or (self.most_values is not None and n_values > self.most_values):
            raise InputError(
                f"column {self.name!r} had at most {self.most_values} distinct numbers when it was coded and "
                f"now has {n_values}: value all rows again from the start"
            )
        return replace(self, values=(*self.values, *new)) if new else self

    def _check_type(self, is_text: bool, scale: Scale) -> None:
        if self.is_empty:
            raise InputError(
                f"column {self.name!r} had no values when it was coded: value all rows again from the start"
            )
        names = {"date": "dates", "time": "times", "": "numbers"}
        expected = "text" if self.kind == "categories" else names[self.scale]
        got = "text" if is_text else names[scale]
        if expected != got:
            raise InputError(f"column {self.name!r} held {expected} when it was coded, got {got}")

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return dict(zip(self.categories, self.plain_codes.tolist(), strict=True))

    def _category_codes(self, column: TextColumn) -> Codes:
        unseen = -1 if self.other is None else self.other
        lookup = [self._code_of.get(item, unseen) for item in column.categories.to_pylist()]
        self._refuse_unseen(lookup.count(-1))
        return np.array([*lookup, 0], dtype=np.int64)[column.index]  # index -1 is missing

    @cached_property
    def _sorted_values(self) -> tuple[NDArray[np.float64], Codes]:
        order = np.argsort(self.values)
        return np.array(self.values)[order], self.plain_codes[order]

    def _value_codes(self, column: NumberColumn) -> Codes:
        values, codes = self._sorted_values
        numbers = column.values.astype(np.float64)
        place = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
        unseen = (values[place] != numbers) & ~column.missing
        self._refuse_unseen(len(np.unique(numbers[unseen])))
        return codes[place]

    def _refuse_unseen(self, n_unseen: int) -> None:
        if n_unseen:
            raise InputError(
                f"column {self.name!r}: {n_unseen} values are not among the {self.n_codes} known ones"
            )


def fit_column(summary: ColumnSummary, *, bins: int, binning: Binning) -> ColumnCoder:
    """The coder of a column of features."""
    if summary.is_text is not False:
        return _fit_categories(summary, merge_rare=binning == "quantile")
    numbers = summary.numbers
    if numbers.exact and len(numbers.counts) <= bins:
        return fit_values(summary, most=bins)
    return fit_bins(summary, bins=bins, binning=binning)


def fit_classes(summary: ColumnSummary) -> ColumnCoder:
    """The coder of a label whose values are classes: all are kept, and later rows may add new ones."""
    return fit_values(summary) if summary.is_text is False else _fit_categories(summary, merge_rare=False)


def fit_values(summary: ColumnSummary, *, most: int | None = None) -> ColumnCoder:
    """The coder of numbers that keep one code each."""
    values = tuple(summary.numbers.numbers.tolist())
    missing = len(values) if summary.n_missing else None
    return ColumnCoder(
        summary.name, "values", values=values, missing=missing, most_values=most, scale=summary.scale
    )


def fit_bins(summary: ColumnSummary, *, bins: int, binning: Binning) -> ColumnCoder:
    """The coder of numbers that are cut into bins."""
    numbers = summary.numbers
    if binning == "width":
        edges = width_edges(numbers.lowest, numbers.highest, bins, numbers.dtype)
    else:
        edges = quantile_edges(numbers.numbers, numbers.counts, bins)
    return ColumnCoder(
        summary.name,
        "bins",
        edges=tuple(edges.tolist()),
        lowest=float(numbers.lowest),
        highest=float(numbers.highest),
        missing=len(edges) + 1 if summary.n_missing else None,
        scale=summary.scale,
    )


def _fit_categories(summary: ColumnSummary, *, merge_rare: bool) -> ColumnCoder:
    kept = sorted(summary.categories)
    rare: set[str] = set()
    if merge_rare and len(kept) > FEW_CATEGORIES:
        fewest = max(FEWEST_ROWS, summary.n_present / RAREST)
        rare = {category for category, count in summary.categories.items() if count < fewest}
    if len(rare) > 1:  # a single rare category is its own "other"
        kept = [category for category in kept if category not in rare]
    other = len(kept) if len(rare) > 1 else None
    missing = len(kept) + (other is not None) if summary.n_missing else None
    return ColumnCoder(summary.name, "categories", categories=tuple(kept), other=other, missing=missing)
