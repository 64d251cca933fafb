"""Tables of few parties and few items: every coalition counted, in NumPy alone.

Compiling the kernels takes seconds, counting the coalitions of a small table milliseconds. The numbers are
those of the compiled walks up to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedvalue.information.contingency import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.items import ItemTable

MAX_PARTIES = 8
"""Beyond this the compiled walks are faster, even if they have to be compiled."""

MAX_VISITS = 5_000_000
"""Items times coalitions of a small table: a few tenths of a second."""


class CoalitionCounts(NamedTuple):
    """How a coalition splits the samples.

    Args:
        mask: The coalition; party k is bit k.
        in_block: Samples in each item's block, N(x_S, x_t).
        with_label: Those of them with the item's label, N(x_S, x_t, y).
        n_blocks: Number of blocks.
        n_cells: Number of pairs of a block and a label in it.
    """

    mask: int
    in_block: NDArray[Any]
    with_label: NDArray[Any]
    n_blocks: int
    n_cells: int


def is_small(items: ItemTable) -> bool:
    """Whether counting every coalition is quick: decided by sizes alone, alike on every machine."""
    return items.n_parties <= MAX_PARTIES and items.n_items << items.n_parties <= MAX_VISITS


def coalition_counts(items: ItemTable) -> Iterator[CoalitionCounts]:
    """The counts of every coalition, each after its part without the last member."""
    stack: list[tuple[int, int, Codes]] = [(0, 0, items.codes[-1].astype(np.int64))]
    while stack:
        mask, first, block = stack.pop()
        cell = pack([block * items.n_labels + items.label])
        in_block, with_label = (np.bincount(key, weights=items.weight) for key in (block, cell))
        yield CoalitionCounts(mask, in_block[block], with_label[cell], len(in_block), len(with_label))
        for d in range(first, items.n_parties):
            finer = pack([block * items.widths[d] + items.codes[d]])
            stack.append((mask | 1 << d, d + 1, finer))


def coalition_entropies(items: ItemTable) -> Floats:
    """H(Y | X_t, X_S) of every coalition by bit mask, in nats."""
    entropy = np.zeros(1 << items.n_parties)
    for counts in coalition_counts(items):
        surprise = np.log(counts.in_block) - np.log(counts.with_label)
        entropy[counts.mask] = float(np.sum(items.weight * surprise)) / items.n_samples
    return entropy
