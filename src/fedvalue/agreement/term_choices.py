"""Help with choosing terms before anybody signs: protocol, bins, and what an epsilon costs in precision.

The preview of an epsilon needs public sizes alone. The estimator of a run with noise is applied to a made-up
population of the agreed size, with the noise that each epsilon needs. Every column carries a little
information about the label, independently of the others. No real data is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.pair_tables import PairLayout, PairTables, pair_layout
from fedvalue.protocol.privacy import Privacy

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

GRAM_SAMPLES = 10_000
"""Least number of samples for which `gram` is recommended: decision 0320 has the errors at this size."""

GRAM_EPSILON = "1"

BINS = 5
"""Bins of a number where rows are counted together, and of a label that is an amount."""

PAIR_BINS = 10
"""Bins of a number where values come from tables of pairs of `GRAM_SAMPLES` samples or more (0320)."""


@dataclass(frozen=True, slots=True)
class ProtocolChoice:
    """A protocol, the epsilon that it needs, if any, and the reason in two sentences."""

    protocol: str
    epsilon: str | None
    why: str


def chosen_bins(n_samples: int, *, pair_tables: bool) -> int:
    """Bins of a number.

    Args:
        n_samples: Number of samples.
        pair_tables: Values come from tables of pairs, with noise or without: then more bins cost a coalition
            nothing, and five are too coarse for a number whose middle range matters most.
    """
    return PAIR_BINS if pair_tables and n_samples >= GRAM_SAMPLES else BINS


def chosen_protocol(n_samples: int, *, third_operator: bool, needs_counts: bool = False) -> ProtocolChoice:
    """The protocol to recommend.

    Args:
        n_samples: Number of samples.
        third_operator: Three independent operators run servers.
        needs_counts: The terms ask for something that pair tables with noise cannot give: exact counts, or
            an acceptance test.
    """
    if not third_operator:
        return ProtocolChoice(
            "mirror",
            None,
            "Protocol mirror, because there are two operators: each server sees every row under secret "
            "names, and a single cheating server is detected. With a third operator (--assist) and at least "
            f"{GRAM_SAMPLES:,} samples gram would keep every row from the servers.",
        )
    if needs_counts:
        return ProtocolChoice(
            "mirror",
            None,
            "Protocol mirror, because these terms need exact counts, and gram releases counts of pairs with "
            "noise. The third server takes no part.",
        )
    if n_samples < GRAM_SAMPLES:
        return ProtocolChoice(
            "mirror",
            None,
            f"Protocol mirror, because {n_samples:,} samples are too few: below {GRAM_SAMPLES:,} the noise "
            "that gram needs hides most values. Each of two servers sees every row under secret names, and "
            "the third takes no part.",
        )
    return ProtocolChoice(
        "gram",
        GRAM_EPSILON,
        "Protocol gram, because three operators are available: no server sees a row, even with a party on "
        f"its side. {n_samples:,} samples are enough for useful values with its noise (epsilon "
        f"{GRAM_EPSILON} unless --epsilon says otherwise).",
    )


EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3))
_TILT = 0.8
"""A label makes the codes that go with it 1.8 times as likely: 0.03 nats per column of five codes."""


@dataclass(frozen=True, slots=True)
class PublicSizes:
    """Sizes of a run's tables that are known in advance.

    Args:
        n_samples: Number of samples.
        parties: Names of the data parties.
        n_columns: Columns of each data party.
        n_codes: Codes of each column: bins, or categories.
        n_labels: Number of labels.

    Raises:
        InputError: A size below its least value.
    """

    n_samples: int
    parties: tuple[str, ...]
    n_columns: int = 4
    n_codes: int = 5
    n_labels: int = 2

    def __post_init__(self) -> None:
        for name, least in (("n_samples", 1), ("n_columns", 1), ("n_codes", 2), ("n_labels", 2)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}")

    @property
    def layout(self) -> PairLayout:
        """The tables that noise is added to."""
        sizes = [[self.n_codes] * self.n_columns] * len(self.parties)
        return pair_layout(self.parties, sizes, self.n_labels)


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """The precision under one epsilon, or without noise (`epsilon` None).

    Args:
        epsilon: As agreed.
        factor: Bound on how much likelier a result is with a person's data than with any other in its place.
        value: Mean learnable value of a party of the made-up population, in nats.
        half_width: Half of the width of its 95% interval, in nats.
    """

    epsilon: Fraction | None
    factor: float
    value: float
    half_width: float

    @property
    def is_clear(self) -> bool:
        """The interval shows that the party is worth something."""
        return self.value > self.half_width


def privacy_preview(sizes: PublicSizes, shares: int = 1) -> list[PreviewRow]:
    """One row without noise, then one per epsilon of `EPSILONS`, the strongest protection last.

    Args:
        sizes: Public sizes of the run.
        shares: Number of times that the protocol draws the noise (`Privacy.shares`).

    Raises:
        InputError: More columns than a run with noise can have (E_BUDGET).
    """
    from fedvalue.valuation.low_order.low_order_valuation import value_tables

    exact = _made_up(sizes)
    rows = [_row(None, math.inf, value_tables(exact))]
    for epsilon in reversed(EPSILONS):
        privacy = Privacy(epsilon, sizes.n_samples, exact.layout.n_columns, shares)
        row = _row(epsilon, math.exp(epsilon), value_tables(_with_noise(exact, privacy)))
        # One draw of little noise may look a trifle surer than none.
        rows.append(replace(row, half_width=max(row.half_width, rows[-1].half_width)))
    return rows


def _made_up(sizes: PublicSizes) -> PairTables:
    """Expected counts: label y makes the codes c with c = y modulo the number of labels likelier."""
    layout, labels = sizes.layout, np.arange(sizes.n_labels)
    goes_with = np.arange(sizes.n_codes)[:, None] % sizes.n_labels == labels
    likelihood = np.where(goes_with, 1.0 + _TILT, 1.0)
    likelihood /= likelihood.sum(axis=0)
    per_label = sizes.n_samples / sizes.n_labels
    with_label, pair = likelihood * per_label, likelihood @ likelihood.T * per_label
    tables = [with_label] * layout.n_columns + [pair] * len(layout.pairs)
    cells = np.rint(np.concatenate([table.ravel() for table in tables])).astype(np.int64)
    return PairTables(layout, cells, sizes.n_samples)


def _with_noise(exact: PairTables, privacy: Privacy) -> PairTables:
    layout = exact.layout
    label, pair = privacy.total(privacy.label_variance), privacy.total(privacy.pair_variance)
    spread = np.full(layout.n_cells, math.sqrt(pair))
    spread[: layout.n_label_cells] = math.sqrt(label)
    # A rehearsal: no secret depends on this noise, so that a seed may draw it.
    drawn = np.random.default_rng(0).normal(size=layout.n_cells) * spread
    return exact.with_noise(np.rint(drawn).astype(np.int64), label, pair)


def _row(epsilon: Fraction | None, factor: float, valuation: Valuation) -> PreviewRow:
    values = [party.learnable or 0.0 for party in valuation.parties]
    ends = [party.learnable_interval or (0.0, 0.0) for party in valuation.parties]
    half = [(high - low) / 2 for low, high in ends]
    return PreviewRow(epsilon, factor, float(np.mean(values)), float(np.mean(half)))
