"""The best value for the money: value over cost, where prices are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.reports import wording
from fedvalue.reports.scales import round_up, ticks

if TYPE_CHECKING:
    from fedvalue.decisions.selection import Selection

WIDTH, HEIGHT = 520.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 26.0, 16.0, 46.0
"""The drawing and its margins, in its own units."""

MOST_DOTS = 60
"""Beyond this the line alone is drawn; dots would cover it."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of the curve, with what it stands for."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class PriceCurve:
    """The drawing: a step line, its points, ticks and the budget.

    Args:
        path: The line, as an SVG path.
        dots: Its points.
        x_ticks: Costs and their positions.
        y_ticks: Values and their positions.
        budget_x: Position of the budget; None without one.
        text: The drawing in words.
    """

    path: str
    dots: tuple[Dot, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    budget_x: float | None
    text: str


def price_curve(selection: Selection) -> PriceCurve | None:
    """Draw the curve of a selection; None without prices."""
    if selection.cost is None:
        return None
    top_cost = max(float(selection.curve[-1].cost), 1e-9)
    whole = max(selection.total, selection.curve[-1].value, 1e-9)
    top_value = 100.0

    def x(cost: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * cost / top_cost, 2)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(value, 0.0) / top_value, 2)

    points = [(x(float(p.cost)), y(100 * p.value / whole)) for p in selection.curve]
    path = f"M{points[0][0]} {points[0][1]}" + "".join(f"H{px}V{py}" for px, py in points[1:])
    return PriceCurve(
        path=f"{path}H{WIDTH - RIGHT}",
        dots=tuple(
            Dot(
                px,
                py,
                f"{wording.listing(p.parties) or 'nobody'}: {p.cost:,}, {wording.percent(p.value / whole)}",
            )
            for (px, py), p in zip(points, selection.curve, strict=True)
            if len(points) <= MOST_DOTS
        ),
        x_ticks=tuple((x(t), f"{t:,.10g}") for t in (0.0, *ticks(round_up(top_cost))) if t <= top_cost),
        y_ticks=tuple((y(t), f"{t:g}%") for t in (0.0, *ticks(top_value))),
        budget_x=None if selection.budget is None else x(min(float(selection.budget), top_cost)),
        text=_in_words(selection, whole),
    )


def _in_words(selection: Selection, whole: float) -> str:
    points = selection.curve[1:]
    shown = points if len(points) <= 10 else points[:: len(points) // 8]
    steps = [f"{wording.percent(p.value / whole)} for {p.cost:,}" for p in shown]
    return (
        "Step curve of the most that any set of parties brings over its cost, in percent of what all bring: "
        f"{wording.listing(steps) or 'no party adds value'}."
    )
