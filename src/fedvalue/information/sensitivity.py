"""How far the values can move when one sample is replaced by another: the proof is decision 0308.

With f(c) = c ln c and g(c) = f(c + 1) - f(c), adding a row to a table of n - 1 rows changes n times a
conditional mutual information by g(c_xyz) - g(c_xz) - g(c_yz) + g(c_z). Decimal logarithms, so that two
machines never disagree in the last digit.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

from fedvalue.errors import InputError

_DIGITS = 40
"""Of the logarithms; a result is rounded up to a grid of 2^-30, far above their error."""


def cmi_sensitivity(n_samples: int) -> Decimal:
    """S(n) = 2 g((n - 1) / 2) / n: the most by which I(X; Y | Z) moves, in nats. Reached for odd n."""
    _check(n_samples, 1)
    with localcontext(prec=_DIGITS):
        return 2 * _g(Decimal(n_samples - 1) / 2) / n_samples


def values_sensitivity(n_samples: int, n_parties: int) -> Decimal:
    """The most by which the vector of Shapley-CMI moves in L1, in nats.

    min(p S(n), 4 g(n - 1) / n): party by party, or along an order of the parties, where the gains of
    one row telescope whatever the number of parties. Also holds for values averaged over sampled orders.

    Raises:
        InputError: Fewer than one sample or party.
    """
    _check(n_samples, n_parties)
    with localcontext(prec=_DIGITS):
        return min(n_parties * cmi_sensitivity(n_samples), 4 * _g(Decimal(n_samples - 1)) / n_samples)


def _g(c: Decimal) -> Decimal:
    return (c + 1) * (c + 1).ln() - (c * c.ln() if c else Decimal(0))


def _check(n_samples: int, n_parties: int) -> None:
    if n_samples < 1 or n_parties < 1:
        raise InputError(f"expected at least one sample and one party, got {n_samples} and {n_parties}")
