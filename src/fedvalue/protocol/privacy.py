"""What an agreed epsilon promises: to whom, about what, and how much noise it takes.

For any two tables of the same samples that differ in all codes of one sample, every set of results is at
most exp(epsilon) times as likely with one as with the other (delta is 0). The proof is decision 0308.
Nothing secret is here and nothing is drawn: see `noise`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from fractions import Fraction

from fedvalue.errors import InputError
from fedvalue.information.sensitivity import values_sensitivity

GRID_BITS = 30
"""Values are rounded to multiples of 2^-30 nats, just below the 1e-9 to which results are compared."""

ROUNDING_STEPS = 2
"""Grid steps per party that rounding can add to the sensitivity: one for rounding to the grid, one for
floating-point errors of up to half a step (4.6e-10; the tests find less than 1e-12)."""

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
        n_parties: Number of data parties, hence of values.
    """

    epsilon: Fraction
    n_samples: int
    n_parties: int

    @property
    def sensitivity(self) -> int:
        """The most by which the rounded values move in L1 when one sample is replaced, in grid steps."""
        exact = values_sensitivity(self.n_samples, self.n_parties) * 2**GRID_BITS
        return int(exact.to_integral_value(ROUND_CEILING)) + ROUNDING_STEPS * self.n_parties

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise on every value, in nats."""
        return float(self.sensitivity / self.epsilon) * 2.0**-GRID_BITS
