"""The waterfall: how much of the task party's uncertainty goes away as parties join, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.decisions.contribution import ContributionVerdict
from fedvalue.reports import wording
from fedvalue.reports.scales import round_up, ticks

if TYPE_CHECKING:
    from fedvalue.decisions.selection import Selection, Step
    from fedvalue.valuation.result import Valuation


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
        figure: What it adds, as a part of the task party's uncertainty.
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
        steps: The parties in the order of joining.
        axis: Positions and texts of the ticks.
        text: The drawing in words, for people who cannot see it.
    """

    steps: tuple[WaterfallStep, ...]
    axis: tuple[tuple[float, str], ...]
    text: str


def waterfall(valuation: Valuation, selection: Selection) -> Waterfall | None:
    """The waterfall of a selection; None where learnable values or the label's uncertainty are not known."""
    before = wording.uncertainty(valuation)
    if selection.by != "learnable" or not before or before <= 0:
        return None
    ends = [step.value - step.adds.gain + (step.adds.high or step.adds.gain) for step in selection.steps]
    top = round_up(100 * max([*ends, *(step.value for step in selection.steps), 1e-9]) / before)

    def place(value: float) -> float:
        return round(min(max(100 * (100 * value / before) / top, 0.0), 100.0), 3)

    steps = []
    for step in selection.steps:
        start = step.value - step.adds.gain
        low, high = step.adds.low, step.adds.high
        steps.append(
            WaterfallStep(
                party=step.party,
                kind=_kind(step),
                start=place(start),
                end=place(step.value),
                low=None if low is None else place(start + low),
                high=None if high is None else place(start + high),
                figure=signed_percent(step.adds.gain / before),
                note=_note(step, valuation.n_samples),
            )
        )
    said = [f"{step.party} {step.figure}" for step in steps]
    return Waterfall(
        steps=tuple(steps),
        axis=tuple((round(100 * tick / top, 3), f"{tick:g}%") for tick in ticks(top)),
        text=f"Waterfall chart of what each party adds to those before it: {wording.listing(said)}.",
    )


def signed_percent(part: float) -> str:
    """A change as a part of a whole, with its sign."""
    if abs(part) < 0.0005:
        return "0%" if part <= 0 else "<0.1%"
    return f"{part:+.1%}".replace("-", "−")


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
