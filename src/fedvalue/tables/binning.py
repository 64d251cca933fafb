"""Where numbers are cut into bins.

Bins are closed on the right, and the first and last are open to the outside.

- Width (the paper's): bins of equal width over [min, max], the codes of `pandas.cut(x, bins)`.
- Quantile: about equally filled bins. A value with more than 1/bins of the rows gets its own bin;
  the values below and above it share the other bins by their rows, and are cut in the same way.
  Without such a value, and without ties at the edges, these are the codes of `pandas.qcut(x, bins)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Counts, Floats


def width_edges(lowest: float, highest: float, bins: int, dtype: np.dtype[Any]) -> Floats:
    """Inner edges of `bins` bins of equal width over [lowest, highest].

    Computed in the column's precision, as `pandas.cut` does, so that ties at an edge fall the
    same way. Edges that rounding makes equal are one edge. pandas drops the minimum when widening
    the range by 0.1% is lost to rounding or overflows; here it is always in the first bin.
    """
    kind = np.float32 if dtype == np.float32 else np.float64
    with np.errstate(over="ignore", invalid="ignore"):
        edges = np.linspace(kind(lowest), kind(highest), bins + 1)
        if not np.isfinite(edges).all():  # the range itself overflows
            edges = 2 * np.linspace(kind(lowest) / 2, kind(highest) / 2, bins + 1)
    return np.unique(edges[1:-1]).astype(np.float64)


def quantile_edges(numbers: Floats, counts: Counts, bins: int) -> Floats:
    """Inner edges of at most `bins` (2 or more) bins of about equal content, from distinct rising numbers."""
    return numbers[np.array(_last_places(counts, bins)[:-1], dtype=np.int64)]


def _last_places(counts: Counts, bins: int) -> list[int]:
    """The place of the last number of each bin."""
    if len(counts) <= bins:
        return list(range(len(counts)))
    heaviest = int(np.argmax(counts))
    below, above = counts[:heaviest], counts[heaviest + 1 :]
    n_sides = (len(below) > 0) + (len(above) > 0)
    if counts[heaviest] * bins > counts.sum() and n_sides < bins:
        n_below = _bins_below(below, above, bins - 1)
        places = _last_places(below, n_below) if n_below else []
        rest = _last_places(above, bins - 1 - n_below) if len(above) else []
        return [*places, heaviest, *(heaviest + 1 + place for place in rest)]
    # The k-th edge is the number at place floor((n - 1) k / bins) of the sorted rows, as in `pandas.qcut`.
    ranks = (int(counts.sum()) - 1) * np.arange(1, bins, dtype=np.int64) // bins
    edges = np.searchsorted(np.cumsum(counts), ranks, side="right")
    return [*np.unique(edges[edges < len(counts) - 1]).tolist(), len(counts) - 1]


def _bins_below(below: Counts, above: Counts, bins: int) -> int:
    """Number of bins for the numbers below: in proportion to their rows, at least one for each side."""
    if not len(below) or not len(above):
        return bins if len(below) else 0
    share = round(bins * int(below.sum()) / int(below.sum() + above.sum()))
    fewest = max(1, bins - len(above))  # a side needs no more bins than it has numbers
    return max(fewest, min(share, bins - 1, len(below)))


def bin_codes(edges: NDArray[np.float64], values: NDArray[Any]) -> NDArray[np.int64]:
    """The number of edges below each value."""
    if len(edges) > _FEW_EDGES:
        return np.searchsorted(edges, values, side="left").astype(np.int64)
    codes = np.zeros(len(values), dtype=np.int64)
    for edge in edges:
        codes += values > edge
    return codes


# Up to this many edges, comparing with each of them is faster than a binary search per value.
_FEW_EDGES = 16
