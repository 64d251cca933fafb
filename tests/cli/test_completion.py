"""Completion in bash, zsh and fish: commands, options, and the values of options that have few."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def completed(shell: str, line: str) -> str:
    """What the shell would offer after this line."""
    words = line.split(" ")
    asked = {
        "_FEDVALUE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [Path(sys.executable).with_name("fedvalue")],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_completes_commands_and_values(shell):
    assert "payout" in completed(shell, "fedvalue pay")
    offered = completed(shell, "fedvalue payout result.json --by ")
    assert "learnable" in offered
    assert "shapley-cmi" in offered


def test_options_are_completed_too():
    assert completed("bash", "fedvalue value data.csv --bin").split() == ["--bins", "--binning"]
