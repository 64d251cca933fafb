"""The rest of a stopped walk: an estimate that adds up, with its standard error.

What a stopped walk lacks is a sum over the regions that it has not walked. Each gets draws in proportion
to how much these differ. A draw is a random order of the f parties that the region walks. With
w_n(k) = k!(n − k − 1)!/n!, a marginal after j of them, times w_{f+a+e}(a + j) / w_f(j), has what the party
explains in the region as its mean: a parties are awaited, e are outside. The latter are asked what they
explain after a random number j of parties, drawn in proportion to C(f, j)·w_{f+a+e}(a + j).

What all parties explain together is known without sampling. So each estimate is corrected by its regression
on their sum: the values add up, and what the sum is off by tells about each party's own error. The
coefficients come from the same draws, a bias of the order of the error divided by the number of draws.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.permutations import kernel as sampling_kernel
from fedvalue.valuation.permutations.prefixes import scratch_arrays
from fedvalue.valuation.permutations.table import sampling_table
from fedvalue.valuation.walk.regions import region_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.regions import Region, RegionTable
    from fedvalue.valuation.walk.table import BlockTable

# Draws of each region to begin with, and at least.
PILOT = 8


def sample_rest(
    table: BlockTable, regions: Sequence[Region], explained: float, n_draws: int, seed: int
) -> tuple[Floats, Floats]:
    """What the regions add to each column, times the number of samples, and its standard error.

    Args:
        table: The table of the walk.
        regions: What the walk has not done.
        explained: What all parties together explain in them, times the number of samples.
        n_draws: Orders to draw, about.
        seed: Of the draws.
    """
    rng = np.random.default_rng(seed)
    tables = [local for region in regions if (local := region_table(table, region)) is not None]
    # A few draws tell how much a region's draws differ. They are not used again: the sum stays unbiased.
    spread = np.array([np.sqrt(_draw(local, PILOT, rng).var(axis=0, ddof=1).sum()) for local in tables])
    mean, variance, with_sum = np.zeros((3, table.n_columns))
    for local, share in zip(tables, spread / max(spread.sum(), 1e-300), strict=True):
        number = max(PILOT, round(n_draws * share))
        samples = _draw(local, number, rng) / local.table.multiplicity
        columns = local.table.column_of
        mean[columns] += samples.mean(axis=0)
        variance[columns] += samples.var(axis=0, ddof=1) / number
        of_sum = samples @ local.table.multiplicity
        with_sum[columns] += (of_sum - of_sum.mean()) @ samples / (number - 1) / number
    sum_variance = float(table.multiplicity @ with_sum)
    # Nearly none when little else is left than the whole table, whose every order explains the same.
    if sum_variance > 1e-12 * variance.sum():
        off = table.multiplicity @ mean - explained
        mean -= with_sum / sum_variance * off
        variance -= with_sum**2 / sum_variance
    return mean, np.sqrt(np.maximum(variance, 0.0))


def _draw(local: RegionTable, n_draws: int, rng: np.random.Generator) -> Floats:
    """Estimates of what each column of the region's table explains, one per row, each unbiased."""
    table, task = local.table, local.table.n_columns
    layout = sampling_table(table)
    item, block, *scratch = scratch_arrays(layout)
    # Columns stand for several parties, of which the first that comes explains all.
    parties = np.repeat(np.arange(local.n_walked), table.multiplicity[: local.n_walked])
    f, a, n_all = len(parties), local.awaited, len(parties) + local.awaited + local.exits
    walked = np.array([_weight(n_all, a + j) / _weight(f, j) for j in range(f)])
    # The last place is nobody's where all are walked or awaited.
    outside = np.array([_weight(n_all, a + j) * comb(f, j) for j in range(min(f + 1, n_all - a))])
    drawn = rng.choice(len(outside), n_draws, p=outside / outside.sum())
    marginals = np.zeros((n_draws, task + 1))
    one = np.zeros(task + 1)

    def follow(order: NDArray[np.int64], into: Floats) -> None:
        item[:] = np.arange(table.n_items)
        block[:] = 0
        # The task party's codes come first; what they explain is nobody's.
        # One call for all arguments by position: the starred ones hide their number from a type checker.
        sampling_kernel.walk_block(  # type: ignore[call-arg]
            layout.codes, layout.widths, layout.label, layout.weight, layout.add, layout.bits, layout.xi,
            np.r_[task, order], 0.0, table.n_items, item, block, *scratch, into,
        )  # fmt: skip

    for k in range(n_draws):
        order = parties[rng.permutation(f)]
        follow(order, marginals[k])
        column, first = np.unique(order, return_index=True)
        marginals[k, column] *= walked[first]
        for watched in range(local.n_walked, task):
            one[:] = 0.0
            follow(np.r_[order[: drawn[k]], watched], one)
            marginals[k, watched] = one[watched] * outside.sum()
    return marginals[:, :task]


def _weight(n: int, k: int) -> float:
    """w_n(k) = k!(n − k − 1)!/n!, the chance that k given parties of n come first and a given one next."""
    return 1.0 / (n * comb(n - 1, k))
