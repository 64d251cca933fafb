"""Drawings of a report: the waterfall of joining parties, the price curve, and the overlap of parties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions.contribution import ContributionVerdict
from fedvalue.decisions.games import listing
from fedvalue.decisions.leaks import Leaks
from fedvalue.decisions.redundancy import INTERACTIONS, redundancy
from fedvalue.reports import wording
from fedvalue.reports.gain_scale import UNCERTAINTY, gain_scale

if TYPE_CHECKING:
    from fedvalue.decisions.redundancy import Redundancy
    from fedvalue.decisions.selection import Selection, Step
    from fedvalue.valuation.result import Valuation


def ticks(top: float) -> tuple[float, ...]:
    """Three to six round numbers up to and including `top` (itself from `round_up`)."""
    step = 10.0 ** math.floor(math.log10(top))
    for part in (step * 2, step, step / 2, step / 5, step / 10):
        count = round(top / part, 6)
        if 3 <= count <= 6 and abs(count - round(count)) < 1e-6:
            return tuple(round(part * k, 10) for k in range(1, round(count) + 1))
    return (top,)


def round_up(value: float) -> float:
    """The next number of the form 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    for digit in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if value <= digit * power * (1 + 1e-12):
            return round(digit * power, 12)
    return round(10 * power, 12)


MOST_BARS = 20
"""Beyond this many bars, parties that are neither invited nor over budget are counted instead of drawn."""


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """One party in the waterfall; lengths in percent of the chart's width.

    Args:
        kind: "invited", "unaffordable", "undecided" or "nothing".
        start, end: Of its bar, which starts where the parties before it end.
        low, high: The 95% interval of `end`; None if no error is known.
        figure: What it adds, in the unit of the waterfall.
        note: The advice.
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
        unit: Of the bars.
        steps: The parties in the order of joining.
        axis: Positions and texts of the ticks.
        text: Alt text.
        left_out: Number of parties that are not drawn; none of them is invited.
    """

    unit: str
    steps: tuple[WaterfallStep, ...]
    axis: tuple[tuple[float, str], ...]
    text: str
    left_out: int = 0

    @property
    def lead(self) -> str:
        """A caption."""
        if self.unit != UNCERTAINTY:
            return f"{self.unit[0].upper()}{self.unit[1:]} as the parties join, one after the other."
        return (
            "How much of what cannot be predicted without these parties becomes predictable as they join, "
            "one after the other."
        )


def waterfall(valuation: Valuation, selection: Selection) -> Waterfall | None:
    """The waterfall of a selection; None without learnable values or the label's uncertainty."""
    scale = gain_scale(valuation, selection)
    if scale is None:
        return None
    top = round_up(max([1e-9, *(max(level.value, level.high or level.value) for level in scale.levels)]))

    def place(value: float) -> float:
        return round(min(max(100 * value / top, 0.0), 100.0), 3)

    steps = []
    start = 0.0
    doubtful = Leaks.of(valuation, selection.parties).parties
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
                note=_note(step, valuation.n_samples, doubtful=step.party in doubtful),
            )
        )
        start = level.value
    useful = sum(step.kind in ("invited", "unaffordable") for step in steps)
    shown = max(MOST_BARS, useful)
    left_out, steps = len(steps[shown:]), steps[:shown]
    figures = [f"{step.party} {step.figure}" for step in steps]
    return Waterfall(
        unit=scale.unit,
        steps=tuple(steps),
        axis=tuple((round(100 * tick / top, 3), scale.tick(tick)) for tick in (0.0, *ticks(top))),
        text=f"Waterfall chart of what each party adds to those before it: {listing(figures)}.",
        left_out=left_out,
    )


def _kind(step: Step) -> str:
    if step.invited:
        return "invited"
    return "unaffordable" if step.adds.verdict is ContributionVerdict.ADDS else step.adds.verdict.value


def _note(step: Step, n_samples: int, *, doubtful: bool) -> str:
    price = "" if step.price is None else f" for {step.price:,}"
    if doubtful:
        return f"check first: it reproduces the label{price and f'; price {step.price:,}'}"
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


WIDTH, HEIGHT = 520.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 26.0, 16.0, 46.0
"""The drawing and its margins, in its own units."""

_UNITS = ((1e9, "billions"), (1e6, "millions"))
"""Of costs whose ticks would run into each other if written out, from ten of a unit."""

MOST_DOTS = 60
"""Beyond this many points only the line is drawn; dots would cover it."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of the curve, with its label."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class PriceCurve:
    """The drawing: a step line, its points, ticks and the budget.

    Args:
        path: The line, as an SVG path.
        x_ticks, y_ticks: Positions of costs and values, with their texts.
        budget_x: Position of the budget; None without one.
        x_label: What the costs are, and in which unit.
        text: Alt text.
    """

    path: str
    dots: tuple[Dot, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    budget_x: float | None
    x_label: str
    text: str


def price_curve(selection: Selection) -> PriceCurve | None:
    """Draw the curve of a selection; None without prices."""
    if selection.cost is None:
        return None
    top_cost = max(float(selection.curve[-1].cost), 1e-9)
    whole = max(selection.total, selection.curve[-1].value, 1e-9)
    unit, unit_name = next(((u, name) for u, name in _UNITS if top_cost >= 10 * u), (1.0, ""))

    def x(cost: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * cost / top_cost, 2)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(value, 0.0) / 100, 2)

    points = [(x(float(p.cost)), y(100 * p.value / whole)) for p in selection.curve]
    path = f"M{points[0][0]} {points[0][1]}" + "".join(f"H{px}V{py}" for px, py in points[1:])
    return PriceCurve(
        path=f"{path}H{WIDTH - RIGHT}",
        dots=tuple(
            Dot(px, py, f"{listing(p.parties) or 'nobody'}: {p.cost:,}, {wording.percent(p.value / whole)}")
            for (px, py), p in zip(points, selection.curve, strict=True)
            if len(points) <= MOST_DOTS
        ),
        x_ticks=tuple(
            (x(t), f"{t / unit:,.10g}") for t in (0.0, *ticks(round_up(top_cost))) if t <= top_cost
        ),
        y_ticks=tuple((y(t), f"{t:g}%") for t in (0.0, *ticks(100.0))),
        budget_x=None if selection.budget is None else x(min(float(selection.budget), top_cost)),
        x_label=f"cost, in {unit_name}" if unit_name else "cost",
        text=_in_words(selection, whole),
    )


def _in_words(selection: Selection, whole: float) -> str:
    points = selection.curve[1:]
    shown = points if len(points) <= 10 else points[:: len(points) // 8]
    steps = [f"{wording.percent(p.value / whole)} for {p.cost:,}" for p in shown]
    return (
        "Step curve of the most that any set of parties brings over its cost, in percent of what all bring: "
        f"{listing(steps) or 'no party adds value'}."
    )


MAP_PARTIES = 6
"""Up to here the overlap is a square table, which fits a phone; beyond that, the strongest pairs."""

PAIRS_LISTED = 12


@dataclass(frozen=True, slots=True)
class OverlapCell:
    """One cell of the overlap table: its text, its kind, and how strong its colour is (0 to 1)."""

    text: str
    kind: str
    strength: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """Which parties overlap: a square table for few parties, else the strongest pairs.

    Args:
        sentences: The strongest relations.
        rows: One row of cells per party; empty for many parties.
        pairs: "A beside B" and the change; empty for few parties.
        basis: A remark on averaged values, if there are any.
    """

    sentences: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[OverlapCell, ...]], ...]
    pairs: tuple[tuple[str, OverlapCell], ...]
    basis: str


def overlap(valuation: Valuation) -> Overlap | None:
    """The overlap of a result's parties; None with one party or without the learnable game."""
    changes = redundancy(valuation)
    if changes is None:
        return None
    names = changes.names
    few = len(names) <= MAP_PARTIES
    rows = ((name, tuple(_cell(changes, b, a) for a in range(len(names)))) for b, name in enumerate(names))
    return Overlap(
        sentences=changes.sentences[:6],
        names=names,
        rows=tuple(rows) if few else (),
        pairs=() if few else _pairs(changes),
        basis="Averaged over the presence of the other parties." if changes.basis == INTERACTIONS else "",
    )


def _pairs(overlap: Redundancy) -> tuple[tuple[str, OverlapCell], ...]:
    names, change = overlap.names, overlap.change
    known = sorted(np.argwhere(~np.isnan(change)).tolist(), key=lambda pair: -abs(change[tuple(pair)]))
    return tuple((f"{names[b]} beside {names[a]}", _cell(overlap, b, a)) for b, a in known[:PAIRS_LISTED])


def _cell(overlap: Redundancy, b: int, a: int) -> OverlapCell:
    change = overlap.change[b, a]
    kind = "empty" if np.isnan(change) else "overlaps" if change < 0 else "complements"
    return OverlapCell(overlap.text(b, a), kind, float(min(abs(np.nan_to_num(change)), 1.0)))
