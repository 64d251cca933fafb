"""`fedvalue init`, `invite` and `accept`: an identity, the terms, and everybody's seat under them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder, takes
from fedvalue.cli.terminal import say
from fedvalue.cli.terms import agreed_terms
from fedvalue.errors import ConfigError

if TYPE_CHECKING:
    from fedvalue.deployment.home import Home
    from fedvalue.invitation.invitation import Invitation, Seat

_DELIVER_SECONDS = 60.0
"""How long to wait for the servers before asking the user to come back later."""


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to create, e.g. identity.")],
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
    from fedvalue.identity.tls_certificates import MAX_DAYS

    if not 1 <= days <= MAX_DAYS:
        raise ConfigError(f"--days must be from 1 to {MAX_DAYS}, got {days}", code="E_IDENTITY")
    harden()
    identity = create_identity(consortium, role, name, valid_days=days)
    save_identity(identity, folder)
    typer.echo(f"card         {folder / CARD}")
    typer.echo(f"identity     {identity.card.uri}")
    typer.echo(f"fingerprint  {identity.card.fingerprint}")
    say(
        "Send the card to every other participant. Read the fingerprint to them over another channel; "
        "they compare it with `fedvalue audit card`."
    )


@takes("terms", agreed_terms)
def invite(
    name: Annotated[str, typer.Option("--as", help="Your name, as the task party.")],
    party: Annotated[list[str], typer.Option(help="Name of a data party. Repeat for each party.")],
    terms: dict[str, Any],
    consortium: Annotated[
        str | None, typer.Option(help="Name of the group; your own name by default.", show_default=False)
    ] = None,
    compute_name: Annotated[str, typer.Option(help="Name of the computation server.")] = "compute",
    validate_name: Annotated[str, typer.Option(help="Name of the validation server.")] = "validate",
    assist_name: Annotated[
        str, typer.Option(help="Name of the assisting server, if there is one (--assist).")
    ] = "assist",
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write the invitation to.")] = Path(
        "invitation.txt"
    ),
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """Draft the terms and make one invitation for all data parties and operators.

    It makes your identity if there is none. Send the invitation to everybody over a private channel: anyone
    who reads it can take a free seat. Then start `fedvalue run`.
    """
    import secrets

    from fedvalue.agreement.explanation import explain_terms
    from fedvalue.agreement.manifest_files import draft
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.process import harden
    from fedvalue.identity.cards import create_identity
    from fedvalue.invitation.invitation import make_invitation
    from fedvalue.storage.durable_files import write_durably

    if output.exists():
        raise ConfigError(f"{output} exists and is not overwritten: name a new file with -o")
    harden()
    place = Home(home)
    group = consortium or place.consortium or name
    server_names = {"compute": compute_name, "validate": validate_name, "assist": assist_name}
    servers = {server_names[role]: role for role in terms["endpoints"]}
    seats = {name: "task", **servers, **dict.fromkeys(party, "data")}
    if len(seats) != 1 + len(terms["endpoints"]) + len(party):
        raise ConfigError("two participants have the same name", code="E_INVITATION")
    stand_ins = [create_identity(group, role, seat).card for seat, role in seats.items() if role != "task"]
    draft([create_identity(group, "task", name).card, *stand_ins], **terms)  # refuses wrong terms first
    identity = place.own_identity(group, "task", name)
    proposal = draft([identity.card, *stand_ins], **terms).manifest
    invitation = make_invitation(identity, proposal, secrets.token_bytes(32))
    place.accept(invitation, name)
    write_durably(output, invitation.to_text().encode())
    typer.echo(explain_terms(proposal))
    guests = ", ".join(seat.name for seat in invitation.guests)
    say(f"wrote {output}, valid until {proposal.expires:%Y-%m-%d %H:%M} UTC")
    say(f"Send it to {guests} like a password. Each runs: fedvalue accept {output.name} --as NAME")
    say("You start: fedvalue run --table FILE --id COLUMN --label COLUMN")


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

    It makes your identity if there is none, explains the terms, checks them against your limits (accept.toml
    in the home folder) and asks for your consent. You sign once everybody has accepted: a data party
    continues with `fedvalue join`, an operator with `fedvalue serve`.
    """
    import datetime as dt

    from fedvalue.agreement.explanation import explain_terms
    from fedvalue.agreement.manifest_rules import check_terms
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.process import harden
    from fedvalue.identity.tls_certificates import SERVER_ROLES

    harden()
    place = Home(home)
    paper = _read(invitation)
    seat = _seat(paper, place, name)
    if seat.role in SERVER_ROLES and place.seat_in(paper) == seat.name:
        # A container gets here at every restart, even after the expiry.
        say(f"Accepted before as {seat.name}.")
        return
    paper.check_now(dt.datetime.now(dt.UTC))
    check_terms(paper.proposal, place.policy())
    typer.echo(f"INVITATION {paper.id.hex()[:12]} from {paper.card.name}, to {seat.name} ({seat.role})\n")
    typer.echo(explain_terms(paper.proposal))
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                "no terminal to ask for consent: read the terms, then add --yes", code="E_INVITATION"
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

    deliver(agreement, identity, _DELIVER_SECONDS, lambda stage, words: say(f"{stage}: {words}"))
    say(f"Accepted as {seat.name}: all servers have your card.")
    say(f"Next: fedvalue join --table FILE --id COLUMN{where}")


def _read(path: Path) -> Invitation:
    from fedvalue.deployment.home import read_invitation
    from fedvalue.invitation.invitation import MAX_TEXT, Invitation

    if str(path) == "-":
        return Invitation.from_text(sys.stdin.read(MAX_TEXT))
    return read_invitation(path)


def _seat(invitation: Invitation, home: Home, name: str | None) -> Seat:
    """The named seat, or the one of the identity in this home."""
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
