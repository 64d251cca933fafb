"""Runs the real command as a user does, in a process of its own, and keeps what it printed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


def fedvalue(*arguments: str | Path, cwd: Path | None = None, timeout: float = 600) -> Ran:
    """Run `fedvalue ARGUMENTS`; never a traceback, whatever the arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "fedvalue", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)
