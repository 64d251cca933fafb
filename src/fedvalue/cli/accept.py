"""`fedvalue accept`: read the terms of an invitation, accept them, and take a seat."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder
from fedvalue.cli.terminal import say

if TYPE_CHECKING:
    from fedvalue.deployment.home import Home
    from fedvalue.invitation.invitation import Invitation, Seat

_DELIVER_SECONDS = 60.0
"""How long the servers may take to answer before we ask the person to come back later."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("accept")(accept)


def accept(
    invitation: Annotated[Path, typer.Argument(help="The invitation; - reads it from standard input.")],
    name: Annotated[
        str | None,
        typer.Option("--as", help="Your seat: the name under which you are invited.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept without being asked.")] = False,
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """Read the terms of an invitation and accept them, as a data party or the operator of a server.

    It makes your identity if there is none, shows the terms in words, checks
    them against your own limits (accept.toml in the home folder) and asks.
    The signature follows when everybody has accepted: a data party goes on
    with `fedvalue join`, an operator with `fedvalue serve`.
    """
    import datetime as dt

    from fedvalue.agreement.explanation import explain_terms
    from fedvalue.agreement.manifest_rules import check_terms
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.process import harden
    from fedvalue.errors import ConfigError
    from fedvalue.identity.tls_certificates import SERVER_ROLES

    harden()
    place = Home(home)
    paper = _read(invitation)
    seat = _seat(paper, place, name)
    if seat.role in SERVER_ROLES and place.seat_in(paper) == seat.name:
        say(
            f"Accepted before as {seat.name}."
        )  # a container does so at every start, also when it has expired
        return
    paper.check_now(dt.datetime.now(dt.UTC))
    check_terms(paper.proposal, place.policy())
    typer.echo(f"INVITATION {paper.id.hex()[:12]} from {paper.card.name}, to {seat.name} ({seat.role})\n")
    typer.echo(explain_terms(paper.proposal))
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                "there is no terminal to ask for a yes: read the terms and add --yes", code="E_INVITATION"
            )
        typer.confirm(f"Do you accept these terms as {seat.name}?", abort=True)
    identity = place.own_identity(paper.consortium, seat.role, seat.name)
    agreement = place.accept(paper, seat.name)
    where = "" if home == DEFAULT_HOME else f" --home {home}"
    if seat.role in SERVER_ROLES:
        say(
            f"Accepted as {seat.name}. Next: fedvalue serve {seat.role}{where} (unless it is running already)"
        )
        return
    from fedvalue.deployment.parties.accepting import deliver

    deliver(agreement, identity, _DELIVER_SECONDS)
    say(f"Accepted as {seat.name}: all servers have your card.")
    say(f"Next: fedvalue join --table FILE --id COLUMN{where}")


def _read(path: Path) -> Invitation:
    from fedvalue.deployment.home import read_invitation
    from fedvalue.invitation.invitation import MAX_TEXT, Invitation

    if str(path) == "-":
        return Invitation.from_text(sys.stdin.read(MAX_TEXT))
    return read_invitation(path)


def _seat(invitation: Invitation, home: Home, name: str | None) -> Seat:
    """The seat that is asked for, or the one that fits the identity of this home.

    Raises:
        ConfigError: E_INVITATION: no such seat, or it is not said which.
    """
    from fedvalue.errors import ConfigError
    from fedvalue.identity.identity_files import read_card

    if name is None and (home.identity / "card.json").exists():
        name = read_card(home.identity / "card.json").name
    if name is None:
        free = ", ".join(f"{seat.name} ({seat.role})" for seat in invitation.guests)
        raise ConfigError(f"name your seat with --as; the seats are {free}", code="E_INVITATION")
    seat = invitation.seat(name)
    if seat.role == "task":
        raise ConfigError(f"{name!r} has made this invitation and need not accept it", code="E_INVITATION")
    return seat
