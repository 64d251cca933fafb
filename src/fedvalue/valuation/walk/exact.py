r"""Exact Shapley-CMI of a joint table.

Theory. A block B is a set of items that some coalition cannot tell apart. Its own game is the one
in which a coalition T splits B: the cost c(B) = ξ(N_B) − Σ_y ξ(N_{B,y}), ξ(k) = k ln k, falls to the
sum of c over the parts. Blocks are independent games and the Shapley value is linear, so the values
of the table are the sum of the values of its blocks. Parties on which B is constant are dummies of
B's game; let R_B be the others. The first party of R_B, each equally likely, splits B into parts,
which again are independent games. Hence, with q(B) the probability that a random order of the
parties passes through the block B,

    n · φ_d = Σ_B q(B) / |R_B| · [c(B) − Σ_{parts B' of B by d} c(B')],
    q(B')  += q(B) / |R_B|   for every d of R_B and every part B' of B by d.

Why this is fast. Many coalitions share a block, and the game of a block depends on the block alone,
not on the coalition that made it. So instead of 2^p coalitions only the *distinct* blocks are
visited, each once: for Breast with 30 parties 1.4 million blocks instead of 10^9 coalitions. A block
pure in Y costs nothing, nor do its parts: dropped. Every term is non-negative: nothing cancels.

Order. A part is constant on more columns than its block, so blocks are split by rising number of such
columns (`rank`), and have all their mass when their turn comes.

Regions. All blocks of a large table do not fit into memory, and a hash table that large is slow. So the
coalitions are sorted by their part of some *pivot* columns U: a region holds those with S ∩ U = P, in one
cell of P's columns (`regions.py`). Within it the other columns are walked as above. What differs is the mass.
Think of the parties as arriving in random order, with a = |P| of U awaited and the others of U ending the
region: a block has one mass q_j for each number j of awaited parties that came,

    share_j = q_j / (|R_B| + (a − j) + |U \ P|),   q_{j+1} += (a − j)·share_j,   q_j(B') += share_j,

with R_B now the walked parties that split B, and what a party d of R_B or U \ P explains of B counts
with share_a. A region's gains are added up in a fixed order. Which regions there are depends on the table
alone, so the values are bit-equal on any number of workers.

Stopping. A walk that its time limit or a person stops gives nothing: most of a long walk's blocks come late,
so the caller does better to sample permutations of the whole table.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import fsum, inf
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.entropies import CmiValues
from fedvalue.valuation.walk.block_table import block_table
from fedvalue.valuation.walk.prediction import WalkPrediction, predicted_walk, sample_walk
from fedvalue.valuation.walk.regions import (
    REGION_BLOCKS,
    Region,
    RegionTable,
    Walked,
    region_table,
    split_region,
    walk_region,
    whole_region,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedvalue.typing import Floats, Progress
    from fedvalue.valuation.items import ItemTable
    from fedvalue.valuation.walk.block_table import BlockTable

ESTIMATE_AFTER = 1.0
"""Seconds after which a walk whose work was not predicted estimates it, for its progress."""

ROUGH_KEEP = 200
"""Nodes per depth of a rough prediction."""

FIRST_BLOCKS = 50_000
"""A table is first walked up to this number of blocks, a tenth of a second: most tables are done by then."""

TOLERANCE = 3
"""An expected number of blocks may be this many times too small before its region is split after all."""


AHEAD = 16
"""Regions per worker that are under way. One may take a thousand times as long as another."""


@dataclass(slots=True)
class _Sums:
    """Sums over the regions walked so far."""

    n_columns: int
    gains: dict[tuple[int, ...], Floats] = field(default_factory=dict)
    n_blocks: int = 0
    work: int = 0

    def add(self, region: Region, walked: Walked) -> None:
        """Add one region."""
        self.gains[region.path] = walked.gains
        self.n_blocks += walked.n_blocks
        self.work += walked.work

    def total_gains(self) -> Floats:
        """The sum over the regions, in the order of their paths and exact before it is rounded."""
        each = [self.gains[path] for path in sorted(self.gains)]
        return np.array([fsum(gains[c] for gains in each) for c in range(self.n_columns)])


class ExactWalk:
    """The exact walk of an item table.

    Args:
        items: The items; any number of parties.
        time_limit: Seconds after which to give up; no limit when None.
        region_blocks: Blocks that a region may have before it is split into smaller ones. The values do not
            depend on it beyond rounding.
    """

    def __init__(
        self, items: ItemTable, *, time_limit: float | None = None, region_blocks: int = REGION_BLOCKS
    ) -> None:
        self._items, self._time_limit, self._region_blocks = items, time_limit, region_blocks
        self._table, self._column_of = block_table(items)
        self._is_large = False
        self._first: Walked | None = None
        self._predicted_work: float | None = None

    def predict(self, n_workers: int = 1) -> WalkPrediction:
        """Predict the cost: counted by walking where there are few blocks, else from a sample of them."""
        first = self._walk_small()
        if first is None:
            prediction = sample_walk(self._table, n_workers=n_workers)
        else:
            prediction = predicted_walk(np.array([[first.n_blocks, first.work]]), n_workers, exact=True)
        self._predicted_work = prediction.work
        return prediction

    def predicted_seconds(self, n_workers: int = 1) -> float:
        """The time that the walk should take on this number of workers."""
        return self.predict(n_workers).seconds

    def rough_seconds(self) -> float:
        """The time on one core to a factor of two or so, quickly and without a look at the clock."""
        return sample_walk(self._table, keep=ROUGH_KEEP, rounds=2).seconds

    def run(self, execution: Execution = HERE) -> CmiValues | None:
        """Walk to the end, or until the time limit or a person stops it: then None.

        Args:
            execution: Where regions are walked; its progress gets the work done and the work expected (items
                times columns). The expectation is that of `predict` where it was called, else an estimate
                made when the walk takes longer than a second, and never less than the work done.
        """
        deadline = inf if self._time_limit is None else monotonic() + self._time_limit
        sums = _Sums(self._table.n_columns)
        report = _Reporter(self._table, sums, execution.progress, self._predicted_work)
        with execution.stop.offered():
            complete = self._walk(execution, deadline, sums, report)
        if not complete:
            return None
        report(end=True)
        gains = np.append(sums.total_gains(), 0.0)
        return CmiValues.of(
            self._items,
            gains[self._column_of] / self._items.n_samples,
            n_blocks=sums.n_blocks,
            work=sums.work,
        )

    def _walk_small(self) -> Walked | None:
        """Walk the whole table in this thread if it has few blocks; submitting it would take longer."""
        if self._first is None and not self._is_large:
            if self._table.n_columns == 0:
                self._first = Walked(np.zeros(0), 0, 0)
            else:
                most = min(self._region_blocks, FIRST_BLOCKS)
                self._first = walk_region(whole_region(self._table), most)
            self._is_large = self._first is None
        return self._first

    def _walk(self, execution: Execution, deadline: float, sums: _Sums, report: _Reporter) -> bool:
        """Walk the regions, and those into which they are split; False when the walk was stopped.

        Depth first: the regions that wait are then few and large, and take little memory.
        """
        first = self._walk_small()
        if first is not None:
            sums.add(Region(), first)
            report()
            return True
        found = walk_or_split(self._table, Region(), whole_region(self._table), None)
        if isinstance(found, Walked):
            sums.add(Region(), found)
            return True
        stack = found
        with engines.using(execution.executor) as pool:
            shared = engines.share(pool, self._table)
            under_way: deque[Region] = deque()

            def tasks() -> Iterator[tuple[Any, ...]]:
                while stack:
                    under_way.append(stack.pop())
                    yield shared, under_way[-1], self._region_blocks

            while stack:
                for result in engines.map_in_order(pool, visit, tasks(), ahead=AHEAD):
                    region = under_way.popleft()
                    if isinstance(result, Walked):
                        sums.add(region, result)
                    else:
                        stack += result
                    report()
                    if execution.stop.asked or monotonic() > deadline:
                        return False
        return True


class _Reporter:
    """Reports the progress of a walk: work done, and the best estimate of all work."""

    def __init__(
        self, table: BlockTable, sums: _Sums, progress: Progress | None, predicted: float | None
    ) -> None:
        self._table, self._sums, self._progress, self._predicted = table, sums, progress, predicted
        self._start = monotonic()

    def __call__(self, *, end: bool = False) -> None:
        if self._progress is None:
            return
        if self._predicted is None and monotonic() - self._start > ESTIMATE_AFTER:
            self._predicted = sample_walk(self._table, keep=400, rounds=3).work
        work = float(self._sums.work)
        # The remaining work is not known before it is done: a walk beyond its estimate counts as nearly done.
        total = work if end else max(self._predicted or 0.0, 1.01 * work)
        self._progress(work, total, f"{self._sums.n_blocks:,} blocks")


def visit(table: BlockTable, region: Region, region_blocks: int) -> Walked | list[Region]:
    """Walk a region, or split it when it is too large: one unit of work for a worker."""
    local = region_table(table, region)
    if local is None:
        return Walked(np.zeros(table.n_columns), 0, 0)
    most = None
    if region.n_blocks <= region_blocks:
        most = TOLERANCE * region_blocks if region.n_blocks > 0 else min(region_blocks, FIRST_BLOCKS)
    return walk_or_split(table, region, local, most)


def walk_or_split(
    table: BlockTable, region: Region, local: RegionTable, most_blocks: int | None
) -> Walked | list[Region]:
    """Walk a region if it has at most this number of blocks (None: do not try), or if it cannot be split."""
    walked = None if most_blocks is None else walk_region(local, most_blocks)
    if walked is None:
        smaller = split_region(table, region, local)
        if smaller:
            return smaller
        walked = walk_region(local, inf)
    assert walked is not None
    gains = np.zeros(table.n_columns)
    gains[local.columns] = walked.gains
    return Walked(gains, walked.n_blocks, walked.work)
