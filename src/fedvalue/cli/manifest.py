"""`fedvalue manifest new|sign|merge|verify|show|preview|without`: the agreement that authorises one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedvalue.cli.shared_options import add_group, takes
from fedvalue.cli.terms import agreed_terms

File = Annotated[Path, typer.Argument(help="The manifest.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(
        app,
        "manifest",
        "Make, sign, check and explain the agreement for a run.",
        takes("terms", agreed_terms, new),
        sign,
        merge,
        verify,
        show,
        preview,
        without,
    )


def new(
    file: File,
    cards: Annotated[Path, typer.Option(help="Folder with the cards of all participants.")],
    terms: dict[str, Any],
) -> None:
    """Draft the agreement from the participants' cards. Nobody has signed it yet."""
    from fedvalue.agreement.manifest_files import draft, write_manifest
    from fedvalue.errors import ConfigError
    from fedvalue.identity.identity_files import read_cards

    if file.exists():
        raise ConfigError(f"{file} exists and is not overwritten: name a new file")
    # A third operator takes no part where the terms do not name its server.
    roles = ("task", "data", *terms["endpoints"])
    signed = draft([card for card in read_cards(cards).values() if card.role in roles], **terms)
    write_manifest(file, signed)
    typer.echo(f"run id  {signed.run_id.hex()}")
    typer.echo(f"Every participant reads it (`fedvalue manifest show {file}`) and signs it.", err=True)


def sign(
    file: File,
    identity: Annotated[Path, typer.Option(help="Folder of your identity.")],
) -> None:
    """Add your signature to the file."""
    from fedvalue.agreement.manifest_files import read_manifest, write_manifest
    from fedvalue.deployment.process import harden
    from fedvalue.identity.identity_files import read_identity

    harden()
    signed = read_manifest(file).signed_by(read_identity(identity))
    write_manifest(file, signed)
    typer.echo(f"run id  {signed.run_id.hex()}")
    typer.echo(f"missing signatures: {', '.join(signed.missing) or 'none'}", err=True)


def merge(
    file: File,
    others: Annotated[list[Path], typer.Argument(help="Copies that others have signed.")],
) -> None:
    """Collect the signatures of several signed copies in FILE."""
    from fedvalue.agreement.manifest_files import read_manifest, write_manifest

    signed = read_manifest(file)
    for other in others:
        signed = signed.merged(read_manifest(other))
    write_manifest(file, signed)
    typer.echo(f"missing signatures: {', '.join(signed.missing) or 'none'}", err=True)


def verify(
    file: File,
    peers: Annotated[Path | None, typer.Option(help="Folder of pinned cards to compare with.")] = None,
) -> None:
    """Check signatures, validity and, with --peers, that the keys are those of the pinned cards."""
    import datetime as dt

    from fedvalue.agreement.manifest_files import read_manifest
    from fedvalue.agreement.manifest_rules import check_pins
    from fedvalue.identity.identity_files import read_cards

    signed = read_manifest(file)
    manifest = signed.verify(now=dt.datetime.now(dt.UTC))
    if peers is not None:
        check_pins(manifest, read_cards(peers))
    typer.echo(f"run id  {signed.run_id.hex()}")
    typer.echo(f"signed by all {len(manifest.participants)} participants", err=True)


def show(file: File) -> None:
    """Explain the agreement in words."""
    from fedvalue.agreement.explanation import explain
    from fedvalue.agreement.manifest_files import read_manifest

    typer.echo(explain(read_manifest(file)))


def preview(
    file: File,
    columns: Annotated[int, typer.Option(min=1, help="Columns of each data party.")] = 4,
    codes: Annotated[
        int | None, typer.Option(min=2, help="Codes of each column; the agreement's bins by default.")
    ] = None,
    labels: Annotated[int, typer.Option(min=2, help="Number of labels.")] = 2,
) -> None:
    """Show, before anyone signs, what noise would cost and what exact values reveal."""
    from fedvalue.agreement.manifest_files import read_manifest
    from fedvalue.agreement.privacy_preview import PublicSizes, privacy_preview
    from fedvalue.cli.preview_text import preview_text
    from fedvalue.protocol.privacy import GRAM_SHARES

    manifest = read_manifest(file).manifest
    sizes = PublicSizes(
        n_samples=manifest.n_samples,
        parties=tuple(party.name for party in manifest.data),
        n_columns=columns,
        n_codes=codes or manifest.settings.coding.bins,
        n_labels=labels,
    )
    rows = privacy_preview(sizes, GRAM_SHARES if manifest.protocol == "gram" else 1)
    typer.echo(preview_text(manifest, sizes, rows))


def without(
    file: File,
    party: Annotated[str, typer.Argument(help="The data party to leave out.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The new, unsigned manifest.")],
) -> None:
    """Draft the same run without one data party, after it missed a deadline."""
    import datetime as dt
    import secrets

    from fedvalue.agreement.manifest import SignedManifest
    from fedvalue.agreement.manifest_files import read_manifest, write_manifest

    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    rest = read_manifest(file).manifest.without(party, nonce=secrets.token_bytes(16), created=now)
    write_manifest(output, SignedManifest(rest))
    typer.echo(f"run id  {rest.run_id.hex()}")
