"""Runs the command in the test's own process, where a process for each way to be refused is slow."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from unittest import mock

from fedvalue.cli.app import main
from tests.cli.runner import Ran


def fedvalue_here(*arguments: str | Path, cwd: Path | None = None) -> Ran:
    """Run `fedvalue ARGUMENTS` through the same entry point as the installed command."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
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
