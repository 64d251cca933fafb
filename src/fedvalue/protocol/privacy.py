"""The promise of an agreed epsilon, and the noise that it takes.

For any two tables of the same samples that differ in all codes of one sample, every set of results is at
most exp(epsilon) times as likely with one as with the other, but for a probability of delta. The noise is
discrete Gaussian on the cells of all one-way and two-way tables; everything that a run releases is computed
from these noisy tables. The proof is decision 0320. Nothing secret is here and nothing is drawn: see
`noisy_release`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

from fedvalue.errors import InputError

LARGEST_DELTA = Fraction(1, 1_000_000)
"""Delta, and less where there are more than 100,000 samples: a tenth of 1 / n."""

LABEL_PART = Fraction(3, 4)
"""Part of the privacy that the tables with the label get: they decide the values (decision 0320)."""

ONE_WAY_PART = Fraction(1, 50)
"""Part of the privacy that one-way tables get under `gram`, where they serve the check of sums alone."""

GRAM_SHARES = 3
"""Under `gram` the noise is drawn three times and added, since each server knows two of the three draws."""

_BITS = 16
"""Significant bits of rho, rounded down: two machines must not disagree in the last digit."""

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(10)
"""Above the largest the promise is empty: exp(10) is 22,026."""

ADJACENCY = (
    "two tables of the same persons that differ in all codes of one person; who takes part, bin edges, "
    "categories and sizes of the code ranges count as known"
)
OBSERVER = (
    "the parties, as long as they follow the protocol, and whoever reads the result; not the servers, and "
    "nobody who works together with a server"
)

OBSERVER_GRAM = (
    "everybody, also one cheating server together with any parties whose rows have exactly one code per "
    "feature; not two servers that work together"
)

_FORM = re.compile(r"(0|[1-9][0-9]?)(\.[0-9]{0,5}[1-9])?")


def parse_epsilon(text: object) -> Fraction:
    """Epsilon as it stands in a manifest: text of a decimal number in its shortest form.

    Raises:
        InputError: Another form, or out of range.
    """
    if not isinstance(text, str) or not _FORM.fullmatch(text):
        raise InputError(
            f"epsilon must be a number with at most six digits after the point, in short form, got {text!r}"
        )
    epsilon = Fraction(text)
    if not SMALLEST <= epsilon <= LARGEST:
        raise InputError(f"epsilon must be between {float(SMALLEST):g} and {float(LARGEST):g}, got {text}")
    return epsilon


def spell_epsilon(written: str) -> str:
    """Epsilon as a person writes it ("1.0") in the form of a manifest ("1").

    Raises:
        InputError: Not a number, or out of range.
    """
    try:
        text = format(Decimal(written).normalize(), "f")
    except InvalidOperation:
        raise InputError(f"epsilon must be a number, got {written!r}") from None
    parse_epsilon(text)
    return text


@dataclass(frozen=True, slots=True)
class Privacy:
    """The promise of one run.

    Args:
        epsilon: As agreed.
        n_samples: Number of samples.
        n_columns: Number of feature columns of all parties, the task party's included.
        shares: How many times the noise is drawn and added: 1 where two servers draw it together,
            `GRAM_SHARES` under `gram`.
    """

    epsilon: Fraction
    n_samples: int
    n_columns: int
    shares: int = 1

    @property
    def delta(self) -> Fraction:
        """The exception to the promise."""
        return min(LARGEST_DELTA, Fraction(1, 10 * self.n_samples))

    @property
    def rho(self) -> Fraction:
        """Concentrated privacy loss (zCDP) that implies epsilon and delta, rounded down."""
        return concentrated_loss(float(self.epsilon), float(self.delta))

    @property
    def label_variance(self) -> Fraction:
        """Variance of the noise in each cell of N(x_f, y).

        One person moves two cells of each of the F tables by one: squared sensitivity 2 F.
        """
        part = LABEL_PART if self.n_columns > 1 else Fraction(1)
        return 2 * self.n_columns / (2 * part * self._tables_rho)

    @property
    def pair_variance(self) -> Fraction:
        """Variance of the noise in each cell of N(x_f, x_g): squared sensitivity F (F - 1).

        With one column there are no such tables.
        """
        return self.n_columns * (self.n_columns - 1) / (2 * (1 - LABEL_PART) * self._tables_rho)

    @property
    def one_way_variance(self) -> Fraction:
        """Variance of the noise in each cell of N(y) and N(x_f), which `gram` alone releases."""
        return 2 * (self.n_columns + 1) / (2 * ONE_WAY_PART * self.rho)

    @property
    def _tables_rho(self) -> Fraction:
        """The part of rho for N(x_f, y) and N(x_f, x_g)."""
        return self.rho if self.shares == 1 else (1 - ONE_WAY_PART) * self.rho

    @property
    def observer(self) -> str:
        """The observers against whom the promise holds."""
        return OBSERVER if self.shares == 1 else OBSERVER_GRAM

    def total(self, variance: Fraction) -> float:
        """Variance of all noise in a cell, where each draw has this one."""
        return float(self.shares * variance)


@lru_cache(maxsize=64)
def concentrated_loss(epsilon: float, delta: float) -> Fraction:
    """The largest rho for which rho-zCDP implies (epsilon, delta), rounded down to 16 bits.

    delta = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) (1 - 1/alpha)^alpha
    (Canonne, Kamath and Steinke 2020, proposition 12). Every alpha gives a valid delta, so a search that
    misses the best one only adds noise.
    """

    def log_delta(rho: float, log_a: float) -> float:
        a = 1.0 + math.exp(log_a)
        return (a - 1) * (a * rho - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a)

    def best(rho: float) -> float:
        low, high = -12.0, 25.0
        for _ in range(120):  # the logarithm is unimodal in ln(alpha - 1)
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if log_delta(rho, left) < log_delta(rho, right) else (left, high)
        return log_delta(rho, (low + high) / 2)

    low, high = 0.0, epsilon + 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if best(middle) <= math.log(delta) else (low, middle)
    fraction, exponent = math.frexp(low)
    return Fraction(math.floor(fraction * 2**_BITS) - 1) / Fraction(2) ** (_BITS - exponent)
