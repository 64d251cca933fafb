"""A page as PDF, printed by a browser of this machine: Chromium, Chrome or Edge without a window."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fedvalue.errors import InputError

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "msedge", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)  # fmt: skip
"""Programs that are tried, in this order."""

SECONDS = 120
"""A page takes a second or two; a browser that hangs must not hang us."""


def find_browser() -> str | None:
    """The first browser that is installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def print_to_pdf(page: str) -> bytes:
    """An HTML page as PDF.

    The browser gets an empty profile and reads the page from a private folder. The page loads nothing.

    Raises:
        InputError: There is no browser, or it failed.
    """
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
