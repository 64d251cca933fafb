"""The text of `fedvalue manifest preview`."""

from __future__ import annotations

import textwrap
from fractions import Fraction
from typing import TYPE_CHECKING

from fedvalue.protocol.release_grid import most_bits
from fedvalue.protocol.tokens.queries import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedvalue.agreement.manifest import Manifest
    from fedvalue.agreement.privacy_preview import PreviewRow, PublicSizes

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
    """Whether a run with noise can answer at this size."""
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

    n_codes = min(sizes.n_codes**sizes.n_columns, max(1, sizes.n_samples // manifest.min_rows_per_code))
    agreed = replace(terms_of(manifest), columns=ColumnView.JOINT).with_sizes(
        n_samples=sizes.n_samples,
        n_task_codes=1,
        n_label_codes=sizes.n_labels,
        n_codes=(n_codes,) * len(sizes.parties),
    )
    words = []
    for by_coalition, name in ((True, "coalition by coalition"), (False, "grand coalition alone")):
        cost = estimate(replace(agreed, by_coalition=by_coalition))
        agreed_mark = ", as agreed" if agreed.by_coalition == by_coalition else ""
        words.append(f"{name}{agreed_mark}: {cost.n_tokens:.3g} tokens, {cost.n_bytes / 1e9:.3g} GB")
    return f"Protocol paper with up to {n_codes} codes per party. {'; '.join(words)}."
