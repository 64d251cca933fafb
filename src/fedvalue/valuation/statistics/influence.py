"""The error that comes from having n samples and no more (`se_data`).

*Spread.* val(S) is the mean over samples of ln p(y|x_S, x_t) - ln p(y|x_t), so a Shapley-CMI value is a
mean too: phi_d = mean_i psi_d(i). psi_d is also the influence function of phi_d (the derivatives of the
estimated probabilities cancel, because each conditional distribution sums to 1), hence the standard
deviation sd(psi_d) / sqrt(n).

*Bias.* The plug-in estimate is too large, to first order by (degrees of freedom) / 2n with one degree
for each label seen beyond the first in each block (Miller, "Note on the bias of information estimates",
1955). The bias of phi_d is the Shapley value of that count. It is part of the error, not taken off the
value, which stays the paper's number: se_data is the root mean square error, sqrt(spread^2 + bias^2).
Without it, intervals cover too rarely at 20 samples per cell (docs/statistics.md).

Nothing is resampled: the number is deterministic and does not depend on how codes are labelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.statistics.blocks import Items

EXACT_BUDGET = 60_000_000
"""Item visits that the exact walk may take: a few seconds on one core."""

SAMPLED_BUDGET = 60_000_000
"""Item visits that the sampled walk may take at most."""

MAX_PARTIES_EXACT = 24
"""Beyond this the lattice alone has more nodes than the budget is worth."""


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """Two estimates of the pointwise values, and the first-order bias.

    Args:
        first: psi of shape (n_parties, n_items).
        second: The same from independent permutations; `first` itself when exact.
        bias: First-order bias of each value, in nats.
        count: Samples per item.
    """

    first: Floats = field(repr=False)
    second: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    count: NDArray[np.int64] = field(repr=False)

    @property
    def values(self) -> Floats:
        """Mean of psi over the samples: the Shapley-CMI of each party."""
        share = self.count / self.count.sum()
        return np.asarray(0.5 * (self.first @ share + self.second @ share))

    @property
    def spread(self) -> Floats:
        """sd(psi)/sqrt(n) of each party.

        The covariance of two halves with independent sampling errors is an unbiased estimate of the
        variance of psi, where the variance of one sampled psi would count its sampling error too.
        """
        n = int(self.count.sum())
        share = self.count / n
        first = self.first - (self.first @ share)[:, None]
        second = self.second - (self.second @ share)[:, None]
        covariance = (first * second) @ share
        return np.asarray(np.sqrt(np.maximum(covariance, 0.0) / n))


def data_errors(
    counts: JointCounts,
    *,
    n_permutations: int = 1000,
    seed: int = 0,
    budget: int = EXACT_BUDGET,
) -> Floats:
    """Root mean square error of each party's Shapley-CMI over the draw of the samples, shape (n_parties,).

    Exact over the coalition lattice where that is affordable, else from seeded permutations. Both
    are deterministic, and the same for any order of the items and any relabelling of the codes,
    up to rounding.

    Args:
        counts: The joint table.
        n_permutations: Permutations used when the lattice is too large.
        seed: Of those permutations.
        budget: Item visits that the exact walk may take.
    """
    from fedvalue.valuation.statistics.blocks import items_of

    items = items_of(counts)
    influence = exact_influence(items, budget) or sampled_influence(items, n_permutations, seed)
    return np.asarray(np.hypot(influence.spread, influence.bias))


def exact_influence(items: Items, budget: int = EXACT_BUDGET) -> Influence | None:
    """Pointwise values over all coalitions, or None when the walk would pass the budget."""
    from fedvalue.valuation.statistics import influence_kernels
    from fedvalue.valuation.statistics.blocks import shapley_weights

    p = items.n_parties
    if p > MAX_PARTIES_EXACT:
        return None
    psi, shift, work = influence_kernels.exact_influence(
        items.codes, items.label, items.count, items.start, items.width, shapley_weights(p), budget
    )
    if work > budget:
        return None
    return Influence(psi, psi, shift / (2 * items.n_samples), items.count)


def sampled_influence(items: Items, n_permutations: int, seed: int) -> Influence:
    """Pointwise values from two independent sets of permutations, each in antithetic pairs."""
    from fedvalue.valuation.statistics import influence_kernels

    p = items.n_parties
    affordable = SAMPLED_BUDGET // max(1, items.n_items * p)
    pairs = max(2, min(n_permutations, affordable) // 4)
    halves = []
    shift = np.zeros(p)
    for k in range(2):
        rng = np.random.default_rng([seed, k])
        forward = np.array([rng.permutation(p) for _ in range(pairs)])
        orders = np.concatenate([forward, forward[:, ::-1]])
        psi = np.zeros((p, items.n_items))
        influence_kernels.sampled_influence(
            items.codes, items.label, items.count, items.start, items.width, orders, psi, shift
        )
        halves.append(psi / len(orders))
    return Influence(halves[0], halves[1], shift / (4 * pairs) / (2 * items.n_samples), items.count)
