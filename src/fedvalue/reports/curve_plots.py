"""Plots of several numbers of a kind as lines: over rows, over bins, over parties that join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedvalue.decisions.selection import select
from fedvalue.errors import InputError
from fedvalue.reports.label_words import PredictionWords

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedvalue.valuation.result import UpliftRow, Valuation

METRICS = {
    "errors_avoided_per_1000": "",  # in the words of the label
    "auc": "AUC",
    "ks": "KS",
    "accuracy": "accuracy",
    "log_loss": "log loss, nats per case (lower is better)",
}
"""What an uplift curve may show, and the label of its axis."""


def draw_sample_sizes(ax: Axes, valuations: Sequence[Valuation]) -> None:
    """Learnable value of each party against the number of rows, with 95% intervals.

    Raises:
        InputError: Fewer than two sizes, other parties, or no learnable values.
    """
    ordered = sorted(valuations, key=lambda one: one.n_samples)
    names = sorted(valuations[0].learnable)
    if len({one.n_samples for one in ordered}) < 2:
        raise InputError("a plot against sample size needs results with different numbers of rows")
    if any(sorted(one.learnable) != names for one in ordered):
        raise InputError("all results must have the same parties")
    if any(one.learnable_total is None for one in ordered):
        raise InputError(
            "a plot against sample size needs learnable values: compute them with statistics=True"
        )
    sizes = [one.n_samples for one in ordered]
    for name in _by_last_value(ordered[-1]):
        values = [one[name].learnable or 0.0 for one in ordered]
        ends = [one[name].learnable_interval or (v, v) for one, v in zip(ordered, values, strict=True)]
        (line,) = ax.plot(sizes, values, marker="o", markersize=4, label=name)
        low, high = [end[0] for end in ends], [end[1] for end in ends]
        ax.fill_between(sizes, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.set_xscale("log")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.minorticks_off()
    ax.set_title("Learnable value against the number of rows, with 95% intervals")
    ax.set_xlabel("rows")
    ax.set_ylabel("nats per row")
    ax.legend(frameon=False)


def draw_bins(ax: Axes, valuation: Valuation) -> None:
    """Learnable value of each party against the number of bins, by both ways to cut.

    Raises:
        InputError: The result was not valued with other bins.
    """
    found = valuation.details.get("sensitivity")
    runs = found.get("runs", ()) if isinstance(found, Mapping) else ()
    known = [run for run in runs if isinstance(run, Mapping) and isinstance(run.get("bins"), int)]
    if not known:
        raise InputError(
            "this result was not valued with other bins: use fedvalue value --sensitivity, or "
            "fedvalue.value(…, sensitivity=True)"
        )
    colours: dict[str, Any] = {}
    for binning, style, how in (("quantile", "-", "equally filled"), ("width", "--", "of equal width")):
        chosen = sorted((run for run in known if run.get("binning") == binning), key=lambda run: run["bins"])
        for name in _by_last_value(valuation) if chosen else ():
            values = [float(run["learnable"].get(name) or 0.0) for run in chosen]
            (line,) = ax.plot(
                [run["bins"] for run in chosen], values, style, marker="o", markersize=4,
                color=colours.get(name), label=name if name not in colours else None,
            )  # fmt: skip
            colours[name] = line.get_color()
        ax.plot([], [], style, color="#56606d", label=f"bins {how}") if chosen else None
    ax.set_title("Learnable value against the number of bins")
    ax.set_xlabel("bins of a numeric column")
    ax.set_ylabel("nats per row")
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False)


def draw_uplift_curve(ax: Axes, valuation: Valuation, metric: str, colour: str) -> None:
    """A metric of prediction as the parties join, one after the other, with its 95% interval.

    Raises:
        InputError: Another metric, or a result that does not have it for every step.
    """
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    names = [step.party for step in select(valuation).steps]
    path = [valuation.uplift_of(names[:k]) for k in range(len(names) + 1)]
    points = [None if row is None else _number(row, metric) for row in path]
    if any(point is None for point in points):
        raise InputError(
            f"this result does not have {metric} for every step; it has it for up to six parties, unless it "
            "was computed without coalitions or statistics"
        )
    places = range(len(points))
    values = [0.0 if point is None else point for point in points]
    ax.plot(places, values, marker="o", color=colour)
    known = [end for row in path if row is not None and (end := _ends(row, metric, path[0] or row))]
    with_interval = len(known) == len(points)
    if with_interval:
        low, high = [end[0] for end in known], [end[1] for end in known]
        ax.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
    ax.set_xticks(list(places), ["nobody", *(f"+ {name}" for name in names)], rotation=20, ha="right")
    ax.set_title("What becomes better as the parties join" + (", with 95% interval" if with_interval else ""))
    ax.set_ylabel(METRICS[metric] or PredictionWords.of(valuation).gained)


def _by_last_value(valuation: Valuation) -> list[str]:
    """Names, the most valuable party first: the order of the legend."""
    return sorted(valuation.learnable, key=lambda name: -(valuation.learnable[name] or 0.0))


def _number(row: UpliftRow, metric: str) -> float | None:
    if metric == "errors_avoided_per_1000" and row.role == "nobody":
        return 0.0
    number: float | None = getattr(row, metric)
    return number


def _ends(row: UpliftRow, metric: str, nobody: UpliftRow) -> tuple[float, float] | None:
    """The 95% interval of the gain over nobody, as an interval of the metric."""
    if row.role == "nobody":
        value = _number(row, metric) or 0.0
        return (value, value)
    if metric == "errors_avoided_per_1000":
        return row.errors_avoided_interval
    gains = {
        "auc": row.auc_gain_interval, "ks": row.ks_gain_interval, "log_loss": row.log_loss_gain_interval,
    }  # fmt: skip
    gain = gains.get(metric)
    if gain is None:
        return None
    start = _number(nobody, metric) or 0.0
    return (start - gain[1], start - gain[0]) if metric == "log_loss" else (start + gain[0], start + gain[1])
