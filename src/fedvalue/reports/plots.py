"""Plots of a result for notebooks: `v.plot.values(ax=ax)` and others, each on the caller's axes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.decisions.redundancy import redundancy
from fedvalue.decisions.selection import select
from fedvalue.errors import InputError
from fedvalue.reports import wording
from fedvalue.reports.gain_scale import distinct_uplift, gain_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from fedvalue.valuation.result import Interval, UpliftRow, Valuation

SOLID, PALE, INK, WARM, IDLE = "#2f8f86", "#b5d3cc", "#1c2530", "#8a4b12", "#8b939d"
"""Colours like the report's, light enough for error bars."""


_KINDS = {
    "invited": (SOLID, "invite"),
    "undecided": (WARM, "undecided"),
    "nothing": (IDLE, "adds nothing worth mentioning"),
    "adds": (WARM, "beyond the budget"),
}
"""Colour and meaning of the bars of a waterfall."""

METRICS = {
    "errors_avoided_per_1000": "",  # in the words of the label
    "auc": "AUC",
    "ks": "KS",
    "accuracy": "accuracy",
    "log_loss": "log loss, nats per case (lower is better)",
}
"""Metrics of an uplift curve, with the labels of its axis."""


_LINE = 28
"""Characters of a name in one line: about a third of a drawing of usual size."""


class Plots:
    """Draws a result. Every method takes axes or makes them, and returns them.

    Calling the object itself draws the values.
    """

    def __init__(self, valuation: Valuation) -> None:
        self._valuation = valuation
        self._parties = sorted(valuation.parties, key=lambda party: party.leading)

    def __call__(self, ax: Axes | None = None) -> Axes:
        """The same as `values`."""
        return self.values(ax)

    def values(self, ax: Axes | None = None) -> Axes:
        """Learnable value of each party with its 95% interval; Shapley-CMI if there are none."""
        learnable = self._valuation.learnable_total is not None
        ax = _axes(ax)
        numbers = [party.leading for party in self._parties]
        ends = [p.learnable_interval if learnable else p.interval for p in self._parties]
        ax.barh(
            [_literal(party.name) for party in self._parties], numbers, height=0.6, color=SOLID,
            xerr=_error_bars(numbers, ends), ecolor=INK, capsize=3,
        )  # fmt: skip
        what = "Learnable value" if learnable else "Shapley-CMI"
        ax.set_title(f"{what} of each party" + (", with 95% interval" if any(ends) else ""))
        ax.set_xlabel("nats per row")
        return _plain(ax)

    def shares(self, ax: Axes | None = None) -> Axes:
        """Each party's share of the learnable total in percent, beside its share of Shapley-CMI.

        Raises:
            InputError: The result has no shares: its values have noise.
        """
        if any(party.share is None for party in self._parties):
            raise InputError("values with noise have no shares")
        ax = _axes(ax)
        place = np.arange(len(self._parties))
        known = self._valuation.learnable_total is not None
        shift = 0.2 if known else 0.0
        ax.barh(place - shift, [100 * (p.share or 0.0) for p in self._parties], height=0.36, color=PALE,
                label="Shapley-CMI")  # fmt: skip
        if known:
            parts = [100 * (p.learnable_share or 0.0) for p in self._parties]
            ax.barh(place + shift, parts, height=0.36, color=SOLID, label="learnable value")
            ax.legend(frameon=False, reverse=True)
        ax.set_yticks(place, [_literal(party.name) for party in self._parties])
        ax.set_title("Share of each party")
        ax.set_xlabel("share of the total, %")
        return _plain(ax)

    def waterfall(
        self,
        ax: Axes | None = None,
        *,
        prices: Mapping[str, object] | None = None,
        budget: object | None = None,
    ) -> Axes:
        """Contributions of the parties one after the other, with 95% intervals; colours show the advice.

        The unit is the report's: errors avoided if they show the gain, otherwise percent of what cannot be
        predicted without the parties.

        Raises:
            InputError: The result has no learnable values, or a price is missing or wrong.
        """
        if self._valuation.learnable_total is None:
            raise InputError("a waterfall needs learnable values: compute them with statistics=True")
        selection = select(self._valuation, prices, budget)
        scale = gain_scale(self._valuation, selection)
        if scale is None:
            raise InputError("a waterfall needs a label that is not already determined")
        ax = _axes(ax)
        seen: set[str] = set()
        start = 0.0
        for step, level in zip(selection.steps, scale.levels, strict=True):
            kind = "invited" if step.invited else step.adds.verdict.value
            error = None
            if level.low is not None and level.high is not None:
                error = [[max(level.value - level.low, 0.0)], [max(level.high - level.value, 0.0)]]
            ax.barh(
                _literal(step.party), level.value - start, left=start, height=0.6, color=_KINDS[kind][0],
                xerr=error, ecolor=INK, capsize=3, label=None if kind in seen else _KINDS[kind][1],
            )  # fmt: skip
            seen.add(kind)
            start = level.value
        ax.invert_yaxis()
        ax.set_title("What each party adds to those above it")
        ax.set_xlabel(scale.unit)
        ax.legend(frameon=False, loc="lower left")
        return _plain(ax)

    def redundancy(self, ax: Axes | None = None) -> Axes:
        """How much less (-) or more (+) the row's party brings if the column's party is present.

        Raises:
            InputError: The result has fewer than two parties or no interactions.
        """
        overlap = redundancy(self._valuation)
        if overlap is None:
            raise InputError("a redundancy map needs two parties and their learnable interactions")
        ax = _axes(ax)
        ax.imshow(np.nan_to_num(overlap.change), cmap="BrBG_r", vmin=-1, vmax=1, alpha=0.7)
        names = [_literal(name) for name in overlap.names]
        ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
        ax.set_yticks(range(len(names)), names)
        for b in range(len(names)):
            for a in range(len(names)):
                ax.text(a, b, overlap.text(b, a), ha="center", va="center", color=INK)
        ax.set_title("Which parties overlap (−) or complement each other (+)")
        ax.set_xlabel("once this party is there …")
        ax.set_ylabel("… this one brings less (−) or more (+)")
        ax.spines[:].set_visible(False)
        return ax

    def uplift(self, ax: Axes | None = None) -> Axes:
        """Errors avoided per 1,000 cases: each party alone, all but one, and all, with 95% intervals.

        Raises:
            InputError: The result has no uplift.
        """
        rows = [row for row in distinct_uplift(self._valuation) if row.role != "nobody"]
        rows = [row for row in rows if row.errors_avoided_per_1000 is not None]
        if not rows:
            raise InputError("this result has no uplift: compute it with statistics=True")
        ax = _axes(ax)
        roles = [row.role for row in rows]
        rows.sort(key=lambda row: (roles.index(row.role), row.errors_avoided_per_1000 or 0.0))
        numbers = [row.errors_avoided_per_1000 or 0.0 for row in rows]
        ends = [row.errors_avoided_interval for row in rows]
        ax.barh(
            [_literal(wording.uplift_name(self._valuation, row)) for row in rows], numbers, height=0.6,
            color=[{"alone": PALE, "all_but": PALE, "all": SOLID}[row.role] for row in rows],
            xerr=_error_bars(numbers, ends), ecolor=INK, capsize=3,
        )  # fmt: skip
        ax.set_title("What a model predicts better with the parties' data")
        ax.set_xlabel(wording.PredictionWords.of(self._valuation).gained)
        return _plain(ax)

    def uplift_curve(self, ax: Axes | None = None, *, metric: str = "errors_avoided_per_1000") -> Axes:
        """Quality of the prediction as the parties join, in the order of the waterfall.

        Args:
            ax: Where to draw.
            metric: "errors_avoided_per_1000", "auc", "ks", "accuracy" or "log_loss".

        Raises:
            InputError: Another metric, or a result that does not have it for every step.
        """
        if metric not in METRICS:
            raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
        names = [step.party for step in select(self._valuation).steps]
        path = [self._valuation.uplift_of(names[:k]) for k in range(len(names) + 1)]
        points = [None if row is None else _number(row, metric) for row in path]
        if None in points:
            raise InputError(
                f"this result does not have {metric} for every step; results of up to six parties have it, "
                "unless they were computed without coalitions or statistics"
            )
        ax = _axes(ax)
        places = range(len(points))
        ax.plot(places, [point or 0.0 for point in points], marker="o", color=SOLID)
        known = [end for row in path if row is not None and (end := _ends(row, metric, path[0] or row))]
        with_interval = len(known) == len(points)
        if with_interval:
            low, high = zip(*known, strict=True)
            ax.fill_between(places, low, high, color=SOLID, alpha=0.18, linewidth=0)
        ax.set_xticks(
            list(places), ["nobody", *(_literal(f"+ {name}") for name in names)], rotation=20, ha="right"
        )
        ax.set_title(
            "What becomes better as the parties join" + (", with 95% interval" if with_interval else "")
        )
        ax.set_ylabel(METRICS[metric] or wording.PredictionWords.of(self._valuation).gained)
        return _plain(ax)

    def bins(self, ax: Axes | None = None) -> Axes:
        """Learnable values against the number of bins.

        Raises:
            InputError: The result was not valued with other bins.
        """
        sensitivity = self._valuation.details.get("sensitivity")
        runs = sensitivity.get("runs", ()) if isinstance(sensitivity, Mapping) else ()
        known = [run for run in runs if isinstance(run, Mapping) and isinstance(run.get("bins"), int)]
        if not known:
            raise InputError(
                "this result was not valued with other bins: use fedvalue value --sensitivity, or "
                "fedvalue.value(…, sensitivity=True)"
            )
        ax = _axes(ax)
        colours: dict[str, Any] = {}
        for binning, style, how in (("quantile", "-", "equally filled"), ("width", "--", "of equal width")):
            chosen = sorted(
                (run for run in known if run.get("binning") == binning), key=lambda run: run["bins"]
            )
            for name in _by_value(self._valuation) if chosen else ():
                values = [float(run["learnable"].get(name) or 0.0) for run in chosen]
                (line,) = ax.plot(
                    [run["bins"] for run in chosen], values, style, marker="o", markersize=4,
                    color=colours.get(name), label=_literal(name) if name not in colours else None,
                )  # fmt: skip
                colours[name] = line.get_color()
            ax.plot([], [], style, color="#56606d", label=f"bins {how}") if chosen else None
        ax.set_title("Learnable value against the number of bins")
        ax.set_xlabel("bins of a numeric column")
        ax.set_ylabel("nats per row")
        ax.locator_params(axis="x", integer=True)
        ax.legend(frameon=False)
        return _plain(ax)

    def sample_size(self, others: Sequence[Valuation], ax: Axes | None = None) -> Axes:
        """Learnable values against the number of rows, from this result and others of the same parties.

        Args:
            others: Results on other numbers of rows: random parts of a table, or earlier months.
            ax: Where to draw.

        Raises:
            InputError: The results have the same number of rows, other parties, or no learnable values.
        """
        results = sorted([*others, self._valuation], key=lambda result: result.n_samples)
        names = set(self._valuation.learnable)
        sizes = [result.n_samples for result in results]
        if len(set(sizes)) < 2:
            raise InputError("a plot against sample size needs results with different numbers of rows")
        if any(set(result.learnable) != names for result in results):
            raise InputError("all results must have the same parties")
        if any(result.learnable_total is None for result in results):
            raise InputError(
                "a plot against sample size needs learnable values: compute them with statistics=True"
            )
        ax = _axes(ax)
        for name in _by_value(results[-1]):
            parties = [result[name] for result in results]
            values = [party.learnable or 0.0 for party in parties]
            ends = [party.learnable_interval or (v, v) for party, v in zip(parties, values, strict=True)]
            (line,) = ax.plot(sizes, values, marker="o", markersize=4, label=_literal(name))
            low, high = zip(*ends, strict=True)
            ax.fill_between(sizes, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        ax.set_xscale("log")
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.minorticks_off()
        ax.set_title("Learnable value against the number of rows, with 95% intervals")
        ax.set_xlabel("rows")
        ax.set_ylabel("nats per row")
        ax.legend(frameon=False)
        return _plain(ax)

    def selection(
        self,
        ax: Axes | None = None,
        *,
        prices: Mapping[str, object] | None = None,
        budget: object | None = None,
    ) -> Axes:
        """Best value over cost; every party costs 1 without prices.

        Raises:
            InputError: A price is missing or wrong.
        """
        ax = _axes(ax)
        selection = select(self._valuation, prices, budget)
        cost = [float(point.cost) for point in selection.curve]
        ax.step(cost, [point.value for point in selection.curve], where="post", color=SOLID, marker="o")
        if selection.budget is not None:
            ax.axvline(float(selection.budget), color=WARM, linestyle="--", linewidth=1, label="budget")
            ax.legend(frameon=False)
        ax.set_title("Best value for the number of parties" if prices is None else "Best value for the money")
        ax.set_xlabel("number of parties" if prices is None else "cost")
        ax.set_ylabel("learnable value, nats per row" if selection.by == "learnable" else "Shapley-CMI, nats")
        ax.set_ylim(bottom=0)
        ax.locator_params(axis="x", integer=prices is None)
        return _plain(ax)


def _error_bars(numbers: Sequence[float], ends: Sequence[Interval | None]) -> NDArray[Any] | None:
    """Lengths of the error bars to both sides; None if there are none."""
    if not any(ends):
        return None
    known = [end or (x, x) for x, end in zip(numbers, ends, strict=True)]
    return np.maximum([[x - end[0], end[1] - x] for x, end in zip(numbers, known, strict=True)], 0.0).T


def _by_value(valuation: Valuation) -> list[str]:
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


def _literal(name: str) -> str:
    """A name that is drawn as it is: between two dollar signs matplotlib would typeset mathematics.

    A long name has several lines, because one line would leave no room for the drawing.
    """
    return "\n".join(textwrap.wrap(name, _LINE) or [name]).replace("$", r"\$")


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    made: Axes = plt.subplots(layout="constrained")[1]
    return made


def _plain(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax
