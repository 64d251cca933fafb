"""`fedvalue abort`: a party gives up a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder
from fedvalue.cli.taking_part import AgreementId


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("abort")(abort)


def abort(
    agreement: AgreementId = None,
    home: HomeFolder = DEFAULT_HOME,
    config: Annotated[Path | None, typer.Option(help="party.toml or task.toml, instead of --home.")] = None,
) -> None:
    """Give up a run for everybody, even while the servers compute. Nothing is released."""
    from fedvalue.deployment import process
    from fedvalue.deployment.config import read_party_config
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.parties.abandon import abandon
    from fedvalue.untrusted_text import printable

    process.harden()
    if config is not None:
        party = read_party_config(config)
        answers = abandon(party.identity, party.manifest, party.state, party.addresses)
    else:
        own = Home(home.resolve())
        answers = abandon(own.identity, own.agreement(agreement).manifest, own.state)
    typer.echo("the run is over here, and its keys are erased", err=True)
    words = {"notified": "has ended the run", "over": "had ended the run already"}
    for server, answer in answers.items():
        typer.echo(printable(f"{server}: {words.get(answer, answer)}"), err=True)
