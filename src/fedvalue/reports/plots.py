"""Plots of a result for notebooks: `v.plot.values(ax=ax)` and others, each on the caller's axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions.redundancy import redundancy
from fedvalue.decisions.selection import select
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedvalue.valuation.result import Valuation

SOLID, PALE, INK, WARM = "#17615c", "#b5d3cc", "#1c2530", "#8a4b12"
"""The report's colours."""


class Plots:
    """Draws a result. Every method takes an axis or makes one, and returns it.

    Calling the object itself draws the values.
    """

    def __init__(self, result: Valuation) -> None:
        self._result = result
        self._parties = sorted(
            result.parties, key=lambda p: p.learnable if p.learnable is not None else p.value
        )

    def __call__(self, ax: Axes | None = None) -> Axes:
        """The same as `values`."""
        return self.values(ax)

    def values(self, ax: Axes | None = None) -> Axes:
        """Shapley-CMI of each party with its 95% interval, and its learnable value above it."""
        ax = _axis(ax)
        place = np.arange(len(self._parties))
        learnable = [p.learnable for p in self._parties]
        value = [p.value for p in self._parties]
        widths = [p.half_width or 0.0 for p in self._parties]
        known = self._result.learnable_total is not None
        ax.barh(
            place - (0.2 if known else 0.0), value, height=0.3, color=PALE, label="Shapley-CMI",
            xerr=widths if any(widths) else None, ecolor=INK, capsize=2.5, error_kw={"elinewidth": 1.0},
        )  # fmt: skip
        if known:
            ax.barh(place + 0.15, [x or 0.0 for x in learnable], height=0.38, color=SOLID, label="learnable")
            ax.legend(frameon=False, reverse=True)
        ax.set_yticks(place, [p.name for p in self._parties])
        ax.set_xlabel("nats")
        return _plain(ax)

    def shares(self, ax: Axes | None = None) -> Axes:
        """Each party's part of the total, by value and by learnable value, in percent.

        Raises:
            InputError: The result has no shares: its values have noise.
        """
        if any(p.share is None for p in self._parties):
            raise InputError("values with noise have no shares")
        ax = _axis(ax)
        place = np.arange(len(self._parties))
        total = self._result.learnable_total
        known = total is not None and total > 0
        shift = 0.2 if known else 0.0
        ax.barh(place - shift, [100 * (p.share or 0.0) for p in self._parties], height=0.36, color=PALE,
                label="Shapley-CMI")  # fmt: skip
        if total is not None and total > 0:
            parts = [100 * (p.learnable or 0.0) / total for p in self._parties]
            ax.barh(place + shift, parts, height=0.36, color=SOLID, label="learnable")
            ax.legend(frameon=False, reverse=True)
        ax.set_yticks(place, [p.name for p in self._parties])
        ax.set_xlabel("share of the total, %")
        return _plain(ax)

    def redundancy(self, ax: Axes | None = None) -> Axes:
        """The redundancy map: how much of what the row tells alone the column tells already.

        Raises:
            InputError: The result has fewer than two parties or no interactions.
        """
        found = redundancy(self._result)
        if found is None:
            raise InputError("a redundancy map needs two parties and their interactions")
        ax = _axis(ax)
        ax.imshow(np.nan_to_num(found.matrix), cmap="BrBG", vmin=-1, vmax=1, alpha=0.7)
        names = found.names
        ax.set_xticks(range(len(names)), list(names), rotation=30, ha="right")
        ax.set_yticks(range(len(names)), list(names))
        for b in range(len(names)):
            for a in range(len(names)):
                if not np.isnan(found.matrix[b, a]):
                    ax.text(a, b, f"{found.matrix[b, a]:.0%}", ha="center", va="center", color=INK)
        ax.set_xlabel("… is told by")
        ax.set_ylabel("what this tells alone …")
        ax.spines[:].set_visible(False)
        return ax

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
        ax = _axis(ax)
        names = [p.name for p in self._result.parties]
        asked: Mapping[str, object] = prices if prices is not None else dict.fromkeys(names, 1)
        by = "learnable" if self._result.learnable_total is not None else "shapley-cmi"
        found = select(self._result, asked, 0 if budget is None else budget, by=by)
        cost = [float(point.cost) for point in found.curve]
        ax.step(cost, [point.value for point in found.curve], where="post", color=SOLID, marker="o")
        if budget is not None:
            ax.axvline(float(found.budget), color=WARM, linestyle="--", linewidth=1)
        ax.set_xlabel("number of parties" if prices is None else "cost")
        ax.set_ylabel("nats")
        ax.set_ylim(bottom=0)
        ax.locator_params(axis="x", integer=prices is None)
        return _plain(ax)


def _axis(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    made: Axes = plt.subplots(layout="constrained")[1]
    return made


def _plain(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax
