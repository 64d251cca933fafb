"""The states of all short coalitions, from which sampled permutations start."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.valuation.permutations import kernel
from fedvalue.valuation.permutations.refine_kernel import refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.permutations.table import SamplingTable

# Items in all states together: 6 bytes each, so about 50 MB.
MOST_ITEMS = 8_000_000
# No deeper than this: later parties split what is left in little time.
DEEPEST = 6


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes:
    """Costs of all coalitions of up to `depth` parties, and the states of those with `depth`.

    Args:
        depth: Size of the coalitions whose states are kept.
        whole: n·H(Y | X_t).
        binomial: Binomial coefficients, for ranks.
        costs: n·h(S) by size and rank.
        cost_start: Where each size starts in `costs`.
        item, block: Live items and their block numbers, state after state.
        start: Where each state starts.
        n_blocks: Live blocks of each state.
    """

    depth: int
    whole: float
    binomial: NDArray[np.int64]
    costs: Floats
    cost_start: NDArray[np.int64]
    item: NDArray[np.uint32]
    block: NDArray[np.int32]
    start: NDArray[np.int64]
    n_blocks: NDArray[np.int64]


def choose_depth(n_items: int, n_parties: int, n_permutations: int) -> int:
    """The deepest prefix whose states fit and are used several times each."""
    depth = 1
    while (
        depth < min(DEEPEST, n_parties)
        and comb(n_parties, depth + 1) * n_items <= MOST_ITEMS
        and 4 * comb(n_parties, depth + 1) <= n_permutations
    ):
        depth += 1
    return depth


def scratch_arrays(table: SamplingTable) -> tuple[Any, ...]:
    """Live items, block numbers and work space of one walk."""
    n = table.n_items
    # A power of two, for the hashed keys, and at least twice the items, for their load.
    size = 1 << max(9, int(2 * n - 1).bit_length())
    return (
        np.empty(n, dtype=np.uint32),
        np.empty(n, dtype=np.int32),
        np.zeros((3, size), dtype=np.int32),
        np.zeros(size, dtype=np.int64),
        np.zeros(n, dtype=np.uint64),
        np.zeros((3, n)),
    )


def build(table: SamplingTable, depth: int) -> Prefixes:
    """Make the states of all coalitions of `depth` parties, size by size."""
    p, n = table.n_parties, table.n_items
    binomial = np.array([[comb(e, k) for k in range(depth + 2)] for e in range(p + 1)], dtype=np.int64)
    _, _, *scratch = scratch_arrays(table)
    item, block = np.arange(n, dtype=np.uint32), np.zeros(n, dtype=np.int32)
    live, blocks, whole = refine(
        table.codes, table.widths, table.label, table.weight, table.add, table.bits, table.xi, p, item,
        block, n, 1,
        *scratch,
    )  # fmt: skip
    start, n_blocks = np.array([0, live], dtype=np.int64), np.array([blocks], dtype=np.int64)
    costs = [np.array([whole])]
    for size in range(1, depth + 1):
        number = comb(p, size)
        room = int(number * max(1, np.diff(start).max(initial=0)))
        new_item, new_block = np.empty(room, dtype=np.uint32), np.empty(room, dtype=np.int32)
        new_start, new_blocks = np.zeros(number + 1, dtype=np.int64), np.zeros(number, dtype=np.int64)
        new_costs = np.zeros(number)
        used = kernel.extend_states(
            table.codes, table.widths, table.label, table.weight, table.add, table.bits, table.xi, p, size,
            np.arange(size, dtype=np.int64), binomial, item, block, start, n_blocks,
            new_item, new_block, new_start, new_blocks, new_costs, *scratch,
        )  # fmt: skip
        item, block, start, n_blocks = new_item[:used].copy(), new_block[:used].copy(), new_start, new_blocks
        costs.append(new_costs)
    cost_start = np.concatenate([[0], np.cumsum([len(c) for c in costs])]).astype(np.int64)
    return Prefixes(
        depth, float(whole), binomial, np.concatenate(costs), cost_start, item, block, start, n_blocks
    )


_lock = Lock()
_last: tuple[str, Prefixes] | None = None


def cached(table: SamplingTable, depth: int, token: str) -> Prefixes:
    """The prefixes of a run, made once per process: `token` names the run."""
    global _last  # noqa: PLW0603 - one entry, replaced by the next run
    with _lock:
        if _last is None or _last[0] != token:
            _last = (token, build(table, depth))
        return _last[1]
