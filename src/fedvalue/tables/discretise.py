"""Columns into codes: categories as they are, numbers into bins.

- Text: one code per category, in code point order.
- Numbers with at most `bins` distinct values: one code per value, in rising order.
- Other numbers: `bins` bins of equal width over [min, max], closed on the right, the minimum in the
  first: the answer of `pandas.cut(x, bins)`. Or quantile bins: the answer of
  `pandas.qcut(x, bins, duplicates="drop")`.
- A missing value is a category of its own.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedvalue.errors import InputError
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.columns import Column, NumberColumn
from fedvalue.tables.summary import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

Binning = Literal["width", "quantile"]


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
        # A label may get new classes later; a column of few numbers must stay one.
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
    with np.errstate(over="ignore", invalid="ignore"):
        edges = np.quantile(values, at, method="linear")
        if not np.isfinite(edges).all():  # a difference of neighbours overflows
            edges = 2 * np.quantile(values / 2, at, method="linear")
    return np.unique(edges)[1:-1]


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
