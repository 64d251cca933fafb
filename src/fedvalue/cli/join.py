"""`fedvalue join`: a data party takes part in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.terminal import wrote_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("join")(join)


def join(
    config: Annotated[Path, typer.Option(help="party.toml")],
    psk: Annotated[
        Path | None,
        typer.Option(
            help="For tests and air-gapped use: a file (0600) of 32 bytes that all parties share, instead of "
            "the key agreement. No forward secrecy."
        ),
    ] = None,
    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Write the result as JSON; - prints it alone.", metavar="FILE|-"),
    ] = None,
) -> None:
    """Take part as a data party: rows stay here; prints your own value.

    Interrupted, the same command continues where it was.
    """
    from fedvalue.deployment import process
    from fedvalue.deployment.config import read_party_config
    from fedvalue.deployment.parties.participate import take_part

    process.harden()
    process.reuse_memory()

    def report(stage: str, words: str) -> None:
        typer.echo(f"{stage}: {words}" if words else stage, err=True)

    found = take_part(read_party_config(config), "data", report, psk)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    result = found.result
    if wrote_json(result, json_file, "result"):
        return
    typer.echo(f"run      {result['run_id']}")
    typer.echo(f"party    {result['party']}")
    if "match_rate" in result:
        typer.echo(f"common   {result['match_rate']:.1%} of your samples")
    if "value" not in result:
        typer.echo("The run has ended well. Under policy 'counts' the task party alone sees the result.")
        return
    typer.echo(f"value    {result['value']:.6f} nats of {result['total']:.6f}")
    if "privacy" in result:
        from fedvalue.reports.wording import noise
        from fedvalue.valuation.result import PrivacyStatement

        typer.echo(noise(PrivacyStatement(**result["privacy"])))
    if "learnable" in result:
        typer.echo(f"learnable {result['learnable']:.6f} nats")
