"""`fedvalue backup make` and `fedvalue backup restore`: the state of a participant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder, add_group


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(app, "backup", "Back up and restore the state of a participant.", make, restore)


def make(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the archives.")],
    keep: Annotated[int, typer.Option(min=0, help="Keep this many archives; 0 keeps all.")] = 0,
    config: Annotated[
        Path | None, typer.Option(help="server.toml, party.toml or task.toml, instead of --home.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """Back up databases, audit logs and pinned cards, also while the participant runs.

    Private keys are not in it: copy the identity folder once to a safe site. Runs under way are not in it
    either: they cannot be continued from a copy.
    """
    from fedvalue.cli.terminal import say
    from fedvalue.deployment.backup import back_up
    from fedvalue.deployment.process import harden
    from fedvalue.deployment.sites import site_of

    harden()
    say(str(back_up(site_of(config, home), output, keep)))


def restore(
    archive: Annotated[Path, typer.Argument(help="An archive that `fedvalue backup make` wrote.")],
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """Restore an archive into a home without a state. Put the identity folder back yourself."""
    from fedvalue.cli.terminal import say
    from fedvalue.deployment.backup import restore as put_back
    from fedvalue.deployment.process import harden

    harden()
    backup = put_back(archive, home)
    say(f"restored {backup.name} ({backup.role}) as of {backup.created:%Y-%m-%d %H:%M:%S} UTC into {home}")
    if "state/ledger.sqlite" in backup.files:
        say("The ledger does not know what was spent since then: compare it with the agreements you signed.")
