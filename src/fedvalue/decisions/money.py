"""Exact amounts of money, rounded to the cent only once; prices and a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.valuation.result import Valuation

CENT = Decimal("0.01")

MOST_DIGITS = 30
"""Beyond the wealth of the world in any currency; 1e999999 would fill the screen."""


def amount(text: object, what: str) -> Decimal:
    """A finite, non-negative amount from text or a number; `what` names it in errors.

    A float is read by its shortest text, as people write it.
    """
    try:
        value = Decimal(str(text).strip())
    except InvalidOperation as error:
        raise InputError(f"{what} must be an amount such as 1200.50, got {text!r}") from error
    if not value.is_finite():
        raise InputError(f"{what} must be finite, got {text!r}")
    if value.adjusted() >= MOST_DIGITS:
        raise InputError(f"{what} must have at most {MOST_DIGITS} digits before the point, got {text!r}")
    if value < 0:
        raise InputError(f"{what} must not be negative, got {value}")
    # As people write it: 1e9 is 1000000000, 12.5 is 12.50, 25000.0 is 25000, and -0 is 0.
    value = Decimal(format(value.copy_abs(), "f"))
    whole = value.to_integral_value()
    if value == whole and isinstance(text, float):
        return whole
    return value.quantize(CENT) if value.as_tuple().exponent == -1 else value


def cents(value: Decimal, what: str) -> int:
    """The amount as whole cents; fractions of a cent are refused."""
    scaled = value / CENT
    if scaled != scaled.to_integral_value():
        raise InputError(f"{what} must be whole cents, got {value}")
    return int(scaled)


def from_cents(value: int) -> Decimal:
    """Whole cents as an amount with two digits."""
    return (Decimal(value) * CENT).quantize(CENT)


def largest_remainder(ideal: list[Fraction], total: int) -> list[int]:
    """Round the ideal numbers to whole numbers that add up to `total`.

    Every number is rounded down; the remaining units go to the largest remainders, the earlier party first
    among equals. There are fewer units than fractions, so a whole number, such as a cap, is never exceeded.
    """
    if sum(ideal) != total:
        raise ValueError(f"the ideal shares add up to {sum(ideal)}, not to {total}")
    rounded = [x.numerator // x.denominator for x in ideal]
    order = sorted(range(len(ideal)), key=lambda k: (rounded[k] - ideal[k], k))
    left = total - sum(rounded)
    for k in order[:left]:
        rounded[k] += 1
    return rounded


@dataclass(frozen=True, slots=True)
class Purse:
    """Prices, in the order of the parties (1 each if not `priced`), and a budget (None for no limit)."""

    price: tuple[Decimal, ...]
    budget: Decimal | None
    priced: bool

    @classmethod
    def of(cls, valuation: Valuation, prices: Mapping[str, object] | None, budget: object | None) -> Purse:
        """Read the prices of a result's parties."""
        names = [party.name for party in valuation.parties]
        if prices is None:
            if budget is not None:
                raise InputError("a budget needs prices: without them there is nothing to spend it on")
            return cls((Decimal(1),) * len(names), None, priced=False)
        if not isinstance(prices, Mapping):
            raise InputError(f"prices must be a dict of amounts by party name, got {type(prices).__name__}")
        missing = [name for name in names if name not in prices]
        if missing:
            raise InputError(f"no price for {', '.join(repr(name) for name in missing)}")
        price = tuple(amount(prices[name], f"the price of party {name!r}") for name in names)
        return cls(price, None if budget is None else amount(budget, "the budget"), priced=True)

    def cost(self, mask: int) -> Decimal:
        """Cost of a coalition (a bit mask)."""
        return sum((p for k, p in enumerate(self.price) if mask >> k & 1), Decimal(0))

    def allows(self, mask: int) -> bool:
        """The budget covers a coalition."""
        return self.budget is None or self.cost(mask) <= self.budget

    def whole_numbers(self) -> tuple[NDArray[np.int64], Decimal]:
        """Prices as multiples of a unit, and the unit, so that costs are compared exactly."""
        digits = max((-int(p.normalize().as_tuple().exponent) for p in self.price), default=0)
        unit = Decimal(1).scaleb(-max(digits, 0))
        units = [int(p / unit) for p in self.price]
        if sum(units) > 2**62:
            raise InputError("prices have too many digits to be added exactly")
        return np.array(units, dtype=np.int64), unit
