r"""Exact Shapley-CMI of a joint table, from the cost of every coalition.

Theory. With n h(S) = Σ_B c(B) over the blocks of the samples that agree on X_t and X_S, c(B) = ξ(N_B) −
Σ_y ξ(N_{B,y}) and ξ(k) = k ln k, the value of a party is

    φ_d = Σ_{S∌d} w(|S|) [h(S) − h(S ∪ d)] = Σ_S w(|S|) h(S) − Σ_{S∋d} [w(|S|−1) + w(|S|)] h(S)

with w(s) = s!(p−s−1)!/p! and w(p) = 0: one sum for everybody, less what counts against d.

Three ways to sum, each where it is fast:
- Most columns are decided one after another, inside the coalition or outside. A column inside splits the
  blocks. Pure parts cost nothing to any larger coalition.
- A block of at most six items is summed in closed form for all coalitions of the columns still undecided.
  With a(U) = Σ_{V⊆U} (−1)^{|U|−|V|} c(V), and A_U the columns on which the items of U agree, it costs the
  coalition T Σ_U a(U)·[T ⊆ A_U], and the weights of all T ⊆ A_U are summed beforehand.
- The last eight columns are decided all at once. Items that agree on them are merged into rows. For each row
  of a block, the samples that agree with it on a coalition S are those whose columns of agreement contain
  S: a sum over supersets, in eight passes over 256 cells for eight rows at a time. A block's cost is divided
  among its samples whose label is not its most frequent one, so only rows with such samples take a lane.

The columns that tell least are in the cube, where items then merge best; those that tell most are decided
first, so that blocks become pure early.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, fsum, inf, log2
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.cubes import cube_kernels as counted
from fedvalue.valuation.cubes.coalition_kernels import count_path, sum_coalitions
from fedvalue.valuation.cubes.cube_table import CUBE_COLUMNS, CubeTable, cube_scratch, cube_table
from fedvalue.valuation.entropies import CmiValues
from fedvalue.valuation.frozen_random import random_orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.items import ItemTable

PATHS = 4
"""Leaves of each size whose work is counted to predict that of all."""

PATH_SEED = 11
"""Of the sample of leaves; any would do."""

TASK_SECONDS = 0.1
"""Predicted seconds of a task: a request to stop is noticed after each."""

MOST_TASKS = 1 << 12
"""Every task goes the way to its first leaf again."""

LEAF_SECONDS = 0.6e-6
SPLIT_SECONDS = 8.0e-9
CLOSED_SECONDS = 0.4e-6
SMALL_SECONDS = 0.35e-6
PAIR_SECONDS = 4.0e-9
"""Cost of a leaf, of an item split, of a block closed above the leaves and at one, and of comparing two rows.
Measured on one core (Spect, Credit, Breast, Music)."""


@dataclass(frozen=True, slots=True)
class PrefixSum:
    """The sum over the coalitions of one task.

    Args:
        everybody: What counts for every party.
        against: What counts against each column.
    """

    everybody: float
    against: Floats


class CubeSum:
    """The exact sum over all coalitions of an item table.

    Args:
        table: The table.
        column_of: The column of each party, -1 for a party that explains nothing.
        items: Where both come from.
        time_limit: Seconds after which to give up; no limit when None.
    """

    def __init__(
        self,
        table: CubeTable,
        column_of: NDArray[np.int64],
        items: ItemTable,
        time_limit: float | None = None,
    ) -> None:
        self._table, self._column_of = table, column_of
        self._items, self._time_limit = items, time_limit
        self._seconds = one_core_seconds(table)

    @classmethod
    def of(cls, items: ItemTable, *, time_limit: float | None = None) -> CubeSum | None:
        """The sum for a table, or None where it does not take it (see `cube_table`)."""
        laid_out = cube_table(items)
        return None if laid_out is None else cls(*laid_out, items, time_limit)

    def predicted_seconds(self, n_workers: int = 1) -> float:
        """The time that the sum should take on this number of workers."""
        return self._seconds / n_workers

    def run(self, execution: Execution = HERE) -> CmiValues | None:
        """Sum to the end, or until the time limit or a person stops it: then None."""
        deadline = inf if self._time_limit is None else monotonic() + self._time_limit
        tasks = list(self._tasks())
        sums: list[PrefixSum] = []
        with engines.using(execution.executor) as pool, execution.stop.offered():
            if len(tasks) == 1:  # submitting it would take longer
                parts = iter([sum_prefix(self._table, *tasks[0])])
            else:
                shared = engines.share(pool, self._table)
                parts = engines.map_in_order(pool, sum_prefix, ((shared, *task) for task in tasks))
            for part in parts:
                sums.append(part)
                execution.report(len(sums), len(tasks), f"{2**self._table.n_columns:.2g} coalitions")
                if len(sums) < len(tasks) and (execution.stop.asked or monotonic() > deadline):
                    return None
        everybody = fsum(part.everybody for part in sums)
        against = [fsum(part.against[c] for part in sums) for c in range(self._table.n_columns)]
        values = np.append(everybody - np.array(against), 0.0)[self._column_of]
        return CmiValues.of(self._items, values / self._items.n_samples)

    def _tasks(self) -> Iterator[tuple[int, int]]:
        """Prefixes of the decided columns, the longest task first."""
        wanted = min(MOST_TASKS, max(1.0, self._seconds / TASK_SECONDS))
        n_prefix = min(ceil(log2(wanted)), self._table.n_decided)
        for prefix in range(1 << n_prefix):
            yield prefix, n_prefix


def sum_prefix(table: CubeTable, prefix: int, n_prefix: int) -> PrefixSum:
    """Sum over the coalitions in which the last columns are as `prefix` says: a worker's unit of work."""
    scratch = cube_scratch(table)
    if table.n_columns > 0:
        sum_coalitions(table, scratch, prefix, n_prefix)
    return PrefixSum(float(scratch.everybody[-1]), scratch.against)


def one_core_seconds(table: CubeTable) -> float:
    """The cost of the sum on one core, from the work at some leaves of every size; it looks at no clock."""
    if table.n_columns == 0:
        return 0.0
    scratch, totals = cube_scratch(table), np.zeros(5)
    seconds = 0.0
    for size in range(table.n_decided + 1):
        paths = list(_paths(table.n_decided, size))
        for path in paths:
            count_path(table, scratch, path << table.n_cube, totals)
            seconds += comb(table.n_decided, size) / len(paths) * _leaf_seconds(table, totals)
    return seconds


def _paths(n: int, size: int) -> Iterator[int]:
    """All coalitions of this size of n columns, or some of them, drawn at random."""
    if comb(n, size) <= PATHS:
        chosen = [list(columns) for columns in combinations(range(n), size)]
    else:
        orders = random_orders(PATHS, n, seed=PATH_SEED, stream=size)
        chosen = [order[:size].tolist() for order in orders]
    for columns in chosen:
        yield sum(1 << column for column in columns)


def _leaf_seconds(table: CubeTable, totals: Floats) -> float:
    n_words, n_labels = table.packed.shape[1], table.n_labels
    # A cell takes eight additions to each word, a look-up for each label and for their sum, and a division.
    row = (1 << CUBE_COLUMNS) * (0.4 * n_words + 0.5 * (n_labels + 1)) * 1e-9
    return float(
        LEAF_SECONDS
        + SPLIT_SECONDS * totals[counted.SPLIT]
        + CLOSED_SECONDS * totals[counted.CLOSED]
        + SMALL_SECONDS * totals[counted.SMALL]
        + PAIR_SECONDS * totals[counted.PAIRS]
        + row * totals[counted.ROWS]
    )
