"""`fedvalue invite`: the task party drafts the terms and invites everybody to them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder, takes
from fedvalue.cli.terms import agreed_terms


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("invite")(takes("terms", agreed_terms, invite))


def invite(
    name: Annotated[str, typer.Option("--as", help="Your name, as the task party.")],
    party: Annotated[list[str], typer.Option(help="Name of a data party. Repeat for each party.")],
    terms: dict[str, Any],
    consortium: Annotated[
        str | None,
        typer.Option(help="Name of the group; your own name by default.", show_default=False),
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

    It makes your identity if there is none. Send the invitation to everybody
    over a channel that strangers do not read: anyone who reads it can take a
    free seat. Then start `fedvalue run`.
    """
    import secrets

    from fedvalue.agreement.explanation import explain_terms
    from fedvalue.agreement.manifest_files import draft
    from fedvalue.cli.terminal import say
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.process import harden
    from fedvalue.errors import ConfigError
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
    stand_ins = [create_identity(group, role, one).card for one, role in seats.items() if role != "task"]
    draft([create_identity(group, "task", name).card, *stand_ins], **terms)  # nothing is made of wrong terms
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
