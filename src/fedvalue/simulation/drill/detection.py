"""Probability that the published check detects a cheat (formulas F1 to F5, exact), and its cost.

M samples, real and adversarial, are in the cell that the computation server answers; it sees M·q tokens that
it cannot tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from fedvalue.errors import InputError


def miss_dropping(m: int, s: int, q: int, n_r: int) -> float:
    """F1: probability that dropping s of m samples goes unseen.

    The s·q tokens must be complete groups, and the count must not fall below n_r.
    """
    if not 1 <= s <= m:
        raise ValueError(f"expected 1 <= s <= m, got s={s}, m={m}")
    if s > m - n_r:
        return 0.0
    return comb(m, s) / comb(m * q, s * q)


def miss_injecting(n_tokens: int) -> float:
    """F5: probability that random tokens pass the format rule, 2^-40 each."""
    return 2.0 ** (-40 * n_tokens)


HARDENED_MISS = 2.0**-64
"""H1 + H2: counts can only fall (H2) and must total n (H1); a wrong sum of authenticators passes so often."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One choice.

    Args:
        protocol: "paper" or "mirror".
        hardened: H1, H2 and H3 are on.
        q: Encryption ids per sample; None for `mirror`.
        n_r: Adversarial samples per cell; None for `mirror`.
        detection: Probability that dropping the only sample of a cell, the worst case, is detected. The
            published check never detects that one party's whole upload is returned (`whole_upload`).
        whole_upload: Probability that attack A1 is detected.
        n_bytes: Bytes that all parties upload.
    """

    protocol: str
    hardened: bool
    q: int | None
    n_r: int | None
    detection: float
    whole_upload: float
    n_bytes: int


def advise(*, cells: int, samples: int = 10_000, parties: int = 5) -> list[Advice]:
    """Detection probability and bytes of sensible choices.

    All parties are assumed to have the same number of values; then a party's sample is in cells / values of
    the queries.

    Raises:
        InputError: A number out of range.
    """
    if cells < 2 or samples < 1 or parties < 1:
        raise InputError(
            f"expected cells >= 2, samples >= 1, parties >= 1, got {cells}, {samples}, {parties}"
        )
    members = parties + 1
    values = max(2.0, cells ** (1 / members))
    rows_per_party = samples * cells / values

    def n_bytes(q: int, n_r: int, width: int) -> int:
        return int(width * q * members * (rows_per_party + n_r * cells))

    choices = [
        Advice("paper", False, q, n_r, 1 - miss_dropping(n_r + 1, 1, q, n_r), 0.0, n_bytes(q, n_r, 16))
        for q in (2, 3, 4)
        for n_r in (1, 5, 10, 50, 100)
    ]
    sure = 1.0 - HARDENED_MISS
    choices.append(Advice("paper", True, 1, 0, sure, sure, n_bytes(1, 0, 24)))
    choices.append(Advice("mirror", True, None, None, 1.0, 1.0, 2 * 8 * samples * members))
    return choices
