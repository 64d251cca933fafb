"""A result -> benchmark.json and index.html, one self-contained page; its tables are the terminal's too."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.scores import shares_of
from fedvalue.paper.experiments.drawing import COLOURS, panels, styled, svg
from fedvalue.paper.experiments.experiment import Table
from fedvalue.reports.html import templates
from fedvalue.storage.durable_files import PUBLIC, write_durably

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from fedvalue.benchmark.benchmark_run import BenchmarkResult
    from fedvalue.benchmark.scores import Mean, MethodSummary

_SCATTERED = ("learnable", "shap-ensemble", "shapley-cmi")


@dataclass(frozen=True, slots=True)
class BenchmarkView:
    """The content of the page.

    Args:
        lead: One or two sentences with the main numbers.
        scores: Every method over the real settings; None where there are none.
        known: Every method on every population with known values; None where there are none.
        settings: Every real setting and its true values.
        notes: Caveats: failures, missing data sets, settings that were not scored.
        drawings: SVG text with a caption each.
        meta: Date, profile and versions, on one line.
    """

    lead: str
    scores: Table | None
    known: Table | None
    settings: Table | None
    notes: tuple[str, ...]
    drawings: tuple[tuple[str, str], ...]
    meta: str


def write_page(result: BenchmarkResult, folder: Path) -> Path:
    """Write both files and return the path of the page.

    Raises:
        EngineError: The folder cannot be written.
    """
    text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_durably(folder / "benchmark.json", text.encode(), mode=PUBLIC)
    page = folder / "index.html"
    write_durably(page, render(view(result)).encode(), mode=PUBLIC)
    return page


def render(shown: BenchmarkView) -> str:
    """The page as text."""
    return templates("fedvalue.benchmark").get_template("benchmark.html.j2").render(view=shown)


def view(result: BenchmarkResult) -> BenchmarkView:
    """The content of the page for a result."""
    drawings: dict[str, str] = {}
    if result.real:
        drawings["Means over the settings with their standard errors. Dashed: the truth against itself, on "
                 "two halves of the tested rows."] = draw_scores(result)  # fmt: skip
        drawings["Which method fails where."] = draw_data_sets(result)
        if scattered := [name for name in _SCATTERED if result.estimates.get(name)]:
            caption = "Every party of every setting; the noise party in orange."
            drawings[caption] = draw_shares(result, scattered)
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return BenchmarkView(
        lead=lead(result),
        scores=scores_table(result) if result.real else None,
        known=known_table(result) if result.known else None,
        settings=settings_table(result) if result.real else None,
        notes=tuple(notes(result)),
        drawings=tuple((_inline(drawing), caption) for caption, drawing in drawings.items()),
        meta=f"{result.date} · profile {result.profile}{' (design splits)' * result.design} · {versions}",
    )


def _inline(drawing: str) -> str:
    """SVG for use inside a page: without the XML prologue."""
    return re.sub(r"^.*?(?=<svg)", "", drawing, flags=re.DOTALL)


def lead(result: BenchmarkResult) -> str:
    """The main numbers in a few sentences."""
    real = result.of_kind(known=False)
    if not real:
        return f"{len(result.of_kind(known=True))} populations with known values."
    sources = {problem.source for problem in real}
    best = result.real[0]
    text = f"{len(real)} vertical splits of {len(sources)} data sets."
    if best.means["tv"].value is not None:
        text += f" {best.name} sends {100 * best.means['tv'].value:.1f}% of the money to the wrong party"
        last = result.real[-1]
        if last is not best and last.means["tv"].value is not None:
            text += f", {last.name} {100 * last.means['tv'].value:.1f}%"
        text += "."
    selves = [problem.self_tv for problem in real if problem.self_tv is not None]
    if selves:
        text += f" The truth disagrees with itself by {100 * np.mean(selves):.1f}% on two halves of its rows."
    return text


def scores_table(result: BenchmarkResult) -> Table:
    """Every method over the real settings, the smallest TV first."""
    header = (
        "method", "TV", "TV − learnable (95%)", "Pearson", "Spearman", "noise share", "lost", "total / truth",
        "CPU seconds", "failed",
    )  # fmt: skip
    rows = []
    for row in result.real:
        change, means = row.difference, row.means
        rows.append(
            (
                row.name,
                _percent(means["tv"], error=True),
                "" if change is None
                else f"{100 * change.value:+.1f} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]",
                _plain(means["pearson"], ".3f"), _plain(means["spearman"], ".3f"),
                _percent(means["noise"]), _percent(means["lost"]),
                _plain(means["total"], ".2f"), _plain(means["seconds"], ".2f"),
                str(len(row.failed) or ""),
            )
        )  # fmt: skip
    return Table(header, tuple(rows))


def known_table(result: BenchmarkResult) -> Table:
    """TV of every method on every population with known values."""
    problems = result.of_kind(known=True)
    rows = []
    for row in result.known:
        cells = [result.scores[row.name].get(problem.name) for problem in problems]
        rows.append((row.name, *("failed" if cell is None else f"{100 * cell.tv:.1f}%" for cell in cells)))
    return Table(("method", *(problem.name for problem in problems)), tuple(rows))


def settings_table(result: BenchmarkResult) -> Table:
    """Every real setting and its true values."""
    header = (
        "setting", "rows seen", "unseen", "labels", "task features", "true total", "true values", "self TV",
    )  # fmt: skip
    rows = [
        (
            problem.name,
            f"{problem.n_samples:,}",
            f"{problem.n_unseen:,}" if problem.n_unseen else "cross-validated",
            str(problem.n_labels),
            str(problem.task_features),
            f"{problem.total:.3f}",
            " · ".join(f"{value:.3f}" for value in problem.parties.values()),
            "" if problem.self_tv is None else f"{100 * problem.self_tv:.1f}%",
        )
        for problem in result.problems
        if not problem.known
    ]
    return Table(header, tuple(rows))


def notes(result: BenchmarkResult) -> list[str]:
    """Caveats: data sets left out, settings not scored, failures."""
    caveats = [f"Left out: {message}." for message in result.missing.values()]
    if low := [problem.name for problem in result.problems if not problem.scored]:
        caveats.append(f"Not scored, because the true total is below 0.01 nats: {', '.join(low)}.")
    for method, problems in result.failed.items():
        caveats += [f"{method} failed on {problem}: {reason}" for problem, reason in problems.items()]
    return caveats


def _percent(mean: Mean, *, error: bool = False) -> str:
    if mean.value is None:
        return ""
    text = f"{100 * mean.value:.1f}%"
    return f"{text} ± {100 * mean.se:.1f}" if error and mean.se is not None else text


def _plain(mean: Mean, form: str) -> str:
    return "" if mean.value is None else format(mean.value, form)


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
