"""The error that comes from having n samples and no more (`se_data`).

val(S) is the mean over samples of ln p(y|x_S, x_t) - ln p(y|x_t), so a Shapley-CMI value is a mean too:
phi_d = mean_i psi_d(i). psi_d is also the influence function of phi_d (the derivatives of the estimated
probabilities cancel, because each conditional distribution sums to 1), hence the standard error
sd(psi_d) / sqrt(n). Nothing is resampled: the number is deterministic and does not depend on how
codes are labelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.blocks import Items

EXACT_BUDGET = 300_000_000
"""Item visits that the exact walk may take: a few seconds on one core."""

SAMPLED_BUDGET = 300_000_000
"""Item visits that the sampled walk may take at most."""

MAX_PARTIES_EXACT = 24
"""Beyond this the lattice alone has more nodes than the budget has visits."""


def data_errors(
    counts: JointCounts,
    *,
    n_permutations: int = 1000,
    seed: int = 0,
    budget: int = EXACT_BUDGET,
) -> Floats:
    """Standard error of each party's Shapley-CMI over the draw of the samples, shape (n_parties,).

    Exact over the coalition lattice where that is affordable, else from seeded permutations. Both
    are deterministic, and the same for any order of the items and any relabelling of the codes,
    up to rounding.

    Args:
        counts: The joint table.
        n_permutations: Permutations used when the lattice is too large.
        seed: Of those permutations.
        budget: Item visits that the exact walk may take.
    """
    from fedvalue.valuation.blocks import items_of

    items = items_of(counts)
    psi = exact_pointwise(items, budget)
    if psi is not None:
        return _standard_errors(psi, psi, items.count)
    first, second = _two_halves(items, n_permutations, seed)
    return _standard_errors(first, second, items.count)


def exact_pointwise(items: Items, budget: int = EXACT_BUDGET) -> Floats | None:
    """Pointwise values psi of shape (n_parties, n_items), or None when the walk would pass the budget.

    The mean of psi over the samples is the exact Shapley-CMI.
    """
    from fedvalue.valuation.blocks import shapley_weights
    from fedvalue.valuation.influence_kernels import exact_influence

    if items.n_parties > MAX_PARTIES_EXACT:
        return None
    psi: NDArray[np.float64]
    psi, work = exact_influence(
        items.codes,
        items.label,
        items.count,
        items.start,
        items.width,
        shapley_weights(items.n_parties),
        budget,
    )
    return psi if work <= budget else None


def _two_halves(items: Items, n_permutations: int, seed: int) -> tuple[Floats, Floats]:
    """Pointwise values from two independent sets of permutations, each in antithetic pairs."""
    from fedvalue.valuation.influence_kernels import sampled_influence

    affordable = SAMPLED_BUDGET // max(1, items.n_items * items.n_parties)
    pairs = max(2, min(n_permutations, affordable) // 4)
    halves = []
    for k in range(2):
        rng = np.random.default_rng([seed, k])
        forward = np.array([rng.permutation(items.n_parties) for _ in range(pairs)])
        orders = np.concatenate([forward, forward[:, ::-1]])
        psi = np.zeros((items.n_parties, items.n_items))
        sampled_influence(items.codes, items.label, items.count, items.start, items.width, orders, psi)
        halves.append(psi / len(orders))
    return halves[0], halves[1]


def _standard_errors(first: Floats, second: Floats, count: NDArray[np.int64]) -> Floats:
    """sd(psi)/sqrt(n) from two estimates of psi with independent sampling errors.

    The covariance of two independent halves is an unbiased estimate of the variance of psi, where
    the variance of one sampled psi would also count the sampling error. With psi known exactly both
    arguments are the same and this is the plain variance.
    """
    n = int(count.sum())
    share = count / n
    mean_first = first @ share
    mean_second = second @ share
    covariance = ((first - mean_first[:, None]) * (second - mean_second[:, None])) @ share
    return np.asarray(np.sqrt(np.maximum(covariance, 0.0) / n))
