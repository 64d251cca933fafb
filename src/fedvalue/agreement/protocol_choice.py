"""Which protocol fits a consortium, with the reason in words."""

from __future__ import annotations

from dataclasses import dataclass

GRAM_SAMPLES = 10_000
"""Least number of samples for which `gram` is recommended: decision 0320 has the errors at this size."""

GRAM_EPSILON = "1"


@dataclass(frozen=True, slots=True)
class ProtocolChoice:
    """A protocol, the epsilon that it needs (None: none), and two sentences about why."""

    protocol: str
    epsilon: str | None
    why: str


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
