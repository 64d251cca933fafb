"""The drawings of the benchmark's page, as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.scores import shares_of
from fedvalue.paper.experiments.drawing import COLOURS, panels, styled, svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from fedvalue.benchmark.benchmark_result import BenchmarkResult
    from fedvalue.benchmark.scores import MethodSummary

_MEASURES = (
    ("tv", "money to the wrong party (TV)"),
    ("noise", "share of the noise party"),
    ("lost", "lost by the best pair"),
)


def draw_scores(result: BenchmarkResult) -> str:
    """Three scores of every method over the real settings, with standard errors."""
    summaries = list(reversed(result.real))
    with styled():
        figure, axes = panels(1, len(_MEASURES), width=9.5, height=0.8 + 0.27 * len(summaries))
        for place, (ax, (key, title)) in enumerate(zip(axes, _MEASURES, strict=True)):
            _dots(ax, summaries, key)
            ax.set_title(title)
            ax.set_xlim(left=0)
            ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f}%")
            ax.set_yticks(range(len(summaries)), [row.name for row in summaries] if place == 0 else [])
        selves = [problem.self_tv for problem in result.of_kind(known=False) if problem.self_tv is not None]
        if selves:
            axes[0].axvline(float(np.mean(selves)), color="#595959", linestyle="--", linewidth=1)
    return svg(figure, salt="benchmark-scores")


def _dots(ax: Axes, summaries: Sequence[MethodSummary], key: str) -> None:
    for place, row in enumerate(summaries):
        mean = row.means[key]
        if mean.value is not None:
            colour = COLOURS[0] if row.difference is None else COLOURS[-1]
            ax.errorbar(mean.value, place, xerr=mean.se or 0.0, fmt="o", color=colour, capsize=2)
    ax.set_ylim(-0.6, len(summaries) - 0.4)


def draw_data_sets(result: BenchmarkResult) -> str:
    """Mean TV of every method on every data set, as a map of numbers."""
    sources = list(dict.fromkeys(problem.source for problem in result.of_kind(known=False)))
    cells = np.array([[row.by_source.get(name, np.nan) for name in sources] for row in result.real])
    with styled():
        figure, (ax,) = panels(1, 1, width=9.5, height=0.8 + 0.3 * len(result.real))
        ax.imshow(cells, cmap="cividis_r", aspect="auto", vmin=0, vmax=0.6)
        for (i, j), value in np.ndenumerate(cells):
            if np.isfinite(value):
                ink = "#ffffff" if value > 0.3 else "#1c2126"
                ax.text(j, i, f"{100 * value:.0f}", ha="center", va="center", color=ink, fontsize=8)
        ax.set_xticks(range(len(sources)), [name.capitalize() for name in sources])
        ax.set_yticks(range(len(result.real)), [row.name for row in result.real])
        ax.grid(visible=False)
        ax.set_title("TV in percent, mean over the settings of a data set")
    return svg(figure, salt="benchmark-data-sets")


def draw_shares(result: BenchmarkResult, methods: Sequence[str]) -> str:
    """True share against a method's share of every party, one panel per method."""
    with styled():
        figure, axes = panels(1, len(methods), width=3.2 * len(methods), height=3.4)
        for ax, name in zip(axes, methods, strict=True):
            ax.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1, zorder=1)
            for problem in result.of_kind(known=False):
                values = result.estimates[name].get(problem.name)
                if values is None:
                    continue
                true = shares_of(np.array(list(problem.parties.values())))
                shares = shares_of(np.array([values[party] for party in problem.parties]))
                noise = np.array([party == problem.noise for party in problem.parties])
                for kind, colour in ((~noise, COLOURS[0]), (noise, COLOURS[1])):
                    ax.scatter(true[kind], shares[kind], s=11, color=colour, alpha=0.6, linewidths=0)
            ax.set_title(name)
            ax.set_xlabel("true share")
            ax.set_xlim(-0.02, 1.02)
            ax.set_ylim(-0.02, 1.02)
        axes[0].set_ylabel("share by the method")
    return svg(figure, salt="benchmark-shares")
