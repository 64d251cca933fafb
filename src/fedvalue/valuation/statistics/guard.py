"""The gaming guard: parties whose value looks memorised rather than earned.

A flag is a short stable name on the result; what it means is in `MEANINGS`, one sentence each, for the
terminal and the report. It is a reason to look, not a verdict: the numbers cannot tell this party's
data from row numbers or noise at this sample size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.valuation.result import PartyValue

MEMORISED = "memorised"
NEAR_UNIQUE = "near_unique"
SPARSE_CODES = "sparse_codes"
NO_SIGNAL = "no_signal"

MEANINGS = {
    MEMORISED: "Most of this value is memorised: less than a quarter of it can be learned from the samples.",
    NEAR_UNIQUE: "Its codes come close to one per sample, as row numbers would.",
    SPARSE_CODES: "It has fewer than five samples per code on average, too few to learn from.",
    NO_SIGNAL: "Nothing above noise could be learned from it at this sample size.",
}
"""What each flag means, in one sentence."""

LEARNABLE_PART = 0.25
"""Below this part of the value the value counts as memorised."""

NOTICEABLE_SHARE = 0.05
"""A value below this share of the total is too small to be worth a warning about memorising."""

NEAR_UNIQUE_PART = 0.5
"""Codes per sample from which codes count as nearly unique."""

SAMPLES_PER_CODE = 5.0
"""The usual rule of thumb for expected cell counts (Cochran, 1954)."""

NOISE_LEVEL = 1.0
"""Nats times samples below which a learnable value is noise: a useless party's leave-one-out gain in
one cell is about (chi-square with 1 degree of freedom - 2) / 2n, so lucky ones are of the order 1/n."""


def flags(party: PartyValue, n_samples: int) -> tuple[str, ...]:
    """The flags of a party whose value and learnable value are known.

    Args:
        party: The party; without a learnable value only its codes are looked at.
        n_samples: Number of samples of the valuation.
    """
    found = []
    n_codes = party.n_codes or 0
    if n_codes > NEAR_UNIQUE_PART * n_samples:
        found.append(NEAR_UNIQUE)
    elif n_codes * SAMPLES_PER_CODE > n_samples:
        found.append(SPARSE_CODES)
    if party.learnable is not None:
        if (party.share or 0.0) > NOTICEABLE_SHARE and party.learnable < LEARNABLE_PART * party.value:
            found.append(MEMORISED)
        elif party.learnable * n_samples < NOISE_LEVEL:
            found.append(NO_SIGNAL)
    return tuple(found)


def describe(flag: str) -> str:
    """What a flag means, in one sentence; an unknown flag (of a newer version) is its own description."""
    return MEANINGS.get(flag, flag.replace("_", " "))
