"""Pages as one self-contained HTML file or as PDF: the report, the certificate, and a card for notebooks.

The page has no script, loads nothing and forbids loading by its own content security policy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.errors import InputError
from fedvalue.reports import charts
from fedvalue.reports.view import view
from fedvalue.storage.durable_files import atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment

    from fedvalue.agreement.manifest import Manifest
    from fedvalue.valuation.result import Valuation


ROLES = {
    "task": "asked, and holds the label", "data": "data party", "compute": "computation server",
    "validate": "validation server", "assist": "assisting server",
}  # fmt: skip
"""Titles of the roles, in the order of the page."""


def render(
    result: Valuation, *, prices: Mapping[str, object] | None = None, budget: object | None = None
) -> str:
    """The report as HTML text."""
    template = templates().get_template("report.html")
    return template.render(
        v=view(result, prices=prices, budget=budget),
        width=charts.WIDTH, height=charts.HEIGHT, left=charts.LEFT,
        right=charts.RIGHT, top=charts.TOP, bottom=charts.BOTTOM,
    )  # fmt: skip


def write(
    result: Valuation,
    path: str | Path,
    *,
    prices: Mapping[str, object] | None = None,
    budget: object | None = None,
) -> Path:
    """Write the report and return its path: PDF for a name that ends with .pdf, otherwise HTML.

    Raises:
        InputError: The file cannot be written, a price is missing or wrong, or no browser can print the PDF.
    """
    return write_page(render(result, prices=prices, budget=budget), path)


def write_page(page: str, path: str | Path, *, mode: int | None = None) -> Path:
    """Write a page atomically, as PDF or HTML by the name of the file."""
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


def render_certificate(
    result: Valuation, manifest: Manifest, *, proved: Sequence[str], unproved: Sequence[str], digest: str
) -> str:
    """A page about a checked certificate: the agreement, the values, what was proved and what was not.

    `proved` has one sentence per check, `unproved` sentences on what a reader might believe to be checked but
    is not. `digest` is the SHA-256 of the certificate file, in hex.
    """
    template = templates().get_template("certificate.html")
    return template.render(
        v=view(result),
        headline=_headline(manifest),
        agreement=(
            ("Purpose", manifest.purpose),
            ("Consortium", manifest.consortium),
            ("Agreed on", f"{manifest.created:%d %B %Y, %H:%M} UTC, for one run"),
            ("Cases", f"{result.n_samples:,}"),
            ("Run", manifest.run_id.hex()),
            ("SHA-256 of this certificate", digest),
        ),
        proved=[_sentence(text) for text in proved],
        unproved=[*map(_sentence, unproved), *_NEVER_PROVED],
        signers=[
            {"name": signer.name, "role": title, "fingerprint": manifest.card_of(signer).fingerprint}
            for role, title in ROLES.items()
            for signer in manifest.of_role(role)
        ],
    )


_NEVER_PROVED = (
    "That each party’s table is true. No file can show that.",
    "That servers, or a party and a server, did not work together.",
)


def _headline(manifest: Manifest) -> str:
    if manifest.protocol == "mirror":
        return (
            f"The servers {manifest.compute.name} and {manifest.validate.name} computed these values "
            "independently, and both signed them."
        )
    if manifest.protocol == "gram":
        names = ", ".join(server.name for server in manifest.servers)
        return f"The servers {names} signed sums that fit together, and these values follow from them."
    return f"These values are the word of {manifest.task.name}, who signed them."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


@cache
def templates(package: str = "fedvalue.reports") -> Environment:
    """The page templates of a package, with everything escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Autoescape everything: names of parties come from other organisations.
    return Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "msedge", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)  # fmt: skip
"""Programs to try, in this order."""

SECONDS = 120
"""Timeout. A page takes a second or two."""


def find_browser() -> str | None:
    """The first browser that is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def print_to_pdf(page: str) -> bytes:
    """An HTML page as PDF. The browser gets an empty profile and reads the page from a private folder."""
    browser = find_browser()
    if browser is None:
        raise InputError(
            "a PDF needs Chromium, Chrome or Edge, and none was found on this machine: install one, or write "
            "an .html file and print it from your browser"
        )
    with tempfile.TemporaryDirectory(prefix="fedvalue-pdf-") as folder:
        source, target = Path(folder, "page.html"), Path(folder, "page.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-extensions",
            "--no-pdf-header-footer", f"--user-data-dir={folder}/profile", f"--print-to-pdf={target}",
        ]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium has no sandbox for root; the page has no script
        try:
            subprocess.run(  # noqa: S603  # our own list of programs and a file of ours
                [*command, source.as_uri()], capture_output=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{browser} could not print the page: {error}") from error
        if not target.exists():
            raise InputError(f"{browser} printed nothing; write an .html file and print it from your browser")
        return target.read_bytes()
