"""The unit of gains in a report: errors avoided if they show the gain, otherwise percent.

The advice is based on the learnable value, a log loss. People count errors, but errors are coarser: with a
rare label no decision may change although cases are ranked better. So errors are drawn only if the result has
them for every bar, the invited parties together clearly avoid some, and the bars agree with the advice: a
party that clearly adds something has a longer bar than one that does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from fedvalue.decisions.contribution import ContributionVerdict
from fedvalue.reports import wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedvalue.decisions.selection import Selection
    from fedvalue.valuation.result import UpliftRow, Valuation

UNCERTAINTY = "% of what cannot be predicted without these parties"


@dataclass(frozen=True, slots=True)
class Level:
    """The joint gain of the parties up to a step, with its 95% interval."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class GainScale:
    """The levels after each step of a selection, in errors avoided or `UNCERTAINTY`."""

    unit: str
    levels: tuple[Level, ...]

    def figure(self, before: float, after: float) -> str:
        """A gain with its sign: "+46", "+9.8%". Whole numbers add up to the rounded total."""
        if self.unit == UNCERTAINTY:
            return signed_percent((after - before) / 100)
        many = max(level.value for level in self.levels) >= 9.95
        gain = round(after) - round(before) if many else after - before
        text = f"{abs(gain)}" if many else wording.per_1000(abs(gain))
        return "0" if float(text) == 0 else f"{'+' if gain > 0 else '−'}{text}"

    def tick(self, value: float) -> str:
        """A value on the axis."""
        return f"{value:g}%" if self.unit == UNCERTAINTY else f"{value:g}"


def gain_scale(valuation: Valuation, selection: Selection) -> GainScale | None:
    """The levels of a selection; None without learnable values or the label's uncertainty."""
    before = wording.uncertainty(valuation)
    if selection.by != "learnable" or not before or before <= 0:
        return None
    errors = _errors(valuation, selection)
    if errors is not None:
        return GainScale(wording.PredictionWords.of(valuation).gained, errors)
    levels = []
    for step in selection.steps:
        start = step.value - step.adds.gain
        low, high = (
            None if end is None else 100 * (start + end) / before for end in (step.adds.low, step.adds.high)
        )
        levels.append(Level(100 * step.value / before, low, high))
    return GainScale(UNCERTAINTY, tuple(levels))


def distinct_uplift(valuation: Valuation) -> list[UpliftRow]:
    """Rows for nobody, each party alone, all but each, and all, in this order, without duplicates."""
    order = {"nobody": 0, "alone": 1, "all_but": 2, "all": 3}
    rows: dict[frozenset[str], UpliftRow] = {}
    for role in ("nobody", "all", "alone", "all_but"):
        for row in valuation.uplift or ():
            if row.role == role:
                rows.setdefault(frozenset(row.parties), row)
    return sorted(rows.values(), key=lambda row: order[row.role])


def signed_percent(part: float) -> str:
    """A change as a part of a whole, with its sign."""
    if abs(part) < 0.0005:
        return "0%" if part <= 0 else "<0.1%"
    return f"{part:+.1%}".replace("-", "−")


def _errors(valuation: Valuation, selection: Selection) -> tuple[Level, ...] | None:
    names = [step.party for step in selection.steps]
    path = [valuation.uplift_of(names[: k + 1]) for k in range(len(names))]
    known = [row for row in path if row is not None and row.errors_avoided_per_1000 is not None]
    if len(known) < len(path) or not _agree_with_the_advice(known, selection):
        return None
    return tuple(
        Level(row.errors_avoided_per_1000 or 0.0, *(row.errors_avoided_interval or (None, None)))
        for row in known
    )


def _agree_with_the_advice(path: Sequence[UpliftRow], selection: Selection) -> bool:
    n_invited = len(selection.parties)
    if n_invited == 0:
        return False
    avoided = [0.0, *(row.errors_avoided_per_1000 or 0.0 for row in path)]
    ends = path[n_invited - 1].errors_avoided_interval
    clear = avoided[n_invited] >= 1 and (ends is None or ends[0] > 0)
    useful, useless = [], [0.05]
    for step, (before, after) in zip(selection.steps, pairwise(avoided), strict=True):
        if step.adds.verdict is ContributionVerdict.ADDS:
            useful.append(after - before)
        else:
            useless.append(abs(after - before))
    return clear and min(useful) > max(useless)
