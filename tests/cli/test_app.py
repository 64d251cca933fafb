"""The command's help, completion and start-up."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fedvalue.cli import app
from tests.cli.here import fedvalue_here

HEAVY = (
    "numpy",
    "numba",
    "pyarrow",
    "grpc",
    "matplotlib",
    "jinja2",
    "msgspec",
    "cryptography",
    "rich.progress",
)


def test_every_command_is_in_one_panel_of_the_help():
    names = [name for panel in app.PANELS.values() for name in panel]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [name for panel in app.PANELS.values() for name in panel])
def test_the_list_of_commands_has_the_first_words_of_each_command(name):
    """The list is printed without loading a command; it must not say anything else than the command."""
    words = next(panel[name] for panel in app.PANELS.values() if name in panel)
    assert " ".join(app.load_command(name).help.split("\n\n")[0].split()) == words


def test_help_shows_the_panels_in_order():
    out = fedvalue_here("--help").out
    places = [out.index(panel) for panel in app.PANELS]
    assert places == sorted(places)


def test_start_up_loads_nothing_heavy():
    probe = f"import sys, fedvalue.cli.app; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def complete(shell: str, **variables: str) -> str:
    environment = {**os.environ, "_FEDVALUE_COMPLETE": f"complete_{shell}", **variables}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['fedvalue']; from fedvalue.cli import main; main()"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "commands", "options"),
    [
        (
            "bash",
            {"COMP_WORDS": "fedvalue pa", "COMP_CWORD": "1"},
            {"COMP_WORDS": "fedvalue value --sens", "COMP_CWORD": "2"},
        ),
        (
            "zsh",
            {"_TYPER_COMPLETE_ARGS": "fedvalue pa"},
            {"_TYPER_COMPLETE_ARGS": "fedvalue value --sens"},
        ),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "fedvalue pa", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
            {"_TYPER_COMPLETE_ARGS": "fedvalue value --sens", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        ),
    ],
)
def test_shells_complete_commands_and_their_options(shell, commands, options):
    assert "payout" in complete(shell, **commands)
    assert "--sensitivity" in complete(shell, **options)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["backup", "make", "-o", "bk.tar"], 3, "-o bk.tar: name a folder"),
        (
            ["init", "identity", "--consortium", "c", "--role", "data", "--name", "telco", "--days", "0"],
            4,
            "--days must be from 1 to 825, got 0",
        ),
    ],
)
def test_an_option_with_a_wrong_value_is_named(tmp_path, command, code, message):
    ran = fedvalue_here(*command, cwd=tmp_path)
    assert ran.code == code
    assert message in ran.err
    assert list(tmp_path.iterdir()) == []
