"""`fedvalue audit verify|show|certificate|card|export|ledger`: logs, certificates, ledgers, read offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Check audit logs, certificates and identity cards offline.", no_args_is_help=True
    )
    group.command("verify")(verify)
    group.command("show")(show)
    group.command("certificate")(certificate)
    group.command("card")(card)
    group.command("export")(export)
    group.command("ledger")(ledger)
    app.add_typer(group, name="audit")


def verify(
    log: Annotated[Path, typer.Argument(help="An audit log, *.jsonl.")],
    card_: Annotated[Path, typer.Option("--card", help="The card of the log's writer.")],
    receipts: Annotated[
        list[Path] | None,
        typer.Option(help="Receipts that the writer gave away, *.jsonl. Repeat for each file."),
    ] = None,
) -> None:
    """Check that a log is unbroken, signed by its writer, and agrees with the receipts of others."""
    from fedvalue.identity.audit_log import Receipt, check_receipts, read_log
    from fedvalue.identity.identity_files import read_card

    key = read_card(card_).sign_key
    entries = read_log(_lines(log), key)
    typer.echo(f"{len(entries)} entries, unbroken")
    if receipts:
        lines = [line for file in receipts for line in _lines(file)]
        compared = check_receipts(entries, [Receipt.from_line(line) for line in lines], key)
        typer.echo(f"{compared} receipts agree")


def show(log: Annotated[Path, typer.Argument(help="An audit log, *.jsonl.")]) -> None:
    """Print a log for people. Nothing is checked."""
    from fedvalue.errors import ConfigError
    from fedvalue.identity.audit_log import read_line
    from fedvalue.untrusted_text import printable

    for number, line in enumerate(_lines(log)):
        try:
            entry = read_line(line).entry
        except ConfigError:
            raise ConfigError(f"{log}: line {number + 1} is not a log entry", code="E_AUDIT") from None
        when = f"{entry.seq:>5}  {entry.time}  {entry.actor:<12}"
        typer.echo(printable(f"{when} {entry.event:<24} {entry.digest[:16]}"))


def certificate(
    file: Annotated[Path, typer.Argument(help="A valuation certificate.")],
    peers: Annotated[Path | None, typer.Option(help="Folder of pinned cards to compare with.")] = None,
) -> None:
    """Check a valuation certificate: all signatures, both servers' results, the values."""
    from fedvalue.agreement.manifest_rules import check_pins
    from fedvalue.cli.terminal import show_valuation
    from fedvalue.deployment.certificate_check import check_certificate
    from fedvalue.deployment.valuation_certificate import read_certificate
    from fedvalue.identity.identity_files import read_cards

    shown = read_certificate(file)
    checked = check_certificate(shown)
    manifest = shown.manifest.manifest
    if peers is not None:
        check_pins(manifest, read_cards(peers))
    for sentence in checked.proved:
        typer.echo(f"ok  {sentence}", err=True)
    for sentence in checked.unproved:
        typer.echo(f"NOT CHECKED  {sentence}", err=True)
    if peers is not None:
        typer.echo("ok  all keys are the ones on the pinned cards", err=True)
    else:
        _print_fingerprints(manifest)
    show_valuation(shown.result)


def _print_fingerprints(manifest: Manifest) -> None:
    """For the reader to compare: anybody can make a file with keys of their own."""
    typer.echo("NOT CHECKED  whose keys these are (no --peers): compare the fingerprints", err=True)
    for one in manifest.participants:
        card = manifest.card_of(one)
        typer.echo(f"    {card.uri}  {card.fingerprint}", err=True)


def card(file: Annotated[Path, typer.Argument(help="An identity card.")]) -> None:
    """Print whose card it is, until when, and its fingerprint, to compare over another channel."""
    from fedvalue.identity.identity_files import read_card
    from fedvalue.identity.tls_certificates import validity

    one = read_card(file)
    typer.echo(f"identity     {one.uri}")
    typer.echo(f"valid until  {validity(one.certificate)[1]:%Y-%m-%d %H:%M} UTC")
    typer.echo(f"fingerprint  {one.fingerprint}")


def export(
    state: Annotated[Path, typer.Argument(help="State folder of a server.")],
    run_id: Annotated[str, typer.Argument(help="The run, hex.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the log goes.")],
) -> None:
    """Write a server's audit log of one run to a file."""
    from fedvalue.deployment.servers.server_store import read_audit
    from fedvalue.errors import InputError
    from fedvalue.storage.durable_files import write_durably

    try:
        run = bytes.fromhex(run_id)
    except ValueError:
        raise InputError(f"a run id is hex, got {run_id!r}") from None
    lines = read_audit(state, run)
    write_durably(output, "".join(line + "\n" for line in lines).encode(), mode=0o644)
    typer.echo(f"{len(lines)} entries", err=True)


def ledger(state: Annotated[Path, typer.Argument(help="State folder of a party.")]) -> None:
    """Print what runs with noise have spent: run, epsilon, time, and which population."""
    from fedvalue.deployment.parties.ledger import Ledger
    from fedvalue.errors import ConfigError

    if not (state / "ledger.sqlite").exists():
        raise ConfigError(f"no ledger in {state}: no run with noise was made from here")
    found = Ledger(state)
    try:
        typer.echo(f"{'run':<64}  {'epsilon':>8}  {'charged':<20}  population")
        for entry in found.entries():
            population = entry.population.hex()[:12]
            typer.echo(f"{entry.run_id.hex()}  {float(entry.epsilon):>8g}  {entry.time}  {population}")
    finally:
        found.close()


def _lines(path: Path) -> list[str]:
    from fedvalue.errors import ConfigError

    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", code="E_AUDIT") from None
