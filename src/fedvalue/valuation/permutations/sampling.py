"""Shapley-CMI by sampled permutations, with exact truncation.

- Each random order is walked forwards and backwards (an antithetic pair: a party that comes late in one comes
  early in the other), so the mean of a pair varies less than that of two independent orders.
- The standard error comes from the variance of the pair means.
- Chunks of pairs have random streams of their own and are merged in order, so the result depends on the seed
  and not on the workers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.entropies import CmiValues, coalition_entropies, is_small
from fedvalue.valuation.frozen_random import random_orders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from fedvalue.typing import Floats
    from fedvalue.valuation.items import ItemTable


@dataclass(frozen=True, slots=True, eq=False)
class RunningMoments:
    """Number, mean and sum of squared deviations of sample vectors; merges with `+`."""

    n: int
    mean: Floats
    m2: Floats

    @classmethod
    def empty(cls, length: int) -> RunningMoments:
        """No samples yet."""
        return cls(0, np.zeros(length), np.zeros(length))

    @classmethod
    def of(cls, samples: Floats) -> RunningMoments:
        """The moments of some samples, one per row."""
        mean = samples.mean(axis=0)
        return cls(len(samples), mean, ((samples - mean) ** 2).sum(axis=0))

    def __add__(self, other: RunningMoments) -> RunningMoments:
        """Both together (Chan, Golub and LeVeque's update)."""
        n = self.n + other.n
        if n == 0:
            return self
        delta = other.mean - self.mean
        return RunningMoments(
            n,
            self.mean + delta * (other.n / n),
            self.m2 + other.m2 + delta**2 * (self.n * other.n / n),
        )

    @property
    def se(self) -> Floats:
        """Standard error of the mean; infinite for fewer than two samples."""
        if self.n < 2:
            return np.full_like(self.mean, np.inf)
        return np.sqrt(self.m2 / (self.n - 1) / self.n)


CHUNK_PAIRS = 512
"""Pairs in one chunk. The standard error is checked after each chunk, so sampling overshoots by at most
one; and a chunk takes milliseconds, far more than its submission."""

TRUSTED_PAIRS = 64
"""A variance from fewer pairs is not trusted to stop."""

FIRST_LOOKS = (0, 64, 128, 256, CHUNK_PAIRS)
"""Cuts of the first chunk when a precision is asked for: many games are precise after a few pairs."""


def sampled_values(
    table: ItemTable,
    *,
    n_permutations: int = 5000,
    seed: int = 0,
    precision: float | None = None,
    execution: Execution = HERE,
) -> CmiValues:
    """Shapley-CMI of every data party from random orders of the parties.

    Args:
        table: The items.
        n_permutations: Orders to walk, rounded up to pairs; with `precision` the most to walk.
        seed: Of the orders.
        precision: Stop when the largest standard error is at most this fraction of the total.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    n_pairs = (n_permutations + 1) // 2
    moments = RunningMoments.empty(table.n_parties)
    with engines.using(execution.executor) as pool, execution.stop.offered():
        for part in _chunks(pool, table, n_permutations, seed, early=precision is not None):
            moments += part
            execution.report(2 * moments.n, 2 * n_pairs, "permutations")
            if execution.stop.asked or (precision is not None and _precise(moments, precision)):
                break
    return CmiValues.of(table, moments.mean, se=moments.se, n_permutations=2 * moments.n)


def _precise(moments: RunningMoments, precision: float) -> bool:
    """Whether every standard error is at most this fraction of the total.

    A standard error of n pairs has a relative error of about 1 / sqrt(2 n) itself. Before the end of the
    first chunk, two of these must fit below the bound too: otherwise an error that is too small by chance
    would stop the sampling.
    """
    if moments.n < TRUSTED_PAIRS:
        return False
    margin = 1.0 + 2.0 / math.sqrt(2.0 * moments.n) if moments.n < CHUNK_PAIRS else 1.0
    return bool(margin * moments.se.max() <= precision * abs(moments.mean.sum()))


def _chunks(
    pool: Executor, table: ItemTable, n_permutations: int, seed: int, *, early: bool
) -> Iterator[RunningMoments]:
    """The moments of the pair means, chunk by chunk; the first one in parts if `early`."""
    n_pairs = (n_permutations + 1) // 2
    chunks = (
        (first, min(end, n_pairs - stream * CHUNK_PAIRS), seed, stream)
        for stream in range(-(-n_pairs // CHUNK_PAIRS))
        for first, end in pairwise(FIRST_LOOKS if early and stream == 0 else (0, CHUNK_PAIRS))
        if stream * CHUNK_PAIRS + first < n_pairs
    )
    if is_small(table):
        entropy = coalition_entropies(table)
        yield from (look_up_chunk(entropy, *chunk) for chunk in chunks)
        return
    from fedvalue.valuation.permutations.prefixes import choose_depth, forget_prefixes

    depth = choose_depth(table.n_items, table.n_parties, n_permutations)
    shared, run = engines.share(pool, table), uuid4().hex
    try:
        tasks = ((shared, depth, run, *chunk) for chunk in chunks)
        # Each part of the first chunk may be the last, so the next is submitted only after it.
        for task in islice(tasks, len(FIRST_LOOKS) - 1 if early else 0):
            yield from engines.map_in_order(pool, walk_chunk, [task])
        yield from engines.map_in_order(pool, walk_chunk, tasks)
    finally:
        forget_prefixes(run)


def look_up_chunk(entropy: Floats, first: int, end: int, seed: int, stream: int) -> RunningMoments:
    """Pairs `first` to `end` of a stream over a table of all coalitions, by bit mask."""
    orders = random_orders(end, len(entropy).bit_length() - 1, seed=seed, stream=stream)[first:]
    marginals = np.zeros(orders.shape)
    for order in (orders, orders[:, ::-1]):
        masks = np.cumsum(1 << order, axis=1)
        drops = np.diff(-entropy[masks], axis=1, prepend=-entropy[0])
        marginals[np.arange(len(orders))[:, None], order] += 0.5 * drops
    return RunningMoments.of(marginals)


def walk_chunk(
    table: ItemTable, depth: int, run: str, first: int, end: int, seed: int, stream: int
) -> RunningMoments:
    """Walk pairs `first` to `end` of a stream; one unit of work for a worker."""
    from fedvalue.valuation.permutations.permutation_kernels import walk_pairs
    from fedvalue.valuation.permutations.prefixes import cached_prefixes, permutation_scratch

    orders = random_orders(end, table.n_parties, seed=seed, stream=stream)[first:]
    marginals = np.zeros(orders.shape)
    walk_pairs(table, cached_prefixes(table, depth, run), permutation_scratch(table), orders, marginals)
    return RunningMoments.of(marginals / table.n_samples)
