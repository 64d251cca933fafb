"""The public grid on which released numbers lie, and when two servers' numbers are the same.

An exact number can answer a question that somebody hid in a column: a sum of 24 terms with two possible
values each, known to 16 digits, shows all of them. On a grid a number carries at most log2(range / step)
bits.

- Numbers in nats are rounded to multiples of the step. Measures of prediction quality have their own grid:
  ten steps for accuracy, AUC and KS, the same per 1,000 rows for errors avoided.
- Errors are rounded up to a ladder of a few sizes per decade. Whole numbers and words are not changed.
- Two servers add in different orders, so one may round up what the other rounds down. A server accepts the
  other's number if it is the rounding of a number within `TOLERANCE` of its own. Differences below the grid
  are not compared; all others are.

A number's kind follows from the name of its field: `se_...` and `..._error` are errors.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice
from typing import Any, TypeAlias

from fedvalue.errors import InputError

TOLERANCE = 1e-9
"""Largest difference between two honest servers' numbers before rounding: they add in different orders."""

FINEST, COARSEST = 8, 1
"""Digits after the point of a grid. Steps stay well above the tolerance."""

PER_THOUSAND = 1000
LADDER = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
"""Sizes of an error within a decade."""

_METRICS = frozenset({"accuracy", "auc", "ks", "auc_gain_error", "ks_gain_error"})
_COUNTED = frozenset({"errors_avoided_per_1000", "errors_avoided_error"})

_FORM = re.compile(r"0\.(0*)1")

Rounding: TypeAlias = Callable[[float], float]


def parse_grid(text: object) -> int:
    """Digits after the point of a manifest's grid: "0.0001" has four.

    Raises:
        InputError: Not a power of ten in this form, or out of range.
    """
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    digits = len(match[1]) + 1 if match else 0
    if not COARSEST <= digits <= FINEST:
        raise InputError(f'grid must be a power of ten from "0.00000001" to "0.1", got {text!r}')
    return digits


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a run: digits after the point of numbers in nats; None for no grid."""

    digits: int | None = None

    @classmethod
    def of(cls, text: str | None) -> Grid:
        """The grid that a manifest names; None for no grid.

        Raises:
            InputError: Not a grid.
        """
        return cls(None if text is None else parse_grid(text))

    def rounding(self, field: str) -> Rounding:
        """How the numbers of a field are rounded."""
        if self.digits is None:
            return lambda value: value
        digits = self.digits - (field in _METRICS)
        unit = PER_THOUSAND if field in _COUNTED else 1
        digits -= field in _COUNTED
        if is_error(field):
            return lambda value: unit * error_size(value / unit, digits)
        return lambda value: unit * nearest(value / unit, digits)

    def rounded(self, tree: Any) -> Any:
        """A JSON-like tree with every number on the grid."""
        return rounded_floats(tree, lambda field, value: self.rounding(field)(value))

    def accepts(self, other: Any, own: Any) -> bool:
        """Whether an honest server could release another server's tree.

        Args:
            other: Its numbers, on the grid.
            own: Ours, not rounded.
        """

        def accepted(field: str, other: float, own: float) -> bool:
            rounding = self.rounding(field)
            low, high = rounding(own - TOLERANCE), rounding(own + TOLERANCE)
            return low <= other <= high if self.digits is None else other in (low, high)

        return same_tree(other, own, accepted)


def rounded_floats(tree: Any, rounding: Callable[[str, float], float], field: str = "") -> Any:
    """A JSON-like tree with every float rounded by the name of its field."""
    if isinstance(tree, dict):
        return {key: rounded_floats(item, rounding, key) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded_floats(item, rounding, field) for item in tree]
    return rounding(field, tree) if isinstance(tree, float) else tree


def same_tree(a: Any, b: Any, same_number: Callable[[str, float, float], bool], field: str = "") -> bool:
    """Whether two JSON-like trees are equal.

    Floats are equal if they are finite and `same_number` says so, given the name of their field. Other values
    must have the same type: 300 is not 300.0000000001.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_tree(a[key], b[key], same_number, key) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(same_tree(x, y, same_number, field) for x, y in pairs)
    if isinstance(a, float) and isinstance(b, float):
        return math.isfinite(a) and math.isfinite(b) and same_number(field, a, b)
    return type(a) is type(b) and bool(a == b)


def is_error(field: str) -> bool:
    """Whether a field holds standard errors."""
    return field.startswith("se_") or field.endswith("_error")


def nearest(value: float, digits: int) -> float:
    """The nearest number with this many digits after the point; never -0.0."""
    scale = 10**digits if digits >= 0 else 10.0**digits
    return round(value * scale) / scale + 0.0


def error_size(error: float, digits: int) -> float:
    """An error plus that of rounding its number, rounded up to the ladder; 0 stays 0."""
    if error <= TOLERANCE:
        return 0.0
    with_rounding = error + 0.5 * 10.0**-digits
    usual = _usual_sizes(digits)
    if with_rounding <= usual[-1]:
        return usual[bisect_left(usual, with_rounding)]
    return next(size for size in map(float, ladder(Fraction(10) ** -digits)) if size >= with_rounding)


@lru_cache(maxsize=2 * FINEST)
def _usual_sizes(digits: int) -> tuple[float, ...]:
    """The sizes of errors over twenty decades. Fractions are slow, and a result has hundreds of errors."""
    return tuple(map(float, islice(ladder(Fraction(10) ** -digits), 20 * len(LADDER))))


def ladder(step: Fraction) -> Iterator[Fraction]:
    """All sizes of errors, from one step up."""
    sizes = (
        Fraction(size) * Fraction(10) ** decade
        for decade in count(math.floor(math.log10(step)))
        for size in LADDER
    )
    return (size for size in sizes if size >= step)


def most_bits(step: Fraction, n_labels: int = 2) -> int:
    """The most bits about all persons together that a data party with a small share can learn from one run.

    It gets its learnable value, the learnable total and an error of each. A learnable value lies between
    -ln L and ln L for L labels.
    """
    return math.ceil(2 * sum(math.log2(n) for n in n_levels(step, math.log(n_labels))))


def n_levels(step: Fraction, largest: float) -> tuple[int, int]:
    """Number of different values and errors in nats on a grid, for values from -largest to largest.

    A number reveals at most the binary logarithm of this. Errors include those of rounding, two steps at most
    (`share_rounding`).
    """
    sizes = 1
    for size in ladder(step):
        sizes += 1
        if size >= largest + 2 * step:
            break
    return 2 * math.ceil(largest / step) + 1, sizes
