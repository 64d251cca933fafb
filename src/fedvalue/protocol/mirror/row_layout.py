"""How a row's joint code is laid out under `mirror`: coordinates, strides, lanes, chunks.

Coordinate 0 is X_t, coordinate 1 is Y, then come the data parties in the run's secret order. A lane is a
number that holds consecutive coordinates as digits, in 1, 2 or 4 bytes, the fewest that hold every
combination. Where the product of all code ranges exceeds 2^32, further lanes of 4 bytes follow, and a server
groups by the tuple of lanes. A row consists of its lanes.

A chunk is a number of rows followed by their tag of 8 bytes (`fedvalue.protocol.mirror.authenticators`).
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
TAG_BYTES = 8


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Lane and stride of every coordinate."""

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
        """Number of lanes per row."""
        return self.lane[-1] + 1

    @property
    def lane_type(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds a lane."""
        largest = 4 if self.n_lanes > 1 else np.min_scalar_type(math.prod(self.radices) - 1).itemsize
        return np.dtype(f"<u{largest}")

    @property
    def row_bytes(self) -> int:
        """Bytes per row on the wire."""
        return self.n_lanes * self.lane_type.itemsize

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
        """Cells as joint counts of opaque columns, named by their index."""
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
    """Rows per chunk: whole rows and their tag, at most `chunk_bytes`."""
    return max(1, (terms.chunk_bytes - TAG_BYTES) // layout.row_bytes)
