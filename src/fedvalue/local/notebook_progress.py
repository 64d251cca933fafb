"""A progress bar in notebooks, for work that takes more than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedvalue.typing import Progress

PATIENCE = 1.0
"""Seconds before the bar appears."""

_BETWEEN = 0.2


def in_notebook() -> bool:
    """This process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


@contextmanager
def notebook_bar() -> Iterator[Progress]:
    """A bar below the cell, shown after a second and removed at the end."""
    import IPython.display

    page: Any = IPython.display  # it has no types
    started = last = time.monotonic()
    handle: Any = None

    def report(done: float, total: float, note: str = "") -> None:
        nonlocal handle, last
        now = time.monotonic()
        if now - started < PATIENCE or now - last < _BETWEEN:
            return
        last = now
        bar = page.HTML(bar_html(done, total, note))
        if handle is None:
            handle = page.display(bar, display_id=True)
        else:
            handle.update(bar)

    try:
        yield report
    finally:
        if handle is not None:
            handle.update(page.HTML(""))


def bar_html(done: float, total: float, note: str = "") -> str:
    """The bar with its note, which may contain names written by others and is escaped."""
    share = min(max(done / total, 0.0), 1.0) if total else 0.0
    return f'<progress value="{share:.3f}" max="1"></progress> {share:.0%} {escape(note)}'
