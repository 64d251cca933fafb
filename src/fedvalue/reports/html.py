"""The report as one self-contained HTML file or as PDF, and the short form for notebooks.

The page has no script, loads nothing and forbids loading by its own content security policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.errors import InputError
from fedvalue.reports import price_curve
from fedvalue.reports.pdf import print_to_pdf
from fedvalue.reports.view import view
from fedvalue.storage.durable_files import atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment

    from fedvalue.valuation.result import Valuation


def render(
    result: Valuation, *, prices: Mapping[str, object] | None = None, budget: object | None = None
) -> str:
    """The report as HTML text."""
    template = templates().get_template("report.html")
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
    """Write the report and return its path: PDF for a name that ends with .pdf, else HTML.

    Raises:
        InputError: The file cannot be written, a price is missing or wrong, or no browser can print the PDF.
    """
    return write_page(render(result, prices=prices, budget=budget), path)


def write_page(page: str, path: str | Path, *, mode: int | None = None) -> Path:
    """Write a page as PDF or HTML, by the name of the file. It appears whole or not at all.

    Args:
        page: The HTML text.
        path: The file.
        mode: Its permissions from the first moment on; those of the umask when None.

    Raises:
        InputError: The file cannot be written, or no browser can print the PDF.
    """
    target = Path(path)
    content = print_to_pdf(page) if target.suffix.lower() == ".pdf" else page.encode()
    try:
        atomic_write(target, content, mode=mode)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    return target


def notebook(result: Valuation) -> str:
    """The result as a small card for a notebook: the decision and the values."""
    return templates().get_template("notebook.html").render(v=view(result))


@cache
def templates() -> Environment:
    """The page templates, with everything escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Autoescape everything: names of parties come from strangers.
    return Environment(
        loader=PackageLoader("fedvalue.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
