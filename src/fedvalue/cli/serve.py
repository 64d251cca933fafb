"""`fedvalue serve compute|validate|assist|abort`: run a server, or end a run at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder, takes
from fedvalue.errors import ConfigError

if TYPE_CHECKING:
    from fedvalue.deployment.config import ServerConfig

Config = Annotated[Path | None, typer.Option(help="server.toml, instead of --home.")]


def server_options(
    *,
    config: Config = None,
    home: HomeFolder = DEFAULT_HOME,
    listen: Annotated[
        str | None,
        typer.Option(
            help="host:port to listen on, if it is not the address in the invitation.", show_default=False
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            envvar="FEDVALUE_METRICS",
            metavar="HOST:PORT",
            help="Loopback address of metrics, health and the status page.",
            show_default=False,
        ),
    ] = None,
) -> Any:
    """The `ServerConfig` of a command, for `takes`."""
    from fedvalue.deployment import process

    process.multiply_in_one_thread()  # reading an agreement loads NumPy
    from msgspec.structs import replace

    from fedvalue.deployment.config import MetricsConfig

    settings = _config(config, home, listen)
    if metrics is None:
        return settings
    try:
        return replace(settings, metrics=MetricsConfig(listen=metrics))
    except ValueError as error:
        raise ConfigError(f"--metrics: {error}") from None


@takes("config", server_options)
def compute(config: Any) -> None:
    """Run the computation server until SIGTERM, after `fedvalue accept`. Logs are JSON lines on stderr."""
    _serve("compute", config)


@takes("config", server_options)
def validate(config: Any) -> None:
    """Run the validation server until SIGTERM, after `fedvalue accept`. Logs are JSON lines on stderr."""
    _serve("validate", config)


@takes("config", server_options)
def assist(config: Any) -> None:
    """Run the third server of protocol gram until SIGTERM, after `fedvalue accept`."""
    _serve("assist", config)


def abort(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, hex, or its first digits.")],
    config: Config = None,
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """End a run at this server, also while it computes: everybody is notified, nothing is released."""
    from fedvalue.deployment.servers.abort_requests import abort_run

    run, state = abort_run(_config(config, home).state, run_id.lower())
    ends = {
        "failed": f"run {run.hex()[:12]} is over: nothing is released",
        "done": f"run {run.hex()[:12]} had already ended, with a result",
    }
    later = f"the server does not answer: run {run.hex()[:12]} ends when it starts"
    typer.echo(ends.get(state, later), err=True)


def _config(config: Path | None, home: Path, listen: str | None = None) -> ServerConfig:
    from fedvalue.deployment.config import read_server_config
    from fedvalue.deployment.sites import server_config

    if config is not None:
        return read_server_config(config)
    try:
        return server_config(home, listen)
    except ValueError as error:
        raise ConfigError(f"--listen: {error}") from None


def _serve(role: str, config: ServerConfig) -> None:
    from fedvalue.deployment import process
    from fedvalue.deployment.servers.server_process import serve as run_server
    from fedvalue.deployment.servers.valuation_process import prepare
    from fedvalue.deployment.sites import site_of_server
    from fedvalue.deployment.status_page import page_routes

    def ready() -> None:
        process.skip_loaded_objects()
        prepare()

    process.harden()
    process.reuse_memory()
    with process.HandshakeWatch() as handshakes:
        run_server(
            config,
            role,
            stop=process.stop_on_signals(),
            on_start=ready,
            handshakes=handshakes,
            routes=page_routes(site_of_server(config)),
        )


serve = (compute, validate, assist, abort)
