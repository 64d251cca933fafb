"""`fedvalue manifest new|sign|merge|verify|show|without`: the agreement that authorises one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="The manifest.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Make, sign, check and explain the agreement for a run.", no_args_is_help=True)
    group.command("new")(new)
    group.command("sign")(sign)
    group.command("merge")(merge)
    group.command("verify")(verify)
    group.command("show")(show)
    group.command("without")(without)
    app.add_typer(group, name="manifest")


def new(
    file: File,
    cards: Annotated[Path, typer.Option(help="Folder with the cards of all participants.")],
    purpose: Annotated[str, typer.Option(help="Why the values are computed, in words.")],
    samples: Annotated[int, typer.Option(help="Number of samples that every party brings.")],
    compute: Annotated[str, typer.Option(help="host:port of the computation server.")],
    validate: Annotated[str, typer.Option(help="host:port of the validation server.")],
    protocol: Annotated[str, typer.Option(help="mirror, paper or single.")] = "mirror",
    policy: Annotated[
        str, typer.Option(help="valuation (mirror only) or counts (paper and single: always).")
    ] = "valuation",
    q: Annotated[int, typer.Option(help="Encryption ids per sample (paper).")] = 3,
    n_r: Annotated[
        str, typer.Option("--n-r", help="Adversarial samples per cell (paper): a number, or random:K.")
    ] = "1",
    harden: Annotated[bool, typer.Option(help="The additional checks of the paper protocol.")] = True,
    bins: Annotated[int, typer.Option(help="Bins of a numeric column.")] = 5,
    binning: Annotated[
        str, typer.Option(help="quantile (bins of about equal size) or width (of equal width).")
    ] = "quantile",
    label_bins: Annotated[
        int | None, typer.Option(help="Bins of a label that is an amount; as --bins when not given.")
    ] = None,
    pca: Annotated[
        int | None,
        typer.Option(help="Replace the columns of a party that has more by this many principal components."),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            help="features (learnable values use columns one by one) or joint (one code per party; the "
            "servers learn less)."
        ),
    ] = "features",
    method: Annotated[str, typer.Option(help="auto, exact or sampled.")] = "auto",
    permutations: Annotated[int, typer.Option(help="Permutations of the sampled method.")] = 5000,
    seed: Annotated[int, typer.Option(help="Public seed of the sampling.")] = 0,
    research: Annotated[bool, typer.Option(help="Lift the gates; every participant must accept it.")] = False,
    align: Annotated[str, typer.Option(help="equal or intersect.")] = "equal",
    epsilon: Annotated[
        str | None,
        typer.Option(help="Release values with noise, like 0.5 (mirror, valuation). Small protects more."),
    ] = None,
    keying_seconds: Annotated[int, typer.Option(help="Deadline of the key agreement.")] = 3600,
    upload_seconds: Annotated[int, typer.Option(help="Deadline of the uploads.")] = 3600,
    compute_seconds: Annotated[int, typer.Option(help="Deadline of the computation.")] = 3600,
    days: Annotated[int, typer.Option(help="How long the agreement is valid.")] = 7,
) -> None:
    """Draft the agreement from the participants' cards. Nobody has signed it yet."""
    from fedvalue.agreement.manifest import Deadlines
    from fedvalue.agreement.manifest_files import draft, write_manifest
    from fedvalue.errors import ConfigError
    from fedvalue.protocol.privacy import spell_epsilon
    from fedvalue.tables.coding_settings import CodingSettings
    from fedvalue.valuation.settings import ValuationSettings

    if file.exists():
        raise ConfigError(f"{file} exists and is not overwritten: name a new file")
    coding = CodingSettings(bins=bins, binning=binning, label_bins=label_bins, pca=pca)  # type: ignore[arg-type]
    settings = ValuationSettings(
        method=method,  # type: ignore[arg-type]  # checked there
        n_permutations=permutations,
        seed=seed,
        columns=columns,  # type: ignore[arg-type]
        coding=coding,
    )
    signed = draft(
        cards,
        {"compute": compute, "validate": validate},
        days=days,
        purpose=purpose,
        n_samples=samples,
        protocol=protocol,
        policy=policy,
        q=q,
        n_r=int(n_r) if n_r.isdecimal() else n_r,
        harden=harden,
        settings=settings,
        research=research,
        min_samples=1 if research else 100,
        min_rows_per_code=1 if research else 5,
        min_cell=1 if research else 10,
        align=align,
        epsilon=None if epsilon is None else spell_epsilon(epsilon),
        deadlines=Deadlines(keying=keying_seconds, upload=upload_seconds, compute=compute_seconds),
    )
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

    from fedvalue._version import __version__
    from fedvalue.agreement.manifest_files import read_manifest
    from fedvalue.agreement.manifest_rules import check_pins
    from fedvalue.identity.identity_files import read_cards

    signed = read_manifest(file)
    manifest = signed.verify(now=dt.datetime.now(dt.UTC), code_version=__version__)
    if peers is not None:
        check_pins(manifest, read_cards(peers))
    typer.echo(f"run id  {signed.run_id.hex()}")
    typer.echo(f"signed by all {len(manifest.participants)} participants", err=True)


def show(file: File) -> None:
    """Explain the agreement in words."""
    from fedvalue.agreement.explanation import explain
    from fedvalue.agreement.manifest_files import read_manifest

    typer.echo(explain(read_manifest(file)))


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
