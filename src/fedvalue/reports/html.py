"""The report as one self-contained HTML file, and the short form for notebooks.

The page has no script, loads nothing and forbids loading by its own content security policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.errors import InputError
from fedvalue.reports import price_curve
from fedvalue.reports.view import view
from fedvalue.storage.durable_files import atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment

    from fedvalue.valuation.result import Valuation


def render(
    result: Valuation, *, prices: Mapping[str, object] | None = None, budget: object | None = None
) -> str:
    """The report as HTML text."""
    template = _templates().get_template("report.html")
    return template.render(
        v=view(result, prices=prices, budget=budget),
        width=price_curve.WIDTH, height=price_curve.HEIGHT, left=price_curve.LEFT,
        right=price_curve.RIGHT, top=price_curve.TOP, bottom=price_curve.BOTTOM,
    )  # fmt: skip


def write(
    result: Valuation,
    path: str | Path,
    *,
    prices: Mapping[str, object] | None = None,
    budget: object | None = None,
) -> Path:
    """Write the report and return its path. The file appears whole or not at all.

    Raises:
        InputError: The file cannot be written, or a price is missing or wrong.
    """
    target = Path(path)
    text = render(result, prices=prices, budget=budget)
    try:
        atomic_write(target, text.encode())
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    return target


def notebook(result: Valuation) -> str:
    """The result as a small card for a notebook: the decision and the values."""
    return _templates().get_template("notebook.html").render(v=view(result))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Autoescape everything: names of parties come from strangers.
    return Environment(
        loader=PackageLoader("fedvalue.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
