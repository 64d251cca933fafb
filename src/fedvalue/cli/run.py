"""`fedvalue run`: the task party takes part in a run and gets the values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.taking_part import JsonFile, PresharedKey, take_part_and_show
from fedvalue.cli.terminal import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    config: Annotated[Path, typer.Option(help="task.toml")],
    psk: PresharedKey = None,
    json_file: JsonFile = None,
) -> None:
    """Take part as the task party; prints the value of every data party, writes result and report.

    If it is interrupted, the same command continues.
    """
    output = take_part_and_show(config, "task", psk, json_file).output
    for path in (output.result, output.report, output.certificate):
        if path is not None:
            say(f"wrote {path}")
