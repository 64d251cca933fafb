"""The contribution of one more party, its interval, and a verdict.

A contribution is a difference of two coalition values, v(S + d) - v(S). Its verdict:

- "nothing": even the upper end of its 95% interval is negligible;
- "adds": the lower end is above 0;
- "undecided": neither; `rows_needed` says how many rows would settle it, since variances fall as 1/n.

A result has an interval for each party's learnable value, not for each difference. Contributions of a party
differ in size, and a small gain of log likelihood has a variance of 2 gain / n (near 0, a difference of log
likelihoods has a mean of half its variance). So the half-width of the party's value is scaled by the root of
the ratio of the gains, and is at least that of a likelihood ratio with one degree of freedom,
sqrt(2 gain / n + 1 / (2 n^2)). If the gain is the party's value itself, as with additive values, the interval
of the value is used; only the last term is kept, because an estimator that found nothing has not proved that
there is nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from fedvalue.decisions import games
from fedvalue.valuation.result import Z95

if TYPE_CHECKING:
    from fedvalue.valuation.result import PartyValue, Valuation

NEGLIGIBLE_PART = 0.05
"""A contribution below this fraction of an equal share of the total is negligible."""

LEAST_TOTAL = 0.1
"""For that, the total is at least this fraction of the label's uncertainty, so that the yardstick is not 0 if
nobody adds anything."""

CALIBRATION = 1.5
"""Row-wise standard errors are too small by this factor (docs/statistics.md). Used if the result has none."""


class ContributionVerdict(StrEnum):
    """What an interval says about a contribution."""

    ADDS = "adds"
    UNDECIDED = "undecided"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a party, or several together, add to those before them, in nats.

    Args:
        gain: The estimate.
        low: Lower end of its 95% interval; None if no error is known.
        high: Upper end.
        verdict: Read off the interval.
        rows_needed: Rows that would settle an undecided one; None if more rows would not help.
    """

    gain: float
    low: float | None
    high: float | None
    verdict: ContributionVerdict
    rows_needed: int | None = None


class Judge:
    """Intervals and verdicts for the contributions in one result."""

    def __init__(self, valuation: Valuation, by: str) -> None:
        games.check_by(by)
        self._valuation = valuation
        self._by = by
        self._n = max(valuation.n_samples, 1)
        total = valuation.learnable_total if by == "learnable" else valuation.total
        own_unit = by == "learnable" and valuation.utility_name is not None
        held = 0.0 if own_unit else LEAST_TOTAL * (valuation.label_entropy or 0.0)
        self._errors_known = not own_unit
        self.negligible = NEGLIGIBLE_PART * max(total or 0.0, held) / max(len(valuation.parties), 1)

    def half_width(self, party: PartyValue, gain: float) -> float | None:
        """Half of the 95% interval of a party's contribution; None if no error is known."""
        if self._by == "shapley-cmi":
            if party.se_data is None:
                return party.half_width
            return Z95 * math.hypot(party.se_sampling or 0.0, party.se_data)
        known = party.learnable_interval
        if known is None:
            return self.usual_half_width(gain) if self._errors_known else None
        value, least = party.learnable or 0.0, 1.0 / self._n
        half = (known[1] - known[0]) / 2
        if math.isclose(gain, value, rel_tol=1e-9, abs_tol=1e-12):
            return max(half, self._ratio_half_width(0.0))
        scale = math.sqrt(max(abs(gain), least) / max(abs(value), least))
        return max(scale * half, self._ratio_half_width(gain))

    def usual_half_width(self, gain: float) -> float:
        """Half of the 95% interval of a gain whose size alone is known; 0 in the unit of a utility."""
        if not self._errors_known:
            return 0.0
        return CALIBRATION * self._ratio_half_width(gain)

    def _ratio_half_width(self, gain: float) -> float:
        return Z95 * math.sqrt(2 * abs(gain) / self._n + 1 / (2 * self._n**2))

    def single(self, party: PartyValue, gain: float, *, error: float = 0.0) -> Contribution:
        """Judge the gain of one party; `error` is that of an approximate game."""
        half = self.half_width(party, gain)
        wide = None if half is None else math.hypot(half, error)
        if party.n_codes == 1 and wide is not None:
            # The same code in every row: it has no luck, and more rows like these have nothing to show.
            return Contribution(gain, gain - wide, gain + wide, ContributionVerdict.NOTHING)
        return self._judge(gain, wide, noisy=self._valuation.privacy is not None)

    def several(self, gain: float, members: Sequence[Contribution]) -> Contribution:
        """Judge the joint gain of several parties, given the contribution of each.

        The error that a gain of its size usually has does not grow with the number of parties. What a party's
        error has beyond that does, linearly, because it has one direction: the luck of many columns is never
        below 0, and agreed noise in the label's counts is the same for all.
        """
        if not self._errors_known:
            return self._judge(gain, None, noisy=False)
        beyond = 0.0
        for member in members:
            half = 0.0 if member.high is None else member.high - member.gain
            beyond += math.sqrt(max(half**2 - self.usual_half_width(member.gain) ** 2, 0.0))
        return self._judge(gain, math.hypot(self.usual_half_width(gain), beyond), noisy=False)

    def _judge(self, gain: float, half: float | None, *, noisy: bool) -> Contribution:
        if half is None:
            adds = gain > self.negligible
            verdict = ContributionVerdict.ADDS if adds else ContributionVerdict.NOTHING
            return Contribution(gain, None, None, verdict)
        low, high = gain - half, gain + half
        if high <= self.negligible:
            return Contribution(gain, low, high, ContributionVerdict.NOTHING)
        if low > 0:
            return Contribution(gain, low, high, ContributionVerdict.ADDS)
        distance = max(gain, self.negligible - gain)
        # More rows do not shrink agreed noise in this way.
        rows = None if noisy or distance <= 0 else math.ceil(self._n * (half / distance) ** 2)
        return Contribution(gain, low, high, ContributionVerdict.UNDECIDED, rows)
