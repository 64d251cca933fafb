"""What `fedvalue run` and `fedvalue join` share: take part, then show and write the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli.terminal import say, show_valuation, wrote_json
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from fedvalue.deployment.config import PartyConfig

PresharedKey = Annotated[
    Path | None,
    typer.Option(
        "--psk",
        help="For tests and air-gapped use: a file (0600) of 32 bytes that all parties share, instead of "
        "the key agreement. No forward secrecy.",
    ),
]
JsonFile = Annotated[
    str | None,
    typer.Option("--json", help="Write the result as JSON; - prints only that.", metavar="FILE|-"),
]


def take_part_and_show(config: Path, role: str, psk: Path | None, json_file: str | None) -> PartyConfig:
    """Take part in the run of a configuration file and print the result."""
    from fedvalue.deployment import process
    from fedvalue.deployment.config import read_party_config
    from fedvalue.deployment.parties.party_process import take_part

    process.harden()
    process.reuse_memory()
    settings = read_party_config(config)
    valuation = take_part(settings, role, _report, psk)
    if valuation is None:
        say("The run has ended well. Under policy 'counts' only the task party sees the result.")
    elif not wrote_json(valuation.to_dict(), json_file, "result"):
        for name, rate in valuation.details.get("match_rates", {}).items():
            typer.echo(f"{rate:.1%} of the samples of {name} are common to all parties")
        # A data party sees its own share alone; whom to invite is the task party's decision.
        show_valuation(valuation, own=valuation.parties[0].name if role == "data" else None)
    return settings


def _report(stage: str, words: str) -> None:
    say(printable(f"{stage}: {words}" if words else stage))
