"""The promise of an agreed epsilon, and the noise that it takes.

For any two tables of the same samples that differ in all codes of one sample, every set of results is at
most exp(epsilon) times as likely with one as with the other, but for a probability of delta. The cells of
all one-way and two-way tables have noise: discrete Gaussian or, in the tables with the label under `gram`,
sums of signs. Everything that a run releases is computed from these noisy tables. The proof is in decisions
0320 and 0326. Nothing secret is here and nothing is drawn: see `noisy_release` and `gram`.

Signs and privacy losses are computed with NumPy, which is loaded when they are: reading an agreement needs
neither.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.crypto.sign_sums import Levels
    from fedvalue.protocol.privacy_loss import Loss

LARGEST_DELTA = Fraction(1, 1_000_000)
"""Delta, and less where there are more than 100,000 samples: a tenth of 1 / n."""

LABEL_PART = Fraction(3, 4)
"""Part of the privacy that the tables with the label get: they decide the values (decision 0320)."""

ONE_WAY_PART = Fraction(1, 50)
"""Part of the privacy that one-way tables get under `gram`, where they serve the check of sums alone."""

GRAM_SHARES = 3
"""Under `gram` the noise is drawn three times and added, since each server knows some of the three draws."""

LABEL_UNKNOWN = 2
"""Draws that a server of `gram` does not know in tables with the label, where each server knows one alone; in
all other tables two servers know each, so that one is unknown."""

_BITS = 13
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
        """Half of the sum of moved cells / variance over all tables: how much may be told about a person.

        The largest for which the exact delta at epsilon is small enough, rounded down.
        """
        return _largest_rho(self.epsilon, self.delta, self.n_columns, self.shares)

    @property
    def label_variance(self) -> Fraction:
        """Variance of each draw of the noise in a cell of N(x_f, y).

        One person moves two cells of each of the F tables by one.
        """
        return self._noise.label_variance

    @property
    def label_levels(self) -> Levels:
        """Under `gram`: the signs whose sum is a draw of the noise in a cell of N(x_f, y)."""
        return self._noise.label_levels

    @property
    def pair_variance(self) -> Fraction:
        """Variance of each draw in a cell of N(x_f, x_g): one person moves F (F - 1) cells.

        With one column there are no such tables.
        """
        return self._noise.pair_variance

    @property
    def one_way_variance(self) -> Fraction:
        """Variance of each draw in a cell of N(y) and N(x_f), which `gram` alone releases."""
        return self._noise.one_way_variance

    @property
    def _noise(self) -> _Noise:
        return _Noise(self.rho, self.n_columns, self.shares)

    @property
    def observer(self) -> str:
        """The observers against whom the promise holds."""
        return OBSERVER if self.shares == 1 else OBSERVER_GRAM

    def total(self, variance: Fraction) -> float:
        """Variance of all noise in a cell, where each draw has this one."""
        return float(self.shares * variance)


@dataclass(frozen=True, slots=True)
class _Noise:
    """The noise that goes with a rho: variances are inverse to the part of it that their tables get."""

    rho: Fraction
    n_columns: int
    shares: int

    @property
    def _is_gram(self) -> bool:
        return self.shares > 1

    @property
    def _tables_rho(self) -> Fraction:
        """The part of rho for N(x_f, y) and N(x_f, x_g)."""
        return (1 - ONE_WAY_PART) * self.rho if self._is_gram else self.rho

    @property
    def _label_needed(self) -> Fraction:
        """Variance that nobody may know in a cell of N(x_f, y)."""
        part = LABEL_PART if self.n_columns > 1 else Fraction(1)
        return 2 * self.n_columns / (2 * part * self._tables_rho)

    @property
    def label_levels(self) -> Levels:
        from fedvalue.crypto.sign_sums import sign_levels

        return sign_levels(self._label_needed / LABEL_UNKNOWN)

    @property
    def label_variance(self) -> Fraction:
        from fedvalue.crypto.sign_sums import sign_variance

        return sign_variance(self.label_levels) if self._is_gram else self._label_needed

    @property
    def pair_variance(self) -> Fraction:
        return self.n_columns * (self.n_columns - 1) / (2 * (1 - LABEL_PART) * self._tables_rho)

    @property
    def one_way_variance(self) -> Fraction:
        return 2 * (self.n_columns + 1) / (2 * ONE_WAY_PART * self.rho)

    def losses(self) -> list[Loss]:
        """Privacy losses of all cells that one person moves, of what an observer does not know."""
        from fedvalue.crypto.sign_sums import sign_distribution
        from fedvalue.protocol.privacy_loss import gaussian_loss, shift_loss

        f = self.n_columns
        if self._is_gram:
            signs = sign_distribution(self.label_levels, LABEL_UNKNOWN)
            losses = [shift_loss(signs, 2 * f), gaussian_loss(float(self.one_way_variance), 2 * (f + 1))]
        else:
            losses = [gaussian_loss(float(self.label_variance), 2 * f)]
        if f > 1:
            losses.append(gaussian_loss(float(self.pair_variance), f * (f - 1)))
        return losses


@lru_cache(maxsize=256)
def _largest_rho(epsilon: Fraction, delta: Fraction, n_columns: int, shares: int) -> Fraction:
    """The largest rho of `_BITS` bits, near that of the Gaussian mechanism, that keeps (epsilon, delta).

    A search that misses a larger one only adds noise.
    """
    from fedvalue.protocol.privacy_loss import delta_of

    fraction, exponent = math.frexp(_gaussian_rho(float(epsilon), float(delta)))
    unit = Fraction(math.ldexp(1.0, exponent - _BITS))

    def keeps(k: int) -> bool:
        return delta_of(float(epsilon), _Noise(k * unit, n_columns, shares).losses()) <= delta

    # Signs come in whole numbers, so that their variance may be a little above what rho says.
    low = high = math.floor(fraction * (1 << _BITS)) * 33 // 32
    step = low // 32
    while not keeps(low):
        low, high = max(1, low - step), low
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if keeps(middle):
            low = middle
        else:
            high = middle
    return unit * low


def _gaussian_rho(epsilon: float, delta: float) -> float:
    """Of continuous Gaussian noise: delta(epsilon) is known (Balle and Wang 2018, theorem 8)."""

    def delta_at(rho: float) -> float:
        mu = math.sqrt(2 * rho)
        above, below = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return 0.5 * (math.erfc(above / math.sqrt(2)) - math.exp(epsilon) * math.erfc(below / math.sqrt(2)))

    low, high = 0.0, epsilon + 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) <= delta else (low, middle)
    return low
