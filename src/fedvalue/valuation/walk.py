"""Exact Shapley-CMI of a joint table.

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

Order. A part is constant on more columns than its block, so blocks are split level by level of that
number (`rank`), and have all their mass when their turn comes. The blocks of a level are cut into
chunks of about equal work; chunks are independent and run wherever the executor runs them. Cuts and
the order of merging depend on the table alone, so the values are bit-equal on any number of workers.

Memory. When the blocks that wait outgrow the limit, the deeper ones are walked to their end before the
rest of the level in hand. Mass is additive, so the values stay the same; a block that is met again
later is split again.

Stopping. The masses of the blocks not yet split say exactly what is missing: Σ q(B)·φ(B). A walk that
is stopped by its time limit samples that rest and gives it a standard error (`walk_rest.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.errors import InputError
from fedvalue.valuation.walk_blocks import Blocks, SplitResult, concatenate, split
from fedvalue.valuation.walk_levels import Levels, cut, root_blocks
from fedvalue.valuation.walk_rest import sample_rest
from fedvalue.valuation.walk_table import BITSET_SHARE, BlockTable, block_table, split_entropy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats, Progress

# Seconds after which a walk whose work was not predicted estimates it, for its progress.
ESTIMATE_AFTER = 1.0
# A level of less work than this is split here and now: handing it out would take longer.
SMALL_WORK = 400_000


# The whole process then stays below 2 GB on tables of 24,000 distinct rows (benchmarks/bench_engine.py).
MEMORY_LIMIT = 512 * 2**20


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How to walk. The values do not depend on it beyond rounding.

    Args:
        merge_duplicates: Keep columns that split the items alike only once.
        bitset_share: Cells with fewer than 1/bitset_share of the items are kept as lists only.
        chunk_work: Items times columns in one chunk: some tenths of a second.
        time_limit: Seconds after which the rest is sampled; no limit when None.
        memory_limit: Bytes that waiting blocks may take before the deeper ones are finished first.
        rest_draws: Draws with which a stopped walk samples the rest.
        seed: Of those draws.
    """

    merge_duplicates: bool = True
    bitset_share: int = BITSET_SHARE
    chunk_work: int = 20_000_000
    time_limit: float | None = None
    memory_limit: int = MEMORY_LIMIT
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
        n_nodes: Number of distinct impure blocks that were split.
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
    """What a walk has found so far.

    `in_hand` is the work of the level that is being split; `unsplit` is what a stopped walk has left over.
    """

    table: BlockTable
    levels: Levels
    gains: Floats
    carry: Floats
    n_nodes: int = 0
    work: int = 0
    in_hand: float = 0.0
    unsplit: list[Blocks] = field(default_factory=list)

    def take_in(self, result: SplitResult) -> None:
        """Add the result of one chunk, compensated."""
        term = result.gains - self.carry
        bigger = self.gains + term
        self.carry = (bigger - self.gains) - term
        self.gains = bigger
        self.n_nodes += result.n_blocks
        self.work += result.work
        self.levels.add(result.parts)


class _Reporter:
    """Tells the progress of a walk: work done, and the best estimate of all work."""

    def __init__(self, walk: _Walk, progress: Progress | None, predicted: float | None) -> None:
        self._walk, self._progress, self._predicted = walk, progress, predicted
        self._start = monotonic()

    def __call__(self) -> None:
        if self._progress is None:
            return
        walk = self._walk
        if self._predicted is None and monotonic() - self._start > ESTIMATE_AFTER:
            from fedvalue.valuation.prediction import expected_work

            self._predicted = expected_work(walk.table)
        known = walk.work + walk.in_hand + walk.levels.waiting_work()
        self._progress(float(walk.work), max(self._predicted or 0.0, known), f"{walk.n_nodes:,} blocks")


def exact_values(
    counts: JointCounts,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
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
        options: How to walk, and a time limit.
        predicted_work: From `predict_walk(counts).work`.

    Raises:
        InputError: An option is out of range.
    """
    _check(options)
    table = block_table(counts, merge_duplicates=options.merge_duplicates, bitset_share=options.bitset_share)
    whole, rest = split_entropy(table)
    roots = root_blocks(table)
    walk = _Walk(
        table,
        Levels(table.n_columns, roots.generator.shape[1]),
        np.zeros(table.n_columns),
        np.zeros(table.n_columns),
    )
    walk.levels.add(roots)
    deadline = None if options.time_limit is None else monotonic() + options.time_limit
    with engines.using(executor) as pool:
        _run(walk, pool, options, deadline, _Reporter(walk, progress, predicted_work))
    n = table.n_samples
    gains, errors = walk.gains, np.zeros(table.n_columns)
    if walk.unsplit:
        more, errors = sample_rest(table, concatenate(walk.unsplit), options.rest_draws, options.seed)
        gains = gains + more
    return ExactValues(
        values=gains[table.column_of] / n,
        total=(whole - rest) / n,
        label_entropy=whole / n,
        n_nodes=walk.n_nodes,
        work=walk.work,
        complete=not walk.unsplit,
        se=errors[table.column_of] / n,
    )


def _check(options: WalkOptions) -> None:
    if options.chunk_work < 1:
        raise InputError(f"chunk_work must be at least 1, got {options.chunk_work}")
    if options.time_limit is not None and options.time_limit < 0:
        raise InputError(f"time_limit must not be negative, got {options.time_limit}")
    if options.rest_draws < 2:
        raise InputError(f"rest_draws must be at least 2, got {options.rest_draws}")


def _run(
    walk: _Walk,
    pool: Executor,
    options: WalkOptions,
    deadline: float | None,
    report: _Reporter,
) -> None:
    """Split level after level, until none is left or the time is over."""
    shared = engines.share(pool, walk.table)

    def descend(first: int, memory: int) -> bool:
        """Split what waits from rank `first` on, in about so much memory; False when the time is over."""
        for rank in range(first, walk.table.n_columns):
            blocks = walk.levels.take(rank)
            if blocks is None:
                continue
            n_free = walk.table.n_columns - rank
            chunks = list(cut(blocks, n_free, options.chunk_work))
            walk.in_hand += float(blocks.size.sum(dtype=np.int64)) * n_free
            for done, result in enumerate(_split_all(walk.table, shared, chunks, pool), start=1):
                walk.take_in(result)
                walk.in_hand -= result.work
                report()
                late = deadline is not None and monotonic() > deadline
                full = walk.levels.n_bytes > memory and done < len(chunks)
                if late or (full and not descend(rank + 1, memory // 2)):
                    walk.unsplit += chunks[done:]
                    return False
        return True

    if not descend(0, options.memory_limit) and (left := walk.levels.rest()) is not None:
        walk.unsplit.append(left)


def _split_all(
    table: BlockTable, shared: object, chunks: list[Blocks], pool: Executor
) -> Iterator[SplitResult]:
    """Results of all chunks of a level, in order."""
    if len(chunks) == 1 and chunks[0].size.sum(dtype=np.int64) * table.n_columns < SMALL_WORK:
        yield split(table, chunks[0])
        return
    yield from engines.map_in_order(pool, split, ((shared, chunk) for chunk in chunks))
