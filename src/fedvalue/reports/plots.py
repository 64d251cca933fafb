"""Plots of a result for notebooks: `v.plot.values(ax=ax)` and others, each on the caller's axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions.redundancy import redundancy
from fedvalue.decisions.selection import select
from fedvalue.errors import InputError
from fedvalue.reports import wording

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedvalue.valuation.result import PartyValue, Valuation

SOLID, PALE, INK, WARM, IDLE = "#2f8f86", "#b5d3cc", "#1c2530", "#8a4b12", "#8b939d"
"""Colours like the report's, light enough for error bars."""


class Plots:
    """Draws a result. Every method takes axes or makes them, and returns them.

    Calling the object itself draws the values.
    """

    def __init__(self, valuation: Valuation) -> None:
        self._valuation = valuation
        self._parties = sorted(valuation.parties, key=_number)

    def __call__(self, ax: Axes | None = None) -> Axes:
        """The same as `values`."""
        return self.values(ax)

    def values(self, ax: Axes | None = None) -> Axes:
        """Learnable value of each party with its 95% interval; Shapley-CMI where that is all there is."""
        learnable = self._valuation.learnable_total is not None
        ax = _axes(ax)
        numbers = [_number(party) for party in self._parties]
        ends = [p.learnable_interval if learnable else p.interval for p in self._parties]
        widths = [
            [0.0 if end is None else x - end[0] for x, end in zip(numbers, ends, strict=True)],
            [0.0 if end is None else end[1] - x for x, end in zip(numbers, ends, strict=True)],
        ]
        ax.barh(
            [party.name for party in self._parties], numbers, height=0.6, color=SOLID,
            xerr=np.maximum(widths, 0.0) if any(ends) else None, ecolor=INK, capsize=3,
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
        ax.set_yticks(place, [party.name for party in self._parties])
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
        """What parties add one after the other, with 95% intervals; colours say whom to invite.

        Raises:
            InputError: The result has no learnable values, or a price is missing or wrong.
        """
        before = wording.uncertainty(self._valuation)
        if self._valuation.learnable_total is None or not before:
            raise InputError("a waterfall needs learnable values: compute them with statistics=True")
        selection = select(self._valuation, prices, budget)
        ax = _axes(ax)
        colours = {"invited": SOLID, "undecided": WARM, "nothing": IDLE, "adds": WARM}
        meanings = {"invited": "invite", "undecided": "undecided", "nothing": "adds nothing worth mentioning",
                    "adds": "beyond the budget"}  # fmt: skip
        seen: set[str] = set()
        for step in selection.steps:
            kind = "invited" if step.invited else step.adds.verdict.value
            start, gain = step.value - step.adds.gain, step.adds.gain
            low, high = step.adds.low, step.adds.high
            error = None if low is None or high is None else 100 * (high - gain) / before
            ax.barh(
                step.party, 100 * gain / before, left=100 * start / before, height=0.6, color=colours[kind],
                xerr=error, ecolor=INK, capsize=3, label=None if kind in seen else meanings[kind],
            )  # fmt: skip
            seen.add(kind)
        ax.invert_yaxis()
        ax.set_title("What each party adds to those above it")
        ax.set_xlabel("% of what the task party cannot predict by itself")
        ax.legend(frameon=False, loc="lower left")
        return _plain(ax)

    def redundancy(self, ax: Axes | None = None) -> Axes:
        """How much less (-) or more (+) the row's party brings once the column's party is there.

        Raises:
            InputError: The result has fewer than two parties or no interactions.
        """
        found = redundancy(self._valuation)
        if found is None:
            raise InputError("a redundancy map needs two parties and their learnable interactions")
        ax = _axes(ax)
        ax.imshow(np.nan_to_num(found.change), cmap="BrBG_r", vmin=-1, vmax=1, alpha=0.7)
        names = found.names
        ax.set_xticks(range(len(names)), list(names), rotation=30, ha="right")
        ax.set_yticks(range(len(names)), list(names))
        for b in range(len(names)):
            for a in range(len(names)):
                ax.text(a, b, found.text(b, a), ha="center", va="center", color=INK)
        ax.set_title("Which parties overlap (−) or complement each other (+)")
        ax.set_xlabel("once this party is there …")
        ax.set_ylabel("… this one brings less (−) or more (+)")
        ax.spines[:].set_visible(False)
        return ax

    def uplift(self, ax: Axes | None = None) -> Axes:
        """Wrong decisions avoided per 1,000 rows: each party alone, all but one, and all, with 95% intervals.

        Raises:
            InputError: The result has no uplift.
        """
        rows = [row for row in self._valuation.uplift or () if row.errors_avoided_per_1000 is not None]
        rows = [row for row in rows if row.role != "nobody"]
        if not rows:
            raise InputError("this result has no uplift: compute it with statistics=True")
        ax = _axes(ax)
        order = {"alone": 0, "all_but": 1, "all": 2}
        rows.sort(key=lambda row: (order[row.role], row.errors_avoided_per_1000 or 0.0))
        numbers = [row.errors_avoided_per_1000 or 0.0 for row in rows]
        ends = [row.errors_avoided_interval for row in rows]
        widths = [
            [0.0 if end is None else x - end[0] for x, end in zip(numbers, ends, strict=True)],
            [0.0 if end is None else end[1] - x for x, end in zip(numbers, ends, strict=True)],
        ]
        ax.barh(
            [_set_name(self._valuation, row.role, row.parties) for row in rows], numbers, height=0.6,
            color=[{"alone": PALE, "all_but": PALE, "all": SOLID}[row.role] for row in rows],
            xerr=np.maximum(widths, 0.0) if any(ends) else None, ecolor=INK, capsize=3,
        )  # fmt: skip
        ax.set_title("Wrong decisions that the parties' data avoids")
        ax.set_xlabel("wrong decisions avoided per 1,000 rows")
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
        found = select(self._valuation, prices, budget)
        cost = [float(point.cost) for point in found.curve]
        ax.step(cost, [point.value for point in found.curve], where="post", color=SOLID, marker="o")
        if found.budget is not None:
            ax.axvline(float(found.budget), color=WARM, linestyle="--", linewidth=1, label="budget")
            ax.legend(frameon=False)
        ax.set_title("Best value for the number of parties" if prices is None else "Best value for the money")
        ax.set_xlabel("number of parties" if prices is None else "cost")
        ax.set_ylabel("learnable value, nats per row" if found.by == "learnable" else "Shapley-CMI, nats")
        ax.set_ylim(bottom=0)
        ax.locator_params(axis="x", integer=prices is None)
        return _plain(ax)


def _number(party: PartyValue) -> float:
    return party.value if party.learnable is None else party.learnable


def _set_name(valuation: Valuation, role: str, parties: tuple[str, ...]) -> str:
    if role == "all":
        return "all parties"
    if role == "alone":
        return f"{parties[0]} alone"
    return f"all but {wording.listing([p.name for p in valuation.parties if p.name not in parties])}"


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    made: Axes = plt.subplots(layout="constrained")[1]
    return made


def _plain(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax
