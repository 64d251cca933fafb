"""A result -> benchmark.json and index.html, one self-contained page; its tables are the terminal's too."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.benchmark_plots import draw_data_sets, draw_scores, draw_shares
from fedvalue.paper.experiments.experiment import Table
from fedvalue.reports.html import templates
from fedvalue.storage.durable_files import PUBLIC, write_durably

if TYPE_CHECKING:
    from fedvalue.benchmark.benchmark_result import BenchmarkResult
    from fedvalue.benchmark.scores import Mean

_SCATTERED = ("learnable", "shap-ensemble", "shapley-cmi")


@dataclass(frozen=True, slots=True)
class BenchmarkView:
    """What the page shows.

    Args:
        lead: One or two sentences with the main numbers.
        scores: Every method over the real settings; None where there are none.
        known: Every method on every population with known values; None where there are none.
        settings: Every real setting and its true values.
        notes: What a reader must know: failures, missing data sets, settings that were not scored.
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
    """What the page shows of a result."""
    drawings: list[tuple[str, str]] = []
    if result.real:
        scattered = [name for name in _SCATTERED if result.estimates.get(name)]
        drawings = [
            (
                _inline(draw_scores(result)),
                "Means over the settings with their standard errors. Dashed: the truth against itself, on "
                "two halves of the tested rows.",
            ),
            (_inline(draw_data_sets(result)), "Which method fails where."),
        ]
        if scattered:
            drawings.append(
                (
                    _inline(draw_shares(result, scattered)),
                    "Every party of every setting; the noise party in orange.",
                )
            )
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return BenchmarkView(
        lead=lead(result),
        scores=scores_table(result) if result.real else None,
        known=known_table(result) if result.known else None,
        settings=settings_table(result) if result.real else None,
        notes=tuple(notes(result)),
        drawings=tuple(drawings),
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
        "setting",
        "rows seen",
        "unseen",
        "labels",
        "task features",
        "true total",
        "true values",
        "self TV",
    )
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
    """What a reader must know: data sets left out, settings not scored, failures."""
    found = [f"Left out: {message}." for message in result.missing.values()]
    if low := [problem.name for problem in result.problems if not problem.scored]:
        found.append(f"Not scored, because the true total is below 0.01 nats: {', '.join(low)}.")
    for method, problems in result.failed.items():
        found += [f"{method} failed on {problem}: {reason}" for problem, reason in problems.items()]
    return found


def _percent(mean: Mean, *, error: bool = False) -> str:
    if mean.value is None:
        return ""
    text = f"{100 * mean.value:.1f}%"
    return f"{text} ± {100 * mean.se:.1f}" if error and mean.se is not None else text


def _plain(mean: Mean, form: str) -> str:
    return "" if mean.value is None else format(mean.value, form)
