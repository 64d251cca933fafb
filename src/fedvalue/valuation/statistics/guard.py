"""Flags on a party's values: facts about the estimates that a reader should know.

- A flag is a short stable name on the result; `MEANINGS` has a sentence for each, for terminal and report.
- It describes numbers, not the party, and a party whose learnable share is sound has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.valuation.result import PartyValue

MEMORISED = "memorised"
NEAR_UNIQUE = "near_unique"
SPARSE_CODES = "sparse_codes"
NO_SIGNAL = "no_signal"
BELOW_STEP = "below_step"

MEANINGS = {
    MEMORISED: "Shapley-CMI is mostly memorised; the learnable value is what counts.",
    NEAR_UNIQUE: "Nearly every row has a combination of values of its own, so Shapley-CMI says nothing here; "
    "the learnable value is what counts.",
    SPARSE_CODES: "There are fewer than five rows per combination of values, which inflates Shapley-CMI; "
    "the learnable value is what counts.",
    NO_SIGNAL: "These rows show nothing to be learned.",
    BELOW_STEP: "The value is not above the step of the rounding, so it does not tell whether there is "
    "something to be learned.",
}

LEARNABLE_PART = 0.25
"""Below this part of the value the value counts as memorised."""

NOTICEABLE_SHARE = 0.05
"""A Shapley-CMI below this share of the total is too small for a remark; a learnable share from here on is
sound if it is clearly above 0."""

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
        party: The party; without a learnable value only its codes are checked.
        n_samples: Number of samples of the valuation.
    """
    if _sound(party, n_samples):
        return ()
    flags = []
    n_codes = party.n_codes or 0
    if n_codes > NEAR_UNIQUE_PART * n_samples:
        flags.append(NEAR_UNIQUE)
    elif n_codes * SAMPLES_PER_CODE > n_samples:
        flags.append(SPARSE_CODES)
    if party.learnable is not None:
        memorised = party.value is not None and party.learnable < LEARNABLE_PART * party.value
        if (party.share or 0.0) > NOTICEABLE_SHARE and memorised:
            flags.append(MEMORISED)
        elif party.learnable * n_samples < NOISE_LEVEL:
            flags.append(NO_SIGNAL)
    return tuple(flags)


def _sound(party: PartyValue, n_samples: int) -> bool:
    """Whether the party has a learnable share that is noticeable and clearly above 0."""
    if party.learnable is None or (party.learnable_share or 0.0) < NOTICEABLE_SHARE:
        return False
    if party.learnable_interval is not None:
        return party.learnable_interval[0] > 0
    return party.learnable * n_samples >= NOISE_LEVEL


def describe(flag: str) -> str:
    """The meaning of a flag; an unknown flag (of a newer version) is its own description."""
    return MEANINGS.get(flag, flag.replace("_", " "))
