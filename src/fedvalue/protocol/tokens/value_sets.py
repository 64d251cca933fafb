"""A party's samples by value: the sets that the paper's queries are about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes
from fedvalue.crypto.permute import row_order
from fedvalue.protocol.work import Column


class ValueSets:
    """A_p(v): the hashes of our samples by value, cut from one sorted array."""

    def __init__(self, hashes: aes.Blocks, values: NDArray[np.int64], n_values: int) -> None:
        row_order(bytes(16), hashes)  # raises where an id occurs twice
        self._hashes = hashes[np.argsort(values, kind="stable")]
        self.sizes = np.bincount(values, minlength=n_values)
        self._starts = np.r_[0, np.cumsum(self.sizes)]

    def of(self, value: int) -> aes.Blocks:
        """The hashes of the samples with that value."""
        return self._hashes[self._starts[value] : self._starts[value + 1]]

    @property
    def largest(self) -> int:
        """Size of the largest set."""
        return int(self.sizes.max())


def own_values(columns: list[Column]) -> NDArray[np.int64]:
    """One value per sample: the task party's are pairs (x_t, y), numbered x_t · m_y + y."""
    values = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column in columns:
        values = values * column.n_codes + column.codes
    return values
