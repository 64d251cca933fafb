"""The common style of all drawings, written as SVG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinct for people with every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#595959")

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.edgecolor": "#888888",
    "axes.titlesize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "svg.fonttype": "path",
}


def styled() -> AbstractContextManager[None]:
    """Context in which everything is drawn in the common style."""
    import matplotlib as mpl

    return mpl.rc_context(_STYLE)


def panels(n_rows: int, n_columns: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with its panels in reading order. Needs no display."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
    return figure, list(axes.flat)


def svg(figure: Figure, *, salt: str) -> str:
    """The figure as SVG text, the same text for the same numbers (no date, ids salted by name)."""
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "FedValue"})
    return out.getvalue()


def grouped_bars(
    ax: Axes,
    groups: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None], Sequence[float | None]]],
) -> None:
    """Bars side by side with error bars; `series` holds (name, heights, spreads), None where unknown."""
    width = 0.8 / len(series)
    for k, (name, heights, spreads) in enumerate(series):
        known = [i for i, height in enumerate(heights) if height is not None]
        left = [i + (k - (len(series) - 1) / 2) * width for i in known]
        errors: list[Any] = [spreads[i] or 0.0 for i in known]
        ax.bar(left, [heights[i] or 0.0 for i in known], width * 0.92, yerr=errors, label=name,
               color=COLOURS[k % len(COLOURS)], error_kw={"lw": 0.8, "ecolor": "#333333"})  # fmt: skip
    ax.set_xticks(range(len(groups)), [group.capitalize() for group in groups])
    ax.grid(visible=False, axis="x")


def error_and_time(
    curves: Mapping[str, Sequence[Mapping[str, float]]], *, xlabel: str, published: str, **axis: Any
) -> Figure:
    """MAPE with its spread, and CPU seconds here and as published, over the same axis.

    `curves` maps a data set to points with `x`, `mape`, `sd`, `seconds` and `published` seconds; `axis` holds
    settings of the x axis.
    """
    figure, (left, right) = panels(1, 2, width=7.8, height=3.2)
    for colour, (name, points) in zip(COLOURS, curves.items(), strict=False):
        x, label = [p["x"] for p in points], name.capitalize()
        left.errorbar(x, [p["mape"] for p in points], [p["sd"] for p in points], fmt="o-", color=colour,
                      label=label)  # fmt: skip
        right.plot(x, [p["seconds"] for p in points], "o-", color=colour, label=label)
        right.plot(x, [p["published"] for p in points], "o--", color=colour, label=f"{label}, {published}")
    left.set(xlabel=xlabel, ylabel="MAPE, %", ylim=(0, None), **axis)
    right.set(xlabel=xlabel, ylabel="CPU seconds", yscale="log", **axis)
    for ax in (left, right):
        ax.legend(fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
