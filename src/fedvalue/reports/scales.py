"""Round numbers for the axes of drawings."""

from __future__ import annotations

import math


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
