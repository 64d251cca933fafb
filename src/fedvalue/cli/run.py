"""`fedvalue run`: the task party takes part in a run and gets the values."""

from __future__ import annotations

from typing import Annotated

import typer

from fedvalue.cli.shared_options import takes
from fedvalue.cli.taking_part import TakePart, taking_part
from fedvalue.cli.terminal import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(takes("take_part", taking_part, run))


def run(
    take_part: TakePart, label: Annotated[str | None, typer.Option(help="Column with the label.")] = None
) -> None:
    """Take part as the task party, after `fedvalue invite`; prints the value of every data party.

    It waits until everybody has accepted, shows six words to compare over the
    phone, signs, takes part in the run, and writes result, report and
    certificate. If it is interrupted, the same command continues.
    """
    output = take_part("task", label).output
    for path in (output.result, output.report, output.certificate):
        if path is not None:
            say(f"wrote {path}")
