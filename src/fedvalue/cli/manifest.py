"""`fedvalue manifest new|sign|merge|verify|show|preview|without`: the agreement that authorises one run."""

from __future__ import annotations

import textwrap
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli.shared_options import Peers, takes
from fedvalue.cli.terms import agreed_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedvalue.agreement.manifest import Manifest
    from fedvalue.agreement.term_choices import PreviewRow, PublicSizes

File = Annotated[Path, typer.Argument(help="The manifest.")]

_WIDTH = 96
_REVEALED = (
    "Without noise, the party that chooses a label or a column chooses the question, and a column made for "
    "that purpose can reveal attributes of single persons. Two runs that differ in one person reveal "
    "something about that person. "
    "Each party counts such runs and refuses one beyond its limit ([privacy] exact_runs, 5 by default). "
    "Parties that do not trust each other should agree on an epsilon of at most 1."
)
_POPULATION = (
    "The values are those of a made-up population of this size, in which each column of a party says a "
    "little about the label; no real data was used. Weaker columns need more samples or a larger epsilon to "
    "stand out."
)


@takes("terms", agreed_terms)
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


def sign(file: File, identity: Annotated[Path, typer.Option(help="Folder of your identity.")]) -> None:
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
    file: File, others: Annotated[list[Path], typer.Argument(help="Copies that others have signed.")]
) -> None:
    """Collect the signatures of several signed copies in FILE."""
    from fedvalue.agreement.manifest_files import read_manifest, write_manifest

    signed = read_manifest(file)
    for other in others:
        signed = signed.merged(read_manifest(other))
    write_manifest(file, signed)
    typer.echo(f"missing signatures: {', '.join(signed.missing) or 'none'}", err=True)


def verify(file: File, peers: Peers = None) -> None:
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
    from fedvalue.agreement.term_choices import PublicSizes, privacy_preview
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


def preview_text(manifest: Manifest, sizes: PublicSizes, rows: Sequence[PreviewRow]) -> str:
    """What each epsilon would give, what exact values reveal, and what `paper` would cost."""
    lines = [
        f"{sizes.n_samples:,} samples, {len(sizes.parties)} data parties with {sizes.n_columns} columns of "
        f"{sizes.n_codes} codes each, {sizes.n_labels} labels",
        "",
        f"{'epsilon':>9}  {'factor':>8}  {'value of a party':>24}  shows that it is worth something",
    ]
    for row in rows:
        epsilon = "no noise" if row.epsilon is None else f"{float(row.epsilon):g}"
        factor = "no limit" if row.epsilon is None else f"{row.factor:.3g}"
        value = f"{row.value:.4f} ± {row.half_width:.4f} nats"
        lines.append(f"{epsilon:>9}  {factor:>8}  {value:>24}  {'yes' if row.is_clear else 'no'}")
    lines += ["", "factor: how much likelier a result may be with a person's data than with any other.", ""]
    paragraphs = [_advice(rows), _POPULATION, _REVEALED, *_bits(manifest, sizes)]
    if manifest.protocol == "paper":
        paragraphs.append(_tokens(manifest, sizes))
    for paragraph in paragraphs:
        lines += [*textwrap.wrap(paragraph, _WIDTH), ""]
    return "\n".join(lines).rstrip()


def _advice(rows: Sequence[PreviewRow]) -> str:
    """Advice on a run with noise at this size."""
    epsilons = [row.epsilon for row in rows if row.epsilon is not None]
    clear = [row.epsilon for row in rows if row.epsilon is not None and row.is_clear]
    if not clear:
        return (
            f"Advice: do not run with noise at this size. Even with an epsilon of {float(max(epsilons)):g}, "
            "the run could not separate a useful party from a useless one. More samples or fewer columns "
            "would help."
        )
    if min(clear) == min(epsilons):
        return "Advice: every epsilon shown here can answer at this size."
    return (
        f"Advice: with noise, agree on an epsilon of at least {float(min(clear)):g}. With the smaller ones "
        "shown here, the run could not separate a useful party from a useless one."
    )


def _bits(manifest: Manifest, sizes: PublicSizes) -> list[str]:
    """The most that a data party with a small share can learn from exact values on the agreed grid."""
    small = manifest.protocol == "mirror" and manifest.policy == "valuation" and manifest.shares == "small"
    if not small or manifest.grid is None:
        return []
    from fedvalue.agreement.run_settings import terms_of
    from fedvalue.protocol.release_grid import most_bits

    step = terms_of(manifest).share_step(sizes.n_samples) or Fraction(manifest.grid)
    bits = most_bits(step, sizes.n_labels)
    return [
        f"A data party gets multiples of {float(step):g} nats and learns at most {bits} bits from one exact "
        "run, about all persons together. The task party learns more: it gets every party's numbers, as "
        f"multiples of {manifest.grid} nats."
    ]


def _tokens(manifest: Manifest, sizes: PublicSizes) -> str:
    """The cost of a run of `paper` with these sizes, with and without the comparison of coalitions."""
    from msgspec.structs import replace

    from fedvalue.agreement.run_settings import terms_of
    from fedvalue.protocol.settings import ColumnView
    from fedvalue.protocol.tokens.queries import estimate

    n_codes = min(sizes.n_codes**sizes.n_columns, max(1, sizes.n_samples // manifest.min_rows_per_code))
    agreed = replace(terms_of(manifest), columns=ColumnView.JOINT).with_sizes(
        n_samples=sizes.n_samples,
        n_task_codes=1,
        n_label_codes=sizes.n_labels,
        n_codes=(n_codes,) * len(sizes.parties),
    )
    costs = []
    for by_coalition, name in ((True, "coalition by coalition"), (False, "grand coalition alone")):
        cost = estimate(replace(agreed, by_coalition=by_coalition))
        agreed_mark = ", as agreed" if agreed.by_coalition == by_coalition else ""
        costs.append(f"{name}{agreed_mark}: {cost.n_tokens:.3g} tokens, {cost.n_bytes / 1e9:.3g} GB")
    return f"Protocol paper with up to {n_codes} codes per party. {'; '.join(costs)}."


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


manifest = (new, sign, merge, verify, show, preview, without)
