"""Would some group of parties rather leave? What each gets against what it would bring by itself."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions import least_core, money
from fedvalue.decisions.contribution import Judge
from fedvalue.decisions.games import game_of, listing

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

NOT_CHECKED = "Groups of parties were not checked: the result does not say what each group would bring."

_ROUNDING = 1e-9  # excess, relative to everybody's value, that is rounding


@dataclass(frozen=True, slots=True)
class Stability:
    """Whether some group of parties is paid less than it would bring without the others.

    Args:
        stable: Whether no group is, by more than is negligible (see `contribution`).
        coalition: The group that falls short most.
        excess: By how much, as money.
        least: The shortfall of some group that no division of this pot avoids, as money (0 when the core is
            not empty).
    """

    stable: bool
    coalition: tuple[str, ...]
    excess: Decimal
    least: Decimal

    def sentence(self) -> str:
        """What this means for the parties."""
        if self.stable:
            return (
                "Every group of parties gets at least what it would bring without the others: "
                "none has a reason to leave."
            )
        one = len(self.coalition) == 1
        short = (
            f"{listing(self.coalition)} {'gets' if one else 'get'} {self.excess:,} less than "
            f"{'it' if one else 'they'} would bring without the others"
        )
        if self.least == 0:
            return f"{short}; another division of this pot would leave no group short."
        return f"{short}. In every division of this pot some group falls short, by {self.least:,} at least."


def stability_of(valuation: Valuation, by: str, amounts: list[int], pot: int) -> Stability | None:
    """Check a payout; None where not every coalition was valued, or there are too many to check.

    Args:
        valuation: The result.
        by: The number that the payout follows.
        amounts: What each party gets, in cents.
        pot: Their sum.
    """
    game = game_of(valuation, by)
    if game.table is None or not 2 <= len(game.names) <= least_core.MAX_PARTIES or pot == 0:
        return None
    everybody = float(game.table[-1])
    if everybody <= 0:
        return None
    # In units of the pot, so that value and money are compared as parts of the same whole.
    table = game.table / everybody
    shortfall = least_core.excesses(table, np.array(amounts) / pot)
    worst = int(np.argmax(shortfall))
    # Rounding to the cent moves a coalition by less than a cent per member.
    tolerated = max(_ROUNDING, len(amounts) / pot, Judge(valuation, by).negligible / everybody)
    return Stability(
        stable=bool(shortfall[worst] <= tolerated),
        coalition=game.members(worst),
        excess=money.from_cents(round(float(shortfall[worst]) * pot)),
        least=money.from_cents(round(max(least_core.least_core(table).epsilon, 0.0) * pot)),
    )
