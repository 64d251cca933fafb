"""The waterfall: what becomes better as parties join, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.decisions.contribution import ContributionVerdict
from fedvalue.reports import wording
from fedvalue.reports.gain_scale import ERRORS, gain_scale
from fedvalue.reports.scales import round_up, ticks

if TYPE_CHECKING:
    from fedvalue.decisions.selection import Selection, Step
    from fedvalue.valuation.result import Valuation


MOST_BARS = 20
"""Beyond this, parties that are neither invited nor too dear are counted instead of drawn."""


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """One party in the waterfall; lengths in percent of the chart's width.

    Args:
        party: The party.
        kind: "invited", "unaffordable", "undecided" or "nothing".
        start: Where its bar starts: what the parties before it bring.
        end: Where its bar ends.
        low: Start of the zone in which the end may lie (95%); None where no error is known.
        high: End of that zone.
        figure: What it adds, in the unit of the waterfall.
        note: What follows for it.
    """

    party: str
    kind: str
    start: float
    end: float
    low: float | None
    high: float | None
    figure: str
    note: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The drawing.

    Args:
        unit: What the bars measure.
        steps: The parties in the order of joining.
        axis: Positions and texts of the ticks.
        text: The drawing in words, for people who cannot see it.
        left_out: How many further parties are not drawn; none of them is invited.
    """

    unit: str
    steps: tuple[WaterfallStep, ...]
    axis: tuple[tuple[float, str], ...]
    text: str
    left_out: int = 0

    @property
    def lead(self) -> str:
        """What the bars show, in a sentence."""
        if self.unit == ERRORS:
            return "Wrong decisions avoided per 1,000 cases as the parties join, one after the other."
        return (
            "How much of what cannot be predicted without these parties becomes predictable as they join, "
            "one after the other."
        )


def waterfall(valuation: Valuation, selection: Selection) -> Waterfall | None:
    """The waterfall of a selection; None where learnable values or the label's uncertainty are not known."""
    scale = gain_scale(valuation, selection)
    if scale is None:
        return None
    top = round_up(max([1e-9, *(max(level.value, level.high or level.value) for level in scale.levels)]))

    def place(value: float) -> float:
        return round(min(max(100 * value / top, 0.0), 100.0), 3)

    steps = []
    start = 0.0
    for step, level in zip(selection.steps, scale.levels, strict=True):
        steps.append(
            WaterfallStep(
                party=step.party,
                kind=_kind(step),
                start=place(start),
                end=place(level.value),
                low=None if level.low is None else place(level.low),
                high=None if level.high is None else place(level.high),
                figure=scale.figure(start, level.value),
                note=_note(step, valuation.n_samples),
            )
        )
        start = level.value
    useful = sum(step.kind in ("invited", "unaffordable") for step in steps)
    shown = max(MOST_BARS, useful)
    left_out, steps = len(steps[shown:]), steps[:shown]
    said = [f"{step.party} {step.figure}" for step in steps]
    return Waterfall(
        unit=scale.unit,
        steps=tuple(steps),
        axis=tuple((round(100 * tick / top, 3), scale.tick(tick)) for tick in (0.0, *ticks(top))),
        text=f"Waterfall chart of what each party adds to those before it: {wording.listing(said)}.",
        left_out=left_out,
    )


def _kind(step: Step) -> str:
    if step.invited:
        return "invited"
    return "unaffordable" if step.adds.verdict is ContributionVerdict.ADDS else step.adds.verdict.value


def _note(step: Step, n_samples: int) -> str:
    price = "" if step.price is None else f" for {step.price:,}"
    if step.invited:
        return f"invite{price}" + (", for what it adds to the others" if step.only_together else "")
    if step.adds.verdict is ContributionVerdict.ADDS:
        return f"beyond the budget{price}"
    if step.adds.verdict is ContributionVerdict.NOTHING:
        return "adds nothing worth mentioning"
    needed = step.adds.rows_needed
    if needed is None or needed > wording.FAR_MORE_ROWS * n_samples:
        return "undecided"
    return f"undecided; about {wording.rows(needed)} rows would settle it"
