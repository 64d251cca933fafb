"""`fedvalue serve compute|validate`: one of the two servers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ServerRole(StrEnum):
    """Which of the two."""

    COMPUTE = "compute"
    VALIDATE = "validate"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    role: Annotated[ServerRole, typer.Argument(help="Computation server or validation server.")],
    config: Annotated[Path, typer.Option(help="server.toml")],
) -> None:
    """Run a server until SIGTERM. Logs are JSON lines on stderr."""
    from fedvalue.deployment import process
    from fedvalue.deployment.config import read_server_config
    from fedvalue.deployment.servers.server_process import serve as run_server

    process.harden()
    process.reuse_memory()
    run_server(
        read_server_config(config),
        role.value,
        stop=process.stop_on_signals(),
        on_start=process.skip_loaded_objects,
    )
