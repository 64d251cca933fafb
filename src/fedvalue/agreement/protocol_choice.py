"""Which protocol and how many bins fit a consortium, the protocol with the reason in words."""

from __future__ import annotations

from dataclasses import dataclass

GRAM_SAMPLES = 10_000
"""Least number of samples for which `gram` is recommended: decision 0320 has the errors at this size."""

GRAM_EPSILON = "1"

BINS = 5
"""Bins of a number where rows are counted together, and of a label that is an amount."""

PAIR_BINS = 10
"""Bins of a number where values come from tables of pairs of `GRAM_SAMPLES` samples or more (0320)."""


@dataclass(frozen=True, slots=True)
class ProtocolChoice:
    """A protocol, the epsilon that it needs (None: none), and two sentences about why."""

    protocol: str
    epsilon: str | None
    why: str


def chosen_bins(n_samples: int, *, pair_tables: bool) -> int:
    """Bins of a number.

    Args:
        n_samples: Number of samples.
        pair_tables: Whether values come from tables of pairs, with noise or without: then more bins cost a
            coalition nothing, and five are too coarse for a number that says most in between.
    """
    return PAIR_BINS if pair_tables and n_samples >= GRAM_SAMPLES else BINS


def chosen_protocol(n_samples: int, *, third_operator: bool, needs_counts: bool = False) -> ProtocolChoice:
    """The protocol to recommend.

    Args:
        n_samples: Number of samples.
        third_operator: Whether three independent operators run servers.
        needs_counts: Whether the terms ask for what pair tables with noise cannot give: exact counts, or
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
