"""A result -> benchmark.json and index.html, one self-contained page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.benchmark.benchmark_plots import draw_data_sets, draw_scores, draw_shares
from fedvalue.benchmark.benchmark_tables import (
    PageTable,
    known_table,
    lead,
    notes,
    scores_table,
    settings_table,
)
from fedvalue.storage.durable_files import PUBLIC, write_durably

if TYPE_CHECKING:
    from jinja2 import Template

    from fedvalue.benchmark.benchmark_result import BenchmarkResult

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
    scores: PageTable | None
    known: PageTable | None
    settings: PageTable | None
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
    return _template().render(view=shown)


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


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fedvalue.benchmark", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("benchmark.html.j2")
