"""`fedvalue run`: the task party starts a run and waits for the values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedvalue.cli.terminal import wrote_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    config: Annotated[Path, typer.Option(help="task.toml")],
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
    """Take part as the task party: prints the value of every data party, writes result and report.

    Interrupted, the same command continues where it was.
    """
    from fedvalue.deployment import process
    from fedvalue.deployment.config import read_party_config
    from fedvalue.deployment.parties.participate import take_part

    process.harden()
    process.reuse_memory()

    def report(stage: str, words: str) -> None:
        typer.echo(f"{stage}: {words}" if words else stage, err=True)

    settings = read_party_config(config)
    found = take_part(settings, "task", report, psk)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    if not wrote_json(found.result, json_file, "result"):
        print_table(found.result)
    for path in (settings.result, settings.report, settings.certificate):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def print_table(result: dict[str, Any]) -> None:
    """The values, one line per party. A file may be somebody else's: no text of it commands the terminal."""
    from fedvalue.untrusted_text import printable
    from fedvalue.valuation.statistics.guard import describe

    for name, rate in result.get("match_rate", {}).items():
        typer.echo(f"{rate:.1%} of the samples of {printable(name)} are common to all parties")
    if "privacy" in result:
        _print_noisy(result)
        return
    typer.echo(f"{'party':<20}{'value':>10}{'share':>8}{'learnable':>11}{'alone':>10}{'last':>10}")
    for party in sorted(result["parties"], key=lambda one: -one["value"]):
        learnable = f"{party['learnable']:.4f}" if party.get("learnable") is not None else "-"
        typer.echo(
            f"{printable(party['name']):<20}{party['value']:>10.4f}{party['share']:>8.1%}{learnable:>11}"
            f"{party['alone']:>10.4f}{party['last']:>10.4f}"
        )
    typer.echo(
        f"total {result['total']:.4f} of H(Y|X_t) = {result['label_entropy']:.4f} nats, "
        f"{result['n_samples']} samples, {printable(result['method'])}, "
        f"protocol {printable(result['protocol'])}"
    )
    for party in result["parties"]:
        for flag in party.get("flags", ()):
            typer.echo(f"{printable(party['name'])}: {printable(describe(str(flag)))}")


def _print_noisy(result: dict[str, Any]) -> None:
    from fedvalue.reports.wording import noise
    from fedvalue.untrusted_text import printable
    from fedvalue.valuation.result import PrivacyStatement

    typer.echo(f"{'party':<20}{'value':>10}{'± 95%':>10}")
    for party in sorted(result["parties"], key=lambda one: -one["value"]):
        half = party["interval"][1] - party["value"]
        typer.echo(f"{printable(party['name']):<20}{party['value']:>10.4f}{half:>10.4f}")
    typer.echo(
        f"total {result['total']:.4f} nats, {result['n_samples']} samples, {printable(result['method'])}, "
        f"protocol {printable(result['protocol'])}"
    )
    typer.echo(printable(noise(PrivacyStatement(**result["privacy"]))))
