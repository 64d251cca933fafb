"""What a server adds up over all rows of the two components f and s that it holds, in one pass.

- Its term of the matrix of all products: f'f + f's + s'f. With t = f + 2s this is half of f't + t'f, so one
  product of matrices is enough.
- Sums of rows weighted by the coin, of f, of s and of the entries f (f + 2s) = f t, for the checks.

Digits of numbers are multiplied and added up in floating point, exactly (`prime_field.limbs`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.prime_field import (
    MOST_ROWS,
    Elements,
    Words,
    expanded_words,
    halved,
    joined,
    limbs,
    minus,
    plus,
    reduced,
)

N_TRIALS = 2
"""Independent random checks: what is wrong passes each with a chance of about 2^-30."""

_PIECE_NUMBERS = 1 << 15
_LEAST_PIECE = 256
"""Rows between two checkpoints: their numbers stay in the cache; more where there are many columns, for BLAS,
which then needs less than a second."""


class RowSums:
    """Sums over the rows that were added so far.

    Args:
        layout: Columns of all parties.
        coin: Decides the weights of rows.
        checkpoint: Called between pieces of the work; raises where the run is to end.
    """

    def __init__(self, layout: GramLayout, coin: bytes, checkpoint: Callable[[], None]) -> None:
        self._layout = layout
        self._coin = coin
        self._checkpoint = checkpoint
        self._columns = layout.width + N_CHECKS * len(layout.everybody)
        self._piece = max(_LEAST_PIECE, _PIECE_NUMBERS // self._columns)
        self._rows = 0
        # Of digits, since the last time that they were joined.
        self._f_t = np.zeros((2 * self._columns, 2 * self._columns))
        self._of_rows = np.zeros((2 * N_TRIALS, 4 * self._columns + 4 * layout.width))
        self._products = np.zeros((self._columns, self._columns), dtype=np.uint64)
        self._weighted = np.zeros((N_TRIALS, 2 * self._columns + layout.width), dtype=np.uint64)
        self._weights = np.zeros(N_TRIALS, dtype=np.uint64)

    def add(self, chunk: int, first: Words, second: Words) -> None:
        """Rows of both components: all parties' one-hot columns side by side, then all check columns."""
        n_rows = len(first)
        weights = expanded_words(self._coin, "gram-weights", (n_rows, N_TRIALS), chunk.to_bytes(4, "big"))
        self._weights = reduced(self._weights + reduced(weights.sum(axis=0, dtype=np.uint64)))
        for start in range(0, n_rows, self._piece):
            self._checkpoint()
            piece = slice(start, start + self._piece)
            self._add(first[piece], second[piece], limbs(weights[piece]))

    def _add(self, f: Words, s: Words, weights: NDArray[np.float64]) -> None:
        if self._rows + len(f) > MOST_ROWS:
            self._join()
        self._rows += len(f)
        t = plus(plus(f, s), s)
        z = self._layout.width
        entries = f[:, :z].astype(np.uint64) * t[:, :z]
        f_digits, t_digits = limbs(f), limbs(t)
        self._f_t += f_digits.T @ t_digits
        at = 0
        for digits in (f_digits, t_digits, limbs(entries)):
            self._of_rows[:, at : at + digits.shape[1]] += weights.T @ digits
            at += digits.shape[1]

    def _join(self) -> None:
        """Numbers out of digits, before digits become too large to be exact."""
        self._products = plus(self._products, joined(self._f_t, 2, 2))
        cut = 4 * self._columns
        parts = joined(self._of_rows[:, :cut], 2, 2), joined(self._of_rows[:, cut:], 2, 4)
        self._weighted = plus(self._weighted, np.concatenate(parts, axis=1))
        self._f_t[:] = 0.0
        self._of_rows[:] = 0.0
        self._rows = 0

    def total(self) -> Totals:
        """All sums."""
        self._join()
        return Totals(self._layout, self._products, self._weighted, self._weights)


class Totals:
    """Sums over all rows.

    Args:
        layout: Columns of all parties.
        products: f't.
        weighted: Weighted sums of f, of t and of the entries f t.
        weights: Sums of the weights.
    """

    def __init__(self, layout: GramLayout, products: Elements, weighted: Elements, weights: Elements) -> None:
        z, both = layout.width, halved(plus(products, products.T))
        checks = both[:z, z:].reshape(z, -1, N_CHECKS).sum(axis=1)
        columns = products.shape[1]
        of_f, of_t, entries = np.split(weighted, (columns, 2 * columns), axis=1)
        self.products = np.ascontiguousarray(both[:z, :z])
        """Our term of the products of one-hot columns, shape (width, width)."""
        self.checks = reduced(checks)
        """Our term of their products with the sums of all parties' check columns, shape (width, N_CHECKS)."""
        self.weighted = of_f, halved(minus(of_t, of_f))
        """Weighted sums of each component's columns, shape (N_TRIALS, n_columns)."""
        self.entries = entries
        """Weighted sums of f (f + 2s), shape (N_TRIALS, width)."""
        self.weights = weights
        """Sums of the weights, shape (N_TRIALS,)."""
