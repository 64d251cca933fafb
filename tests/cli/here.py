"""Runs the command in the test's own process, which saves the start of one. Enough where a test is about
what a command says and writes; each command also runs in a process of its own in some test.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from pathlib import Path
from unittest import mock

from fedvalue.cli.app import main
from fedvalue.deployment import process
from tests.cli.runner import Ran


def fedvalue_here(*arguments: str | Path, cwd: Path | None = None) -> Ran:
    """Run `fedvalue ARGUMENTS` through the same entry point as the installed command.

    What a command does to its process for good (umask, limits, signals) is left out.
    """
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.multiple(
            process, harden=mock.DEFAULT, reuse_memory=mock.DEFAULT, stop_on_signals=threading.Event
        ),
        mock.patch.object(sys, "argv", ["fedvalue", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd or Path.cwd()),
    ):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())
