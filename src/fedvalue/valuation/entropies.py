"""Conditional entropies of the label given some parties, counted in NumPy, in nats.

- Entropies of a result are summed over a histogram (how many blocks have k samples), so two servers that see
  other code numbers and another order of the rows get the same bits.
- Every coalition of a small table is counted here: compiling the kernels takes seconds, counting
  milliseconds. The numbers are those of the compiled walks up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fedvalue.information.contingency import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.items import ItemTable

ROUNDING = 1e-12
"""Nats below which a difference of entropies is rounding: the error of one is about ln(n) times 1e-16."""


def snapped(values: Floats) -> Floats:
    """Values in which rounding errors around zero are exactly zero.

    Where label and party are independent in the samples, a value is 0 but for rounding, which differs from
    machine to machine; a ratio of two such numbers would be anything.
    """
    return np.where(np.abs(values) <= ROUNDING, 0.0, values)


def conditional_label_entropy(table: ItemTable, block: Codes) -> float:
    """H(Y | block) for a dense block number per item."""
    n_labels = table.n_labels
    in_block = np.bincount(block, weights=table.weight)
    with_label = np.bincount(pack([block * n_labels + table.label]), weights=table.weight)
    return (_sum_xi(in_block) - _sum_xi(with_label)) / table.n_samples


def label_entropies(table: ItemTable) -> tuple[float, float]:
    """H(Y | X_t) and H(Y | X_t, X_all)."""
    task = table.codes[-1].astype(np.int64)
    everything = pack(list(table.codes))
    return conditional_label_entropy(table, task), conditional_label_entropy(table, everything)


@dataclass(frozen=True, slots=True, eq=False)
class CmiValues:
    """Shapley-CMI of all parties, in nats.

    Args:
        values: Per party.
        total: val(all) = I(X_all; Y | X_t), exact.
        label_entropy: H(Y | X_t), exact.
        se: Standard errors from sampled permutations; zeros when exact.
        n_permutations: Orders walked; None when exact.
        n_blocks: Impure blocks that an exact walk split, distinct within each region.
        work: Items times free columns, summed over those blocks.
        game: val of every coalition by bit mask, where a large table's were counted.
    """

    values: Floats
    total: float
    label_entropy: float
    se: Floats
    n_permutations: int | None = None
    n_blocks: int = 0
    work: int = 0
    game: Floats | None = None

    @classmethod
    def of(cls, table: ItemTable, values: Floats, *, se: Floats | None = None, **more: Any) -> CmiValues:
        """Values of this table's parties; exact unless standard errors come with them."""
        whole, rest = label_entropies(table)
        return cls(values, whole - rest, whole, np.zeros_like(values) if se is None else se, **more)

    @property
    def method(self) -> Literal["exact", "sampled"]:
        """How the values were computed."""
        return "exact" if self.n_permutations is None else "sampled"


def task_value(table: ItemTable) -> float:
    """I(X_t; Y): the task party's own value in the journal version, the v({t}) that its game starts from."""
    nothing = np.zeros(table.n_items, dtype=np.int64)
    task = table.codes[-1].astype(np.int64)
    gain = conditional_label_entropy(table, nothing) - conditional_label_entropy(table, task)
    return float(snapped(np.array(max(gain, 0.0))))


def alone_and_last(table: ItemTable) -> tuple[Floats, Floats]:
    """val({d}) and val(all) - val(all without d) for every party d.

    Packed prefixes and suffixes give each "all without d" from two columns instead of p - 1.
    """
    p = table.n_parties
    columns = table.codes[:-1].astype(np.int64)
    prefix = [table.codes[-1].astype(np.int64)]
    for column in columns:
        prefix.append(pack([prefix[-1], column]))
    suffix = [np.zeros(table.n_items, dtype=np.int64)]
    for column in columns[::-1]:
        suffix.append(pack([suffix[-1], column]))

    def h(*given: Codes) -> float:
        return conditional_label_entropy(table, pack(given))

    nobody, everybody = h(prefix[0]), h(prefix[p])
    alone = np.array([nobody - h(prefix[0], column) for column in columns])
    last = np.array([h(prefix[d], suffix[p - 1 - d]) - everybody for d in range(p)])
    # Neither can be negative; a difference of entropies can, by rounding.
    return snapped(np.maximum(alone, 0.0)), snapped(np.maximum(last, 0.0))


def alone_and_last_of(game: Floats) -> tuple[Floats, Floats]:
    """The same from val of every coalition by bit mask."""
    one = 1 << np.arange(len(game).bit_length() - 1)
    alone, last = game[one], game[-1] - game[(len(game) - 1) ^ one]
    return snapped(np.maximum(alone, 0.0)), snapped(np.maximum(last, 0.0))


def _sum_xi(samples: NDArray[Any]) -> float:
    """Σ k ln k over positive counts, in rising order."""
    k, times = np.unique(samples, return_counts=True)
    return float(np.sum(times * k * np.log(np.maximum(k, 1.0))))


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
    """Whether counting every coalition is quick: decided by sizes, the same on every machine."""
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
