"""`fedvalue doctor`: looks for what would keep a run from working, and says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli import exit_codes
from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    config: Annotated[
        Path | None, typer.Option(help="server.toml, party.toml or task.toml, instead of --home.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    table: Annotated[str | None, typer.Option(help="Your table, if no configuration names it.")] = None,
    id_: Annotated[str, typer.Option("--id", help="Column of the table that names a sample.")] = "id",
    label: Annotated[str | None, typer.Option(help="Column with the label, at the task party.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check clock, ports, names, TLS and pins, cards, permissions, disk, memory, versions, table and terms.

    Each finding comes with its remedy. Ends with exit code 4 when something would keep a run from working.
    """
    from dataclasses import replace

    from fedvalue.cli.terminal import print_line, say
    from fedvalue.deployment.config import TableConfig
    from fedvalue.deployment.doctor import examine
    from fedvalue.deployment.health import Level
    from fedvalue.deployment.process import harden
    from fedvalue.deployment.sites import site_of

    harden()
    site = site_of(config, home)
    if table is not None:
        site = replace(site, table=TableConfig(source=table, id=id_, label=label))
    findings = []
    for one in examine(site):
        findings.append(one)
        if not json_:
            print_line(f"{one.level.value:<5} {one.check:<16} {one.words}")
            if one.remedy:
                print_line(f"{'':<5} {'':<16} -> {one.remedy}")
    failed, warned = (sum(one.level is level for one in findings) for level in (Level.FAIL, Level.WARN))
    if json_:
        import json

        import msgspec

        typer.echo(json.dumps(msgspec.to_builtins(findings), indent=2))
    else:
        warnings = f", {warned} warning{'s' if warned > 1 else ''}" if warned else ""
        say(f"{len(findings)} checks: {failed or 'none'} failed{warnings}")
    if failed:
        raise typer.Exit(exit_codes.CONFIG)
