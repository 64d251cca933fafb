"""`fedvalue init`: keys and a certificate, and the card to exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init")(init)


def init(
    folder: Annotated[Path, typer.Argument(help="Where the identity goes, e.g. identity.")],
    consortium: Annotated[str, typer.Option(help="Name of the group that runs valuations together.")],
    role: Annotated[str, typer.Option(help="task, data, compute, validate or assist.")],
    name: Annotated[str, typer.Option(help="Your name in the consortium.")],
    days: Annotated[int, typer.Option(help="How long the certificate is valid.")] = 365,
) -> None:
    """Make an identity: a signing key and a TLS certificate, readable by you alone.

    Give FOLDER/card.json to the other participants, and compare the fingerprint over another channel.
    """
    from fedvalue.deployment.process import harden
    from fedvalue.identity.cards import create_identity
    from fedvalue.identity.identity_files import CARD, save_identity

    harden()
    identity = create_identity(consortium, role, name, valid_days=days)
    save_identity(identity, folder)
    typer.echo(f"card         {folder / CARD}")
    typer.echo(f"identity     {identity.card.uri}")
    typer.echo(f"fingerprint  {identity.card.fingerprint}")
    typer.echo(
        "Send the card to every other participant. Read the fingerprint to them over another channel; "
        "they compare it with `fedvalue audit card`.",
        err=True,
    )
