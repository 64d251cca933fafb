"""The joint table in the layout that permutation walks read: column by column, one byte per code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.table import BlockTable


@dataclass(frozen=True, slots=True, eq=False)
class SamplingTable:
    """Read-only arrays; picklable.

    Args:
        codes: Code of each item, shape (n_parties + 1, n_items); the task party's row is the last.
        widths: Number of codes of each row.
        label: Label per item, ascending.
        weight: Samples per item.
        add: What an item adds to the packed label counts of its block.
        bits: Width of a field of the packed counts; 0 when the labels do not fit into one word.
        xi: k ln k for small k.
        n_samples: Number of samples.
    """

    codes: NDArray[np.unsignedinteger]
    widths: NDArray[np.int64]
    label: NDArray[np.int64]
    weight: NDArray[np.int64]
    add: NDArray[np.uint64]
    bits: int
    xi: Floats
    n_samples: int

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.widths) - 1

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.label)


def sampling_table(table: BlockTable) -> SamplingTable:
    """The same table, turned."""
    widths = np.diff(table.first_cell)
    codes = table.cells.T.astype(np.int64) - table.first_cell[:-1, None]
    narrow = next(kind for kind in (np.uint8, np.uint16, np.uint32) if widths.max() - 1 <= np.iinfo(kind).max)
    n_labels = int(table.label.max()) + 1
    bits = table.n_samples.bit_length()
    # A shift by the full width of a word is undefined, so one label in 64 bits does not count as fitting.
    if n_labels * bits >= 64:
        bits = 0
    add = table.weight.astype(np.uint64) << (table.label * bits).astype(np.uint64)
    return SamplingTable(
        codes=np.ascontiguousarray(codes.astype(narrow)),
        widths=widths.astype(np.int64),
        label=table.label,
        weight=table.weight,
        add=add,
        bits=bits,
        xi=table.xi,
        n_samples=table.n_samples,
    )
