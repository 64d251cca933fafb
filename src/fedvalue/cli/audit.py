"""`fedvalue audit`: check and show logs, certificates and ledgers offline."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder, Peers


def verify(
    file: Annotated[Path, typer.Argument(help="An audit log (*.jsonl) or a certificate.")],
    card_: Annotated[Path | None, typer.Option("--card", help="For a log: the card of its writer.")] = None,
    receipts: Annotated[
        list[Path] | None,
        typer.Option(help="For a log: receipts from its writer, *.jsonl. Repeat for each file."),
    ] = None,
    peers: Peers = None,
) -> None:
    """Check an audit log or a certificate, with its statement and time stamp, and print the findings.

    A log must be unbroken, signed by its writer, and agree with the receipts of others.
    """
    from fedvalue.cli.terminal import print_line, say, show_valuation
    from fedvalue.deployment.evidence import certificate_page, is_log, log_page
    from fedvalue.errors import ConfigError
    from fedvalue.identity.audit_log import Receipt
    from fedvalue.identity.identity_files import read_card, read_cards

    lines = _lines(file)
    if not is_log("\n".join(lines).encode()) and card_ is None:
        if not lines or not lines[0].lstrip().startswith("{"):
            raise ConfigError(
                f"{file} is neither an audit log (*.jsonl) nor a certificate", code="E_CERTIFICATE"
            )
        page, checked = certificate_page(file, None if peers is None else read_cards(peers))
        for line in page:
            say(line)
        show_valuation(checked.result)
        return
    if card_ is None:
        raise ConfigError("checking a log needs the card of its writer: --card CARD.json")
    kept = [Receipt.from_line(line) for path in receipts or () for line in _lines(path)]
    for line in log_page(file, read_card(card_), kept):
        print_line(line)


def sign(
    file: Annotated[Path, typer.Argument(help="A certificate or your audit log.")],
    identity: Annotated[
        Path | None, typer.Option(help="Folder of your identity, instead of --home.", show_default=False)
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """Check a certificate or a log, and sign an in-toto statement about it for tools other than FedValue.

    The statement is kept beside the file, as FILE.intoto.json; signatures of others that are there stay.
    """
    from fedvalue.cli.terminal import say
    from fedvalue.deployment.evidence import add_signature
    from fedvalue.deployment.process import harden
    from fedvalue.identity.identity_files import read_identity

    harden()
    target, signers = add_signature(file, read_identity(identity or home / "identity"))
    say(f"{target}: signed by {', '.join(signers)}")


def timestamp(
    file: Annotated[Path, typer.Argument(help="A certificate, a log or a statement.")],
    url: Annotated[str, typer.Option(help="Address of a time stamp authority (RFC 3161).")],
) -> None:
    """Ask an authority to state that a file exists now; only the file's hash is sent. Kept as FILE.tsr."""
    from fedvalue.cli.terminal import say
    from fedvalue.deployment.evidence import STAMP
    from fedvalue.identity.timestamps import ask, time_stamped
    from fedvalue.storage.durable_files import PUBLIC, write_durably

    content = file.read_bytes()
    target = file.with_name(file.name + STAMP)
    reply = ask(content, url)
    write_durably(target, reply, mode=PUBLIC)
    say(f"{target}: {time_stamped(content, reply):%Y-%m-%d %H:%M:%S} UTC")


def show(log: Annotated[Path, typer.Argument(help="An audit log, *.jsonl.")]) -> None:
    """Print a log in readable form. Nothing is checked."""
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


def card(
    file: Annotated[Path, typer.Argument(help="An identity card.")],
    pem: Annotated[bool, typer.Option("--pem", help="Print the public signing key for other tools.")] = False,
) -> None:
    """Print the owner, the expiry and the fingerprint of a card, to compare over another channel."""
    from fedvalue.identity.dsse import public_pem
    from fedvalue.identity.identity_files import read_card
    from fedvalue.identity.tls_certificates import validity

    identity = read_card(file)
    if pem:
        typer.echo(public_pem(identity.sign_key), nl=False)
        return
    typer.echo(f"identity     {identity.uri}")
    typer.echo(f"valid until  {validity(identity.certificate)[1]:%Y-%m-%d %H:%M} UTC")
    typer.echo(f"fingerprint  {identity.fingerprint}")


def export(
    state: Annotated[Path, typer.Argument(help="State folder of a server.")],
    run_id: Annotated[str, typer.Argument(help="The run, hex.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write the log to.")],
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
    typer.echo(f"{len(lines)} {'entry' if len(lines) == 1 else 'entries'}", err=True)


def ledger(state: Annotated[Path, typer.Argument(help="State folder of a party.")]) -> None:
    """Print all charged runs, exact or with noise: run, epsilon, time and population."""
    from fedvalue.deployment.parties.ledger import Ledger
    from fedvalue.errors import ConfigError

    if not (state / "ledger.sqlite").exists():
        raise ConfigError(f"no ledger in {state}: no run has uploaded anything from here")
    with closing(Ledger(state)) as charges:
        typer.echo(f"{'run':<64}  {'epsilon':>8}  {'charged':<20}  population")
        for entry in charges.entries():
            population = entry.population.hex()[:12]
            epsilon = "exact" if entry.epsilon is None else f"{float(entry.epsilon):g}"
            typer.echo(f"{entry.run_id.hex()}  {epsilon:>8}  {entry.time}  {population}")


def _lines(path: Path) -> list[str]:
    from fedvalue.errors import ConfigError

    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ConfigError(f"cannot read {path}: {reason}", code="E_AUDIT") from None


audit = (verify, sign, timestamp, show, card, export, ledger)
