"""Whether a party's value changed when rows were added.

The later valuation contains the earlier one's rows, so the two estimates are not independent. For
a mean over n' samples, of which the first n gave the earlier mean, the variance of the difference
is s² (1/n - 1/n'): the earlier error less what both share. s² is taken from the later valuation,
s² = n' · se². Where values were sampled, both sampling errors come on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedvalue.valuation.result import PartyValue, Valuation

NORMAL_95 = 1.959963984540054
"""Two-sided 95% point of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Change:
    """One party's value before and after.

    Args:
        name: The party.
        before: Its earlier value.
        after: Its later value.
        error: Standard error of the difference; None where an error of the data is not known.
    """

    name: str
    before: float
    after: float
    error: float | None

    @property
    def beyond_error(self) -> bool | None:
        """Whether the difference is more than the data's noise explains, at 95%; None if unknown."""
        if self.error is None:
            return None
        return abs(self.after - self.before) > NORMAL_95 * self.error

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON-ready data; what is not known has no key."""
        found: dict[str, Any] = {"name": self.name, "before": self.before, "after": self.after}
        if self.error is not None:
            found |= {"error": self.error, "beyond_error": self.beyond_error}
        return found


def changes(before: Valuation, after: Valuation) -> tuple[Change, ...]:
    """How each party's value moved between a valuation and a later one on more rows."""
    earlier = {party.name: party for party in before.parties}
    return tuple(
        Change(
            name=party.name,
            before=earlier[party.name].value,
            after=party.value,
            error=_error(earlier[party.name], party, before.n_samples, after.n_samples),
        )
        for party in after.parties
        if party.name in earlier
    )


def _error(before: PartyValue, after: PartyValue, n_before: int, n_after: int) -> float | None:
    if after.se_data is None:
        return None
    spread = n_after * after.se_data**2
    data = spread * (1 / n_before - 1 / n_after)
    return sqrt(max(data, 0.0) + before.se_sampling**2 + after.se_sampling**2)
