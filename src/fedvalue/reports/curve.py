"""The selection curve as a drawing: value over cost, and where more parties are no more than noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from fedvalue.decisions.selection import select
from fedvalue.reports import wording

if TYPE_CHECKING:
    from fedvalue.decisions.selection import Selection
    from fedvalue.valuation.result import Valuation

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
class Invite:
    """A row of the order of invitation, as text."""

    party: str
    price: str
    gain: str
    noise: str
    above_noise: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """The drawing: a step line, its points, ticks, the budget, and the order of invitation."""

    path: str
    dots: tuple[Dot, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_label: str
    budget_x: float | None
    sentence: str
    text: str
    order: tuple[Invite, ...]
    basis: str


def curve(result: Valuation, prices: Mapping[str, object] | None, budget: object | None) -> Curve | None:
    """Draw the selection of a result; None with fewer than two parties.

    Without prices every party counts 1, so that the cost is the number of parties.
    """
    if len(result.parties) < 2:
        return None
    by = "learnable" if result.learnable_total is not None else "shapley-cmi"
    unit = prices is None
    asked = {party.name: 1 for party in result.parties} if prices is None else prices
    limit = budget if budget is not None else sum(Decimal(str(asked.get(p.name, 0))) for p in result.parties)
    found = select(result, asked, limit, by=by)
    top_cost = max(float(found.curve[-1].cost), 1e-9)
    top_value = round_up(max(found.total, 1e-9))

    def x(cost: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * cost / top_cost, 2)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(value, 0.0) / top_value, 2)

    points = [(x(float(p.cost)), y(p.value)) for p in found.curve]
    path = f"M{points[0][0]} {points[0][1]}"
    for here in points[1:]:
        path += f"H{here[0]}V{here[1]}"
    return Curve(
        path=f"{path}H{WIDTH - RIGHT}",
        dots=tuple(
            Dot(
                px,
                py,
                f"{wording.listing(p.parties) or 'nobody'}: cost {p.cost}, {wording.nats(p.value)} nats",
            )
            for (px, py), p in zip(points, found.curve, strict=True)
            if len(points) <= MOST_DOTS
        ),
        x_ticks=tuple((x(t), f"{t:,.10g}") for t in _cost_ticks(top_cost, unit)),
        y_ticks=tuple((y(t), f"{t:g}") for t in (0.0, *ticks(top_value))),
        x_label="number of parties" if unit else "cost",
        budget_x=None if budget is None or unit else x(min(float(found.budget), top_cost)),
        sentence=_sentence(found, unit, budget is not None),
        text=_in_words(found),
        order=tuple(
            Invite(
                party=step.party,
                price=f"{step.price:,}",
                gain=wording.nats(step.gain),
                noise="not known" if step.noise is None else wording.nats(step.noise),
                above_noise=step.above_noise,
            )
            for step in found.order
        ),
        basis=found.basis,
    )


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


def _cost_ticks(top: float, unit: bool) -> tuple[float, ...]:
    if unit:
        step = max(1, math.ceil(top / 10))
        return tuple(float(k) for k in range(0, int(top) + 1, step))
    rounded = round_up(top)
    return (0.0, *(t for t in ticks(rounded) if t <= top))


def _sentence(found: Selection, unit: bool, with_budget: bool) -> str:
    chosen = wording.listing(found.parties) or "nobody"
    said = ""
    if with_budget and not unit:
        part = wording.percent(found.value / found.total) if found.total > 0 else "none"
        said = f"With a budget of {found.budget:,}, invite {chosen} for {found.cost:,}: "
        said += f"{part} of what everybody would teach. "
    if found.enough == 0:
        return said + "No party adds more than noise."
    first = wording.listing([step.party for step in found.order[: found.enough]])
    if found.enough == len(found.order):
        return said + f"In the order {first}, every party adds more than noise."
    return said + f"After {first}, nobody adds more than noise."


def _in_words(found: Selection) -> str:
    points = found.curve[1:]
    shown = points if len(points) <= 10 else points[:: len(points) // 8]
    steps = [f"{wording.nats(p.value)} nats for {p.cost}" for p in shown]
    return f"Step curve of the best value over cost: {wording.listing(steps) or 'no party adds value'}."
