"""`fedvalue join`: a data party takes part in a run."""

from __future__ import annotations

import typer

from fedvalue.cli.shared_options import takes
from fedvalue.cli.taking_part import TakePart, taking_part


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("join")(takes("take_part", taking_part, join))


def join(take_part: TakePart) -> None:
    """Take part as a data party, after `fedvalue accept`; prints the value of your data.

    It waits until everybody has accepted, shows six words to compare over the
    phone, signs, and takes part in the run. If it is interrupted, the same
    command continues.
    """
    take_part("data", None)
