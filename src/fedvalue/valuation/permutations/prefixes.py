"""The states of all short coalitions, from which the walks of sampled permutations start."""

from __future__ import annotations

from math import comb
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.permutations.permutation_kernels import (
    PermutationScratch,
    Prefixes,
    extend_states,
    refine_live,
)

if TYPE_CHECKING:
    from fedvalue.valuation.items import ItemTable

MAX_ITEMS = 8_000_000
"""Items in all states together: 8 bytes each, so at most 64 MB."""

MAX_RUNS = 2
"""Runs whose prefixes a process keeps."""

MAX_DEPTH = 6
"""Deeper prefixes do not pay: later parties split few live items."""


def choose_depth(n_items: int, n_parties: int, n_permutations: int) -> int:
    """The deepest prefix whose states fit and are used several times each."""
    depth = 1
    while (
        depth < min(MAX_DEPTH, n_parties)
        and comb(n_parties, depth + 1) * n_items <= MAX_ITEMS
        and 4 * comb(n_parties, depth + 1) <= n_permutations
    ):
        depth += 1
    return depth


def permutation_scratch(table: ItemTable) -> PermutationScratch:
    """Buffers for walks over a table."""
    n = table.n_items
    # A power of two, for the hashed keys, and at least twice the items, for their load.
    size = 1 << max(9, int(2 * n - 1).bit_length())
    return PermutationScratch(
        item=np.empty(n, dtype=np.uint32),
        block=np.empty(n, dtype=np.int32),
        ids=np.zeros(size, dtype=np.int32),
        new=np.empty(n, dtype=np.int32),
        number=np.empty(n, dtype=np.int32),
        keys=np.empty(size, dtype=np.int64),
        words=np.empty(n, dtype=np.uint64),
        sums=np.empty((3, n)),
        members=np.zeros(MAX_DEPTH + 1, dtype=np.int64),
    )


def build_prefixes(table: ItemTable, depth: int) -> Prefixes:
    """Make the states of all coalitions of `depth` parties, size by size."""
    p, n = table.n_parties, table.n_items
    scratch = permutation_scratch(table)
    item, block = np.arange(n, dtype=np.uint32), np.zeros(n, dtype=np.int32)
    live, blocks, whole = refine_live(table, scratch, p, item, block, n, 1)
    states = Prefixes(
        depth=0,
        binomial=np.array([[comb(e, k) for k in range(depth + 2)] for e in range(p + 1)], dtype=np.int64),
        costs=np.array([whole]),
        cost_start=np.array([0, 1], dtype=np.int64),
        item=item,
        block=block,
        start=np.array([0, live], dtype=np.int64),
        n_blocks=np.array([blocks], dtype=np.int64),
    )
    for size in range(1, depth + 1):
        number = comb(p, size)
        most = int(number * max(1, np.diff(states.start).max(initial=0)))
        item, block = np.empty(most, dtype=np.uint32), np.empty(most, dtype=np.int32)
        start, n_blocks = np.zeros(number + 1, dtype=np.int64), np.zeros(number, dtype=np.int64)
        costs = np.zeros(number)
        used = extend_states(table, scratch, states, size, item, block, start, n_blocks, costs)
        states = Prefixes(
            depth=size,
            binomial=states.binomial,
            costs=np.concatenate([states.costs, costs]),
            cost_start=np.append(states.cost_start, len(states.costs) + number),
            item=item[:used].copy(),
            block=block[:used].copy(),
            start=start,
            n_blocks=n_blocks,
        )
    return states


_lock = Lock()
_runs: dict[str, Prefixes] = {}


def cached_prefixes(table: ItemTable, depth: int, run: str) -> Prefixes:
    """The prefixes of a run, made once per process and kept until other runs take their place."""
    with _lock:
        if run not in _runs:
            while len(_runs) >= MAX_RUNS:
                del _runs[next(iter(_runs))]
            _runs[run] = build_prefixes(table, depth)
        return _runs[run]


def forget_prefixes(run: str) -> None:
    """Free the prefixes of a run in this process."""
    with _lock:
        _runs.pop(run, None)
