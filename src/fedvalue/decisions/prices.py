"""What parties cost: prices from a file, and what a budget allows."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions import money
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.valuation.result import Valuation


@dataclass(frozen=True, slots=True)
class Purse:
    """What parties cost and what may be spent.

    Args:
        price: In the order of the parties; 1 each without prices.
        budget: What may be spent; None for no limit.
        priced: Whether there are prices.
    """

    price: tuple[Decimal, ...]
    budget: Decimal | None
    priced: bool

    @classmethod
    def of(cls, valuation: Valuation, prices: Mapping[str, object] | None, budget: object | None) -> Purse:
        """Read the prices of a result's parties.

        Raises:
            InputError: A price is missing or wrong, or the budget is negative or has no prices.
        """
        names = [party.name for party in valuation.parties]
        if prices is None:
            if budget is not None:
                raise InputError("a budget needs prices: without them there is nothing to spend it on")
            return cls((Decimal(1),) * len(names), None, priced=False)
        missing = [name for name in names if name not in prices]
        if missing:
            raise InputError(f"no price for {', '.join(repr(name) for name in missing)}")
        price = tuple(money.amount(prices[name], f"the price of party {name!r}") for name in names)
        return cls(price, None if budget is None else money.amount(budget, "the budget"), priced=True)

    def cost(self, mask: int) -> Decimal:
        """What a coalition (a bit mask) costs."""
        return sum((p for k, p in enumerate(self.price) if mask >> k & 1), Decimal(0))

    def allows(self, mask: int) -> bool:
        """Whether a coalition can be afforded."""
        return self.budget is None or self.cost(mask) <= self.budget

    def whole_numbers(self) -> tuple[NDArray[np.int64], Decimal]:
        """Prices as multiples of one unit, so that costs are compared exactly.

        Raises:
            InputError: The prices have too many digits.
        """
        digits = max((-int(p.normalize().as_tuple().exponent) for p in self.price), default=0)
        unit = Decimal(1).scaleb(-max(digits, 0))
        units = [int(p / unit) for p in self.price]
        if sum(units) > 2**62:
            raise InputError("prices have too many digits to be added exactly")
        return np.array(units, dtype=np.int64), unit


def read_prices(path: str | Path) -> dict[str, Decimal]:
    """Prices from a CSV file with the columns party and price (a header line of these names, or none).

    Raises:
        InputError: The file cannot be read, a line is not a party and a price, or a party comes twice.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file: {error}") from error
    if lines and [cell.strip().lower() for cell in lines[0]] == ["party", "price"]:
        lines = lines[1:]
    prices: dict[str, Decimal] = {}
    for row in lines:
        if len(row) != 2:
            raise InputError(f"{path}: each line must hold a party and a price, got {len(row)} cells")
        name = row[0].strip()
        if name in prices:
            raise InputError(f"{path}: party {name!r} has two prices")
        prices[name] = money.amount(row[1], f"the price of party {name!r}")
    return prices
