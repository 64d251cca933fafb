"""Amounts of money: read exactly, split exactly, rounded to the cent only once."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from fedvalue.errors import InputError

CENT = Decimal("0.01")


def amount(text: object, what: str) -> Decimal:
    """A finite, non-negative amount from text or a number.

    Args:
        text: "1200", "99.90", 5, Decimal("1"). A float is read by its shortest text, as people write it.
        what: Names the amount in the error.

    Raises:
        InputError: Not a number, infinite, or negative.
    """
    try:
        value = Decimal(str(text).strip())
    except InvalidOperation as error:
        raise InputError(f"{what} must be an amount such as 1200.50, got {text!r}") from error
    if not value.is_finite():
        raise InputError(f"{what} must be finite, got {text!r}")
    if value < 0:
        raise InputError(f"{what} must not be negative, got {value}")
    return value


def cents(value: Decimal, what: str) -> int:
    """The amount as whole cents.

    Raises:
        InputError: It has fractions of a cent.
    """
    scaled = value / CENT
    if scaled != scaled.to_integral_value():
        raise InputError(f"{what} must be whole cents, got {value}")
    return int(scaled)


def from_cents(value: int) -> Decimal:
    """Whole cents as an amount with two digits."""
    return (Decimal(value) * CENT).quantize(CENT)


def largest_remainder(ideal: list[Fraction], total: int, most: list[int]) -> list[int]:
    """Whole numbers next to the ideal ones that add up to `total`.

    Every number is rounded down; the units left go to the largest remainders, the earlier party first
    among equals, and never beyond `most`.

    Raises:
        ValueError: The ideal numbers do not add up to `total`.
    """
    if sum(ideal) != total:
        raise ValueError(f"the ideal shares add up to {sum(ideal)}, not to {total}")
    rounded = [x.numerator // x.denominator for x in ideal]
    order = sorted(range(len(ideal)), key=lambda k: (rounded[k] - ideal[k], k))
    left = total - sum(rounded)
    for k in order:
        if left == 0:
            break
        if rounded[k] < most[k] and rounded[k] != ideal[k]:
            rounded[k] += 1
            left -= 1
    return rounded
