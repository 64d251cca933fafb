"""Shapley-CMI by sampled permutations, with exact truncation.

Each random order is walked forwards and backwards (an antithetic pair: a party that comes late in
one comes early in the other), so the mean of a pair varies less than two independent orders do. The
standard error comes from the variance of the pair means. Chunks of pairs have random streams of
their own and are merged in order, so the result depends on the seed alone, not on where it ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from fedvalue import engines
from fedvalue.errors import InputError
from fedvalue.valuation.permutations import kernel, prefixes
from fedvalue.valuation.permutations.stopping import Precision, RunningMoments
from fedvalue.valuation.permutations.table import SamplingTable, sampling_table
from fedvalue.valuation.walk.table import block_table, split_entropy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats, Progress

# Pairs in one chunk. The standard error is looked at after each chunk, so a stop rule overshoots by
# at most one; and a chunk takes milliseconds, far more than handing it out.
CHUNK_PAIRS = 512
# A variance from fewer pairs than this is not trusted to stop.
TRUSTED_PAIRS = 512


@dataclass(frozen=True, slots=True, eq=False)
class PermutationValues:
    """Sampled values, in nats.

    Args:
        values: Shapley-CMI of each party; they add up to `total` up to rounding.
        se: Their standard errors from the sampling.
        n_permutations: Orders walked.
        total: val(all), exact.
        label_entropy: H(Y | X_t), exact.
    """

    values: Floats
    se: Floats
    n_permutations: int
    total: float
    label_entropy: float


def sampled_values(
    counts: JointCounts,
    *,
    n_permutations: int = 5000,
    seed: int = 0,
    precision: float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: engines.Stop | None = None,
) -> PermutationValues:
    """Shapley-CMI of every data party from random orders of the parties.

    Args:
        counts: The joint table.
        n_permutations: Orders to walk, rounded up to pairs; with `precision` the most to walk.
        seed: Of the orders.
        precision: Stop when the largest standard error is at most this fraction of the total.
        executor: Where the work runs; threads of this machine when None.
        progress: Told how many orders are done.
        stop: Lets a person end it with the orders walked so far.

    Raises:
        InputError: Fewer than two permutations, a negative seed, or a precision outside (0, 1).
    """
    _check(n_permutations, seed, precision)
    layout = block_table(counts, merge_duplicates=False)
    table = sampling_table(layout)
    n = table.n_samples
    whole, rest = split_entropy(layout)
    total = (whole - rest) / n
    n_pairs = (n_permutations + 1) // 2
    depth = prefixes.choose_depth(table.n_items, table.n_parties, n_permutations)
    rule = None if precision is None else Precision(precision, at_least=TRUSTED_PAIRS)
    stop = stop or engines.Stop()
    found = RunningMoments.empty(table.n_parties)
    with engines.using(executor) as pool, stop.offered():
        shared = engines.share(pool, table)
        for part in engines.map_in_order(pool, walk_chunk, _chunks(shared, depth, n_pairs, seed)):
            found += part
            if progress is not None:
                progress(2.0 * found.n, 2.0 * n_pairs, "permutations")
            if stop.asked or (rule is not None and rule.satisfied(found)):
                break
    return PermutationValues(found.mean, found.se, 2 * found.n, total, whole / n)


def _check(n_permutations: int, seed: int, precision: float | None) -> None:
    if n_permutations < 2:
        raise InputError(f"n_permutations must be at least 2, got {n_permutations}")
    if seed < 0:
        raise InputError(f"seed must not be negative, got {seed}")
    if precision is not None and not 0 < precision < 1:
        raise InputError(f"precision is a fraction of the total between 0 and 1, got {precision}")


def _chunks(
    table: SamplingTable, depth: int, n_pairs: int, seed: int
) -> Iterator[tuple[SamplingTable, int, str, int, int]]:
    token = uuid4().hex
    for k, first in enumerate(range(0, n_pairs, CHUNK_PAIRS)):
        stream = int(np.random.SeedSequence([seed, k]).generate_state(1, np.uint64)[0])
        yield table, depth, token, min(CHUNK_PAIRS, n_pairs - first), stream


def walk_chunk(table: SamplingTable, depth: int, token: str, n_pairs: int, stream: int) -> RunningMoments:
    """Walk some pairs; one unit of work for a worker."""
    start = prefixes.cached(table, depth, token)
    scratch = prefixes.scratch_arrays(table)
    mean, m2 = kernel.walk_pairs(
        table.codes, table.widths, table.label, table.weight, table.add, table.bits, table.xi, start.whole,
        depth, start.binomial,
        start.costs, start.cost_start, start.item, start.block, start.start, start.n_blocks,
        n_pairs, np.uint64(stream), *scratch,
    )  # fmt: skip
    n = table.n_samples
    return RunningMoments(n_pairs, mean / n, m2 / n**2)
