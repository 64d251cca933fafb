r"""Exact Shapley-CMI of a joint table.

Theory. A block B is a set of items that some coalition cannot tell apart. Its own game is the one
in which a coalition T splits B: the cost c(B) = ξ(N_B) − Σ_y ξ(N_{B,y}), ξ(k) = k ln k, falls to the
sum of c over the parts. Blocks are independent games and the Shapley value is linear, so the values
of the table are the sum of the values of its blocks. Parties on which B is constant are dummies of
B's game; let R_B be the others. Whoever of R_B comes first, all equally likely, splits B into parts,
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

Regions. All blocks of a large table do not fit into memory, and looking for them in a table that large
is slow. So the coalitions are sorted by what they have of some *pivot* columns U: a region holds those with
S ∩ U = P, in one cell of P's columns (`regions.py`). Within it the other columns are walked as above.
What differs is the mass. Think of the parties as arriving in random order, with a = |P| of U awaited and the
others of U ending the region: a block has one mass q_j for each number j of awaited parties that came,

    share_j = q_j / (|R_B| + (a − j) + |U \ P|),   q_{j+1} += (a − j)·share_j,   q_j(B') += share_j,

with R_B now the walked parties that split B, and what a party d of R_B or U \ P explains of B counts
with share_a. A region's gains are added up in a fixed order. Which regions there are depends on the table
alone, so the values are bit-equal on any number of workers.

Stopping. A walk that is stopped, by its time limit or by a person, samples the regions that it has not walked
and gives their sum a standard error (`rest.py`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import fsum, inf
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue import engines
from fedvalue.errors import InputError
from fedvalue.valuation.walk.region_walk import Walked, walk_region
from fedvalue.valuation.walk.regions import REGION_BLOCKS, Region, region_table, split_region
from fedvalue.valuation.walk.rest import sample_rest
from fedvalue.valuation.walk.table import BITSET_SHARE, block_table, split_entropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats, Progress
    from fedvalue.valuation.walk.table import BlockTable

# Seconds after which a walk whose work was not predicted estimates it, for its progress.
ESTIMATE_AFTER = 1.0
# Whether a table needs regions is found out by walking it up to so many blocks: some tenths of a second.
FIRST_BLOCKS = 50_000
# An expected number of blocks may be this often too small before its region is split after all.
TOLERANCE = 3


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How to walk. The values do not depend on it beyond rounding.

    Args:
        merge_duplicates: Keep columns that split the items alike only once.
        bitset_share: Cells with fewer than 1/bitset_share of the items are kept as lists only.
        region_blocks: Blocks that a region may have before it is split into smaller ones.
        time_limit: Seconds after which the rest is sampled; no limit when None.
        rest_draws: Draws with which a stopped walk samples the rest.
        seed: Of those draws.
    """

    merge_duplicates: bool = True
    bitset_share: int = BITSET_SHARE
    region_blocks: int = REGION_BLOCKS
    time_limit: float | None = None
    rest_draws: int = 20_000
    seed: int = 0


DEFAULT_OPTIONS = WalkOptions()


@dataclass(frozen=True, slots=True, eq=False)
class ExactValues:
    """Values, in nats: exact up to rounding, unless the walk was stopped.

    Args:
        values: Shapley-CMI of each party.
        total: val(all) = I(X_all; Y | X_t).
        label_entropy: H(Y | X_t).
        n_nodes: Number of impure blocks that were split, distinct within each region.
        work: Items times free columns, summed over them.
        complete: Whether the walk came to its end.
        se: Standard errors of the sampled rest; all 0 when complete.
    """

    values: Floats
    total: float
    label_entropy: float
    n_nodes: int
    work: int
    complete: bool
    se: Floats


@dataclass(slots=True)
class _Walk:
    """What a walk has found so far; `left` are the regions that a stopped walk has not done."""

    table: BlockTable
    gains: dict[tuple[int, ...], Floats] = field(default_factory=dict)
    n_nodes: int = 0
    work: int = 0
    left: list[Region] = field(default_factory=list)

    def total_gains(self) -> Floats:
        """The sum over the regions, in the order of their paths and exact before it is rounded."""
        each = [self.gains[path] for path in sorted(self.gains)]
        return np.array([fsum(gains[c] for gains in each) for c in range(self.table.n_columns)])


class _Reporter:
    """Tells the progress of a walk: work done, and the best estimate of all work."""

    def __init__(self, walk: _Walk, progress: Progress | None, predicted: float | None) -> None:
        self._walk, self._progress, self._predicted = walk, progress, predicted
        self._start = monotonic()

    def __call__(self, *, end: bool = False) -> None:
        if self._progress is None:
            return
        walk = self._walk
        if self._predicted is None and monotonic() - self._start > ESTIMATE_AFTER:
            from fedvalue.valuation.walk.prediction import expected_work

            self._predicted = expected_work(walk.table)
        # What is left is not known before it is done: a walk beyond its estimate is told as nearly done.
        total = float(walk.work) if end else max(self._predicted or 0.0, 1.01 * walk.work)
        self._progress(float(walk.work), total, f"{walk.n_nodes:,} blocks")


def exact_values(
    counts: JointCounts,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: engines.Stop | None = None,
    options: WalkOptions = DEFAULT_OPTIONS,
    predicted_work: float | None = None,
) -> ExactValues:
    """Shapley-CMI of every data party, exact up to rounding.

    Args:
        counts: The joint table; any number of parties.
        executor: Where chunks of blocks are split; threads of this machine when None.
        progress: Told the work done and the work expected (items times columns). The expectation is
            `predicted_work` where given, else an estimate made when the walk takes longer than a second
            (see `prediction.py`), and never less than what is known to wait.
        stop: Lets a person end the walk early; the rest is then sampled.
        options: How to walk, and a time limit.
        predicted_work: From `predict_walk(counts).work`.

    Raises:
        InputError: An option is out of range.
    """
    _check(options)
    table = block_table(counts, merge_duplicates=options.merge_duplicates, bitset_share=options.bitset_share)
    whole, rest = split_entropy(table)
    walk = _Walk(table)
    stop = stop or engines.Stop()
    deadline = inf if options.time_limit is None else monotonic() + options.time_limit
    report = _Reporter(walk, progress, predicted_work)
    with engines.using(executor) as pool, stop.offered():
        _run(walk, pool, options, lambda: stop.asked or monotonic() > deadline, report)
    n = table.n_samples
    gains, errors = walk.total_gains(), np.zeros(table.n_columns)
    if walk.left:
        explained = whole - rest - float(table.multiplicity @ gains)
        more, errors = sample_rest(table, walk.left, explained, options.rest_draws, options.seed)
        gains = gains + more
    else:
        report(end=True)
    return ExactValues(
        values=gains[table.column_of] / n,
        total=(whole - rest) / n,
        label_entropy=whole / n,
        n_nodes=walk.n_nodes,
        work=walk.work,
        complete=not walk.left,
        se=errors[table.column_of] / n,
    )


def _check(options: WalkOptions) -> None:
    if options.region_blocks < 1:
        raise InputError(f"region_blocks must be at least 1, got {options.region_blocks}")
    if options.time_limit is not None and options.time_limit < 0:
        raise InputError(f"time_limit must not be negative, got {options.time_limit}")
    if options.rest_draws < 2:
        raise InputError(f"rest_draws must be at least 2, got {options.rest_draws}")


def _run(
    walk: _Walk,
    pool: Executor,
    options: WalkOptions,
    is_over: Callable[[], bool],
    report: _Reporter,
) -> None:
    """Walk the regions, and those into which they are split, until none is left or it is over.

    Depth first: what waits are then few large regions, which take little memory, and of which a walk that
    has to stop samples less badly than of many small ones.
    """
    limits = (options.region_blocks, options.bitset_share)
    # The whole table is tried here and now: for a small one, handing it out would take longer.
    stack = _take_in(walk, Region(), visit(walk.table, Region(), *limits))
    report()
    if not stack:
        return
    if is_over():
        walk.left = [Region()]
        return
    shared = engines.share(pool, walk.table)
    under_way: deque[Region] = deque()

    def tasks() -> Iterator[tuple[Any, ...]]:
        while stack:
            under_way.append(stack.pop())
            yield shared, under_way[-1], *limits

    while stack:
        for result in engines.map_in_order(pool, visit, tasks()):
            region = under_way.popleft()
            smaller = _take_in(walk, region, result)
            report()
            if is_over():
                walk.left = [*stack, *under_way, *([region] if smaller else [])]
                return
            stack += smaller


def _take_in(walk: _Walk, region: Region, result: Walked | list[Region]) -> list[Region]:
    """Add up what was walked; what was split is handed back."""
    if isinstance(result, list):
        return result
    walk.gains[region.path] = result.gains
    walk.n_nodes += result.n_blocks
    walk.work += result.work
    return []


def visit(table: BlockTable, region: Region, region_blocks: int, bitset_share: int) -> Walked | list[Region]:
    """Walk a region, or split it when it is too large: one unit of work for a worker."""
    nothing = Walked(np.zeros(table.n_columns), 0, 0)
    local = region_table(table, region, bitset_share)
    if local is None:
        return nothing
    found = None
    if region.n_blocks <= region_blocks:
        known = region.n_blocks > 0
        found = walk_region(local, TOLERANCE * region_blocks if known else min(region_blocks, FIRST_BLOCKS))
    if found is None:
        smaller = split_region(table, region, local)
        if smaller:
            return smaller
        found = walk_region(local, inf)
    assert found is not None
    gains = nothing.gains
    gains[local.table.column_of] = found.gains
    return Walked(gains, found.n_blocks, found.work)
