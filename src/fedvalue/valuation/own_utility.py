"""Shapley values of the caller's own utility function, in place of the learnable values.

- A utility is the worth of a set of data parties beside the task party: a validation score of the caller's
  model, or another estimate of information.
- Values are in the unit of the utility.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.valuation.shapley_indices import interactions_of, shapley_of

if TYPE_CHECKING:
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation

Utility: TypeAlias = Callable[[tuple[str, ...]], float]
"""From the names of a coalition's parties, in the order of the result, to its worth."""

MAX_PARTIES = 12
"""The utility is called for every coalition, 2^parties of them."""


def with_utility(valuation: Valuation, utility: Utility, progress: Progress | None = None) -> Valuation:
    """The result with the Shapley values of `utility` as its `learnable` values.

    Args:
        valuation: With Shapley-CMI.
        utility: Called once per coalition; the worth of the empty coalition is subtracted.
        progress: Called with progress updates.

    Raises:
        InputError: More than 12 parties, or a worth that is no finite number.
    """
    names = [party.name for party in valuation.parties]
    if len(names) > MAX_PARTIES:
        raise InputError(
            f"utility is evaluated for every coalition: at most {MAX_PARTIES} parties, got {len(names)}"
        )
    game = np.empty(1 << len(names))
    for mask in range(len(game)):
        if progress is not None:
            progress(mask, len(game), "own utility")
        members = tuple(name for k, name in enumerate(names) if mask >> k & 1)
        game[mask] = float(utility(members))
        if not np.isfinite(game[mask]):
            raise InputError(
                f"the utility of {', '.join(members) or 'nobody'} is {game[mask]}, not a finite number"
            )
    game -= game[0]
    total = float(game[-1])
    parties = tuple(
        replace(party, learnable=value, learnable_share=value / total if total > 0 else 0.0)
        for party, value in zip(valuation.parties, shapley_of(game).tolist(), strict=True)
    )
    return replace(
        valuation,
        parties=parties,
        estimator=f"utility/{getattr(utility, '__name__', type(utility).__name__)}",
        learnable_total=total,
        interactions=tuple(tuple(row) for row in interactions_of(game).tolist()),
        coalitions={**(valuation.coalitions or {}), "learnable": tuple(game.tolist())},
    )
