"""Detection probabilities of the published check (the formulas F1 to F5), exact.

M samples, real and adversarial, are in the cell that the computation server answers; it sees M·q
tokens that it cannot tell apart.
"""

from __future__ import annotations

from math import comb


def miss_dropping(m: int, s: int, q: int, n_r: int) -> float:
    """F1: probability that dropping s of m samples goes unseen.

    The s·q tokens must be complete groups, and the count must not fall below n_r.
    """
    if not 1 <= s <= m:
        raise ValueError(f"expected 1 <= s <= m, got s={s}, m={m}")
    if s > m - n_r:
        return 0.0
    return comb(m, s) / comb(m * q, s * q)


def miss_adding(u: int, s: int, q: int) -> float:
    """F2: probability that adding s of the u samples of one Venn region goes unseen.

    It is 1 for the whole region (s = u): every group is complete.
    """
    return comb(u, s) / comb(u * q, s * q)


def miss_injecting(n_tokens: int) -> float:
    """F5: probability that random tokens pass the format rule, 2^-40 each."""
    return 2.0 ** (-40 * n_tokens)


HARDENED_MISS = 2.0**-64
"""H1 + H2: counts can only fall (H2) and must total n (H1); a wrong sum of authenticators passes so."""
