"""Random rounding of the data parties' numbers, coarser than the effect of one person.

A data party that knows almost all labels can compute its value for every guess at the others. On a fixed grid
it compares the guesses with its number, and can choose its column so that one label decides the direction of
the rounding. Here only the servers know the direction:

- The step is public, `share_step`. One label changes a value by up to about ln(n) / n nats.
- A number between two steps becomes one of them, the nearer one with the greater probability, so that it is
  right on average. A change of d nats shows with probability d / step.
- The chance derives from the salts of both servers, which they committed to before they opened their answers.
  Equal numbers are rounded alike: the total of a single party reveals no more than its value.

The task party, whose labels these are, gets its numbers on the grid.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fedvalue.crypto.keys import digest
from fedvalue.protocol.release_grid import TOLERANCE, is_error, ladder, rounded_floats

NATS = 30
"""Step times n, in nats: benchmarks/curious_segments.py measures what a data party reads at this step."""

GRIDS = 10
"""Least number of grid steps in a step: the servers agree on numbers on the grid, and round those."""

_CHANCES = 2**64


def share_step(grid: Fraction, n_samples: int) -> Fraction:
    """Step of a data party's numbers, in nats; `grid` is the step of the agreement's grid."""
    return next(size for size in ladder(GRIDS * grid) if size * n_samples >= NATS)


@dataclass(frozen=True, slots=True)
class ShareRounding:
    """The random rounding of one run; only the servers know `secret`."""

    step: Fraction
    secret: bytes = field(repr=False)

    def rounded(self, tree: Any) -> Any:
        """A JSON-like tree with every number rounded."""
        return rounded_floats(
            tree, lambda field, value: self._error(value) if is_error(field) else self._number(value)
        )

    def _number(self, value: float) -> float:
        return float(math.floor(Fraction(value) / self.step + self._chance(b"number", value)) * self.step)

    def _error(self, error: float) -> float:
        """The error, plus that of the rounding (at most a step) and a random part of a step; 0 stays 0."""
        if error <= TOLERANCE:
            return 0.0
        least = Fraction(error) + (1 + self._chance(b"error", error)) * self.step
        return next(float(size) for size in ladder(self.step) if size >= least)

    def _chance(self, kind: bytes, value: float) -> Fraction:
        """A secret number from 0 to 1, the same for the same value."""
        drawn = digest(b"share-rounding", self.secret, kind, struct.pack(">d", value))
        return Fraction(int.from_bytes(drawn[:8]), _CHANCES)
