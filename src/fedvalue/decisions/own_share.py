"""A data party's own result of a run: one share of a total, from which nobody can decide whom to invite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

OWN_SHARE = "own_share"
"""Key of `Valuation.details`."""


def is_own_share(valuation: Valuation) -> bool:
    """The result shows a data party its own numbers and the total, and nothing of the others."""
    return valuation.details.get(OWN_SHARE) is True


def refuse_own_share(valuation: Valuation, what: str) -> None:
    """Refuse to derive `what` from a data party's own result."""
    if is_own_share(valuation):
        raise InputError(
            f"this result shows {valuation.parties[0].name} its own share alone, and no {what} follows "
            "from it; use the result of the task party"
        )
