"""From numbers to decisions: whom to invite, what to pay, which parties overlap.

Everything here reads a result (`fedvalue.valuation.result.Valuation`) and the games inside it, never the
data. Money is exact: amounts are decimals, never binary fractions.
"""

from __future__ import annotations

from fedvalue.decisions.contribution import Contribution, ContributionVerdict
from fedvalue.decisions.payout import Payout, payout
from fedvalue.decisions.redundancy import Redundancy, redundancy
from fedvalue.decisions.selection import Selection, select

__all__ = [
    "Contribution",
    "ContributionVerdict",
    "Payout",
    "Redundancy",
    "Selection",
    "payout",
    "redundancy",
    "select",
]
