"""How a row's joint code is laid out under `mirror`: coordinates, strides, lanes.

Coordinate 0 is X_t, coordinate 1 is Y, then the data parties in the run's secret order. A lane is a
64-bit word that holds consecutive coordinates as digits; when the product of all code ranges is too
large for one word, further lanes follow, and a server groups by the tuple of lanes.

Every row has an authenticator (`fedvalue.protocol.mirror.authenticators`). Where all codes fit into 24 bits
it is the upper 40 bits of their word, and a row is 8 bytes; otherwise it is a word of its own.

A row whose masks do not cancel is random, and passes with probability product / 2^64 where the
authenticator shares the word: at most 2^-40. Lanes of longer rows are closed at 2^32, so that one
passes its range check with at most 2^-32, before the 64 bits of the authenticator are checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedvalue.information.contingency import JointCounts
from fedvalue.protocol.settings import RunTerms

LANE_LIMIT = 2**32
CODE_BITS = 24
"""Codes of up to this many bits share their word with the authenticator."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Place of every coordinate: its lane and its stride there."""

    radices: tuple[int, ...]
    lane: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, radices: Sequence[int]) -> RowLayout:
        """Fill lanes greedily, in the order of the coordinates."""
        lane, stride = [], []
        current, product = 0, 1
        for radix in radices:
            if product * radix > LANE_LIMIT:
                current, product = current + 1, 1
            lane.append(current)
            stride.append(product)
            product *= radix
        return cls(tuple(radices), tuple(lane), tuple(stride))

    @property
    def n_lanes(self) -> int:
        """Number of 64-bit words per row that hold codes."""
        return self.lane[-1] + 1

    @property
    def n_words(self) -> int:
        """Number of 64-bit words per row: the lanes, and the authenticator where it shares none."""
        return self.n_lanes + (not self.tag_shift)

    @property
    def tag_shift(self) -> int:
        """Bits by which the authenticator is shifted in its word: above the codes, or not at all."""
        return CODE_BITS if math.prod(self.radices) <= 1 << CODE_BITS else 0

    def lanes(self, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The codes of rows of shape (n_rows, n_words), without authenticators."""
        if self.tag_shift:
            return rows & np.uint64((1 << self.tag_shift) - 1)
        return rows[:, : self.n_lanes]

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.radices) - 2

    def limits(self) -> NDArray[np.uint64]:
        """Per lane, the number of possible words."""
        return np.array(
            [
                math.prod(r for r, lane in zip(self.radices, self.lane, strict=True) if lane == k)
                for k in range(self.n_lanes)
            ],
            dtype=np.uint64,
        )

    def digits(self, words: NDArray[np.uint64], coordinate: int) -> NDArray[np.int64]:
        """The code at one coordinate of every row of words, shape (n_rows,)."""
        column = words[:, self.lane[coordinate]] // np.uint64(self.stride[coordinate])
        return (column % np.uint64(self.radices[coordinate])).astype(np.int64)

    def joint_counts(self, words: NDArray[np.uint64], counts: NDArray[np.int64]) -> JointCounts:
        """Cells as joint counts of opaque columns, named by their place."""
        columns = [self.digits(words, 2 + k) for k in range(self.n_parties)]
        return JointCounts(
            task=self.digits(words, 0),
            label=self.digits(words, 1),
            parties=np.column_stack(columns),
            count=counts,
            names=tuple(f"column {k}" for k in range(self.n_parties)),
            n_codes=self.radices[2:],
        )


def chunk_rows(terms: RunTerms, layout: RowLayout) -> int:
    """Rows per chunk: whole rows, at most `chunk_bytes`."""
    return max(1, terms.chunk_bytes // (8 * layout.n_words))
