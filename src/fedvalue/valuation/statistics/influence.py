"""The finite-sample error of Shapley-CMI (`se_data`).

*Spread.* val(S) is the mean over samples of ln p(y|x_S, x_t) - ln p(y|x_t), so a Shapley-CMI value is a
mean too: phi_d = mean_i psi_d(i). psi_d is also the influence function of phi_d (the derivatives of the
estimated probabilities cancel, because each conditional distribution sums to 1), hence the standard
deviation sd(psi_d) / sqrt(n).

*Bias.* The plug-in estimate is too large, to first order by (degrees of freedom) / 2n with one degree
for each label seen beyond the first in each block (Miller, "Note on the bias of information estimates",
1955). The bias of phi_d is the Shapley value of that count. It is part of the error, not taken off the
value, which stays the paper's number: se_data is the root mean square error, sqrt(spread^2 + bias^2).
Without it, intervals cover too rarely at 20 samples per cell (docs/statistics.md).

Nothing is resampled: the error is deterministic and depends neither on the numbers of codes nor on the
workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.entropies import coalition_counts, is_small
from fedvalue.valuation.frozen_random import antithetic_orders
from fedvalue.valuation.shapley_indices import joining_weights, shapley_coefficients, shapley_of
from fedvalue.valuation.statistics.pieces import pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.items import ItemTable
    from fedvalue.valuation.statistics.influence_kernels import InfluenceSums
    from fedvalue.valuation.statistics.partition_kernels import PartitionScratch

EXACT_BUDGET = 60_000_000
"""Item visits that the exact walk may take: a few seconds on one core."""

SAMPLED_BUDGET = 60_000_000
"""Item visits that the sampled walk may take at most."""

N_PERMUTATIONS = 1000
"""Permutations of the sampled walk, within its budget."""

MAX_PARTIES_EXACT = 24
"""Beyond this the lattice alone has too many nodes for the budget."""

CHUNK_PAIRS = 128
"""Pairs of orders in one task of the sampled walk."""

PILOT_PAIRS = 8
"""Most pairs of orders that predict the work of the exact walk; fewer where they would take a tenth of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """Two estimates of the pointwise values, and the first-order bias.

    Args:
        first: psi of shape (n_parties, n_items).
        second: The same from independent permutations; `first` itself when exact.
        bias: First-order bias of each value, in nats.
        weight: Samples per item.
    """

    first: Floats = field(repr=False)
    second: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    weight: NDArray[np.int64] = field(repr=False)

    @property
    def values(self) -> Floats:
        """Mean of psi over the samples: the Shapley-CMI of each party."""
        share = self.weight / self.weight.sum()
        return np.asarray(0.5 * (self.first @ share + self.second @ share))

    @property
    def spread(self) -> Floats:
        """sd(psi)/sqrt(n) of each party.

        The covariance of two halves with independent sampling errors is an unbiased estimate of the
        variance of psi, where the variance of one sampled psi would count its sampling error too.
        """
        n = int(self.weight.sum())
        share = self.weight / n
        covariance = [
            float(((first - first @ share) * (second - second @ share)) @ share)
            for first, second in zip(self.first, self.second, strict=True)
        ]
        return np.asarray(np.sqrt(np.maximum(covariance, 0.0) / n))

    @property
    def error(self) -> Floats:
        """Root mean square error of each party's value."""
        return np.asarray(np.hypot(self.spread, self.bias))


def data_errors(items: ItemTable, *, seed: int = 0, execution: Execution = HERE) -> Floats:
    """Root mean square error of each party's Shapley-CMI over the draw of the samples, shape (n_parties,).

    Exact over the coalition lattice where that is affordable, else from seeded permutations. Both are
    deterministic, and the same for any order of the items and any numbering of the codes, up to rounding.

    Args:
        items: The items.
        seed: Of the permutations.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    if is_small(items):
        return small_influence(items).error
    exact = exact_influence(items, execution=execution)
    influence = exact or sampled_influence(items, N_PERMUTATIONS, seed, execution=execution)
    return influence.error


def small_influence(items: ItemTable) -> Influence:
    """Pointwise values over all coalitions of a small table."""
    coefficients = shapley_coefficients(items.n_parties)
    psi = np.zeros((items.n_parties, items.n_items))
    freedom = np.zeros(len(coefficients))
    for counts in coalition_counts(items):
        log_share = np.log(counts.with_label) - np.log(counts.in_block)
        psi += coefficients[counts.mask][:, None] * log_share
        freedom[counts.mask] = counts.n_cells - counts.n_blocks
    return Influence(psi, psi, shapley_of(freedom) / (2 * items.n_samples), items.weight)


def exact_influence(
    items: ItemTable, budget: int = EXACT_BUDGET, *, execution: Execution = HERE
) -> Influence | None:
    """Pointwise values over all coalitions, or None when the walk would pass the budget."""
    p = items.n_parties
    if p > MAX_PARTIES_EXACT or (items.n_items << p > budget and _predicted_visits(items, budget) > budget):
        return None
    psi, base, shift = np.zeros((p, items.n_items)), np.zeros(items.n_items), np.zeros(p)
    work = 0
    with engines.using(execution.executor) as pool:
        shared = engines.share(pool, items)
        # The largest subtrees first: they take longest.
        tasks = ((shared, top, budget) for top in range(p - 1, -1, -1))
        for sums, visits in engines.map_in_order(pool, influence_task, tasks):
            psi[: len(sums.psi)] += sums.psi
            base += sums.base
            shift[: len(sums.shift)] += sums.shift
            shift -= sums.shift_base
            work += visits
            if work > budget:
                return None
    root, freedom, _ = _root(items, 1)
    psi -= base + joining_weights(p)[0] * root
    shift -= joining_weights(p)[0] * freedom
    return Influence(psi, psi, shift / (2 * items.n_samples), items.weight)


def sampled_influence(
    items: ItemTable, n_permutations: int, seed: int, *, execution: Execution = HERE
) -> Influence:
    """Pointwise values from two independent sets of permutations, each in antithetic pairs."""
    p = items.n_parties
    affordable = SAMPLED_BUDGET // max(1, items.n_items * p)
    pairs = max(2, min(n_permutations, affordable) // 4)
    halves: list[Floats | None] = [None, None]
    shift = np.zeros(p)
    with engines.using(execution.executor) as pool:
        shared = engines.share(pool, items)
        tasks = [
            (shared, min(CHUNK_PAIRS, pairs - first), seed, 2 * (first // CHUNK_PAIRS) + half)
            for first in range(0, pairs, CHUNK_PAIRS)
            for half in range(2)
        ]
        for number, sums in enumerate(engines.map_in_order(pool, orders_task, tasks)):
            half = halves[number % 2]
            halves[number % 2] = sums.psi if half is None else np.add(half, sums.psi, out=half)
            shift += sums.shift
    first, second = halves
    assert first is not None
    assert second is not None
    first /= 2 * pairs
    second /= 2 * pairs
    return Influence(first, second, shift / (4 * pairs) / (2 * items.n_samples), items.weight)


def influence_task(items: ItemTable, top: int, budget: int) -> tuple[InfluenceSums, int]:
    """One subtree of the lattice, and the item visits it took; one unit of work for a worker."""
    from fedvalue.valuation.statistics.influence_kernels import influence_subtree

    weight = joining_weights(items.n_parties)
    whole = _no_sums(top + 1, items.n_items, with_base=True)
    work = _n_impure(items)
    for piece in pieces(items, top):
        m = piece.table.n_items
        sums = _no_sums(top + 1, m, with_base=True)
        sums = sums._replace(shift=whole.shift, shift_base=whole.shift_base)
        work += influence_subtree(
            piece.table, piece.scratch, weight, top, np.zeros((top + 1, m + 1)), sums, budget - work
        )
        if work > budget:
            break
        for party in range(top + 1):
            whole.psi[party, piece.members] += sums.psi[party]
        whole.base[piece.members] += sums.base
    return whole, int(work)


def orders_task(items: ItemTable, n_pairs: int, seed: int, stream: int) -> InfluenceSums:
    """Some pairs of orders; one unit of work for a worker."""
    from fedvalue.valuation.statistics.influence_kernels import influence_along

    root, freedom, scratch = _root(items, 3)
    sums = _no_sums(items.n_parties, items.n_items)
    orders = antithetic_orders(n_pairs, items.n_parties, seed=seed, stream=stream)
    for party, times in enumerate(np.bincount(orders[:, 0], minlength=items.n_parties)):
        sums.psi[party] -= times * root
    del root
    influence_along(items, scratch, orders, freedom, sums)
    return sums


def _predicted_visits(items: ItemTable, budget: int) -> float:
    """Expected item visits of the exact walk.

    A coalition of size s + 1 visits the items that a part of it of size s has left in impure blocks.
    """
    pairs = max(1, min(PILOT_PAIRS, budget // (20 * items.n_items * items.n_parties)))
    live = orders_task(items, pairs, 0, 0).live / (2 * pairs)
    return float(sum(comb(items.n_parties, s + 1) * x for s, x in enumerate(live.tolist())))


def _root(items: ItemTable, n_depths: int) -> tuple[Floats, int, PartitionScratch]:
    """Ln p(y_i | x_t), its degrees of freedom, and buffers that begin with the impure blocks by X_t."""
    from fedvalue.valuation.statistics.influence_kernels import pointwise
    from fedvalue.valuation.statistics.partition_kernels import partition_scratch

    scratch = partition_scratch(items, n_depths, gain=True)
    freedom = int(pointwise(items, scratch, 0))
    n_live = int(scratch.starts[0, scratch.n_blocks[0]])
    gain = np.zeros(items.n_items)
    gain[scratch.items[0, :n_live]] = scratch.gain[:n_live]
    return gain, freedom, scratch


def _n_impure(items: ItemTable) -> int:
    """Items in blocks by X_t of more than one label."""
    first, last = items.by_task[items.task_start[:-1]], items.by_task[items.task_start[1:] - 1]
    return int(np.diff(items.task_start)[items.label[first] != items.label[last]].sum())


def _no_sums(n_parties: int, n_items: int, *, with_base: bool = False) -> InfluenceSums:
    from fedvalue.valuation.statistics.influence_kernels import InfluenceSums

    base = np.zeros(n_items if with_base else 0)
    return InfluenceSums(
        np.zeros((n_parties, n_items)), base, np.zeros(n_parties), np.zeros(1), np.zeros(n_parties)
    )
