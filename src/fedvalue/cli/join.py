"""`fedvalue join`: a data party takes part in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.taking_part import JsonFile, PresharedKey, take_part_and_show


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("join")(join)


def join(
    config: Annotated[Path, typer.Option(help="party.toml")],
    psk: PresharedKey = None,
    json_file: JsonFile = None,
) -> None:
    """Take part as a data party; prints the value of your data.

    If it is interrupted, the same command continues.
    """
    take_part_and_show(config, "data", psk, json_file)
