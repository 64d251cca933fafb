"""The option that the commands of invited participants share: where everything is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HomeFolder = Annotated[
    Path,
    typer.Option(
        "--home",
        envvar="FEDVALUE_HOME",
        help="Folder of your identity, agreements and runs.",
    ),
]
DEFAULT_HOME = Path("fedvalue")
"""In the folder where the command is started."""
