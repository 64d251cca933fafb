"""Pairwise Shapley interaction of the valuation game: who replaces and who complements whom.

I(i, j) is the mean, over the coalitions behind which the two may come, of
val(S + i + j) - val(S + i) - val(S + j) + val(S): negative where the two tell the same (redundant), positive
where they tell more together (synergistic). Grabisch and Roubens, "An axiomatic approach to the concept
of interaction among players in cooperative games" (1999).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.statistics.blocks import Items

EXACT_BUDGET = 60_000_000
"""Item visits that the walk over all coalitions may take: a second or two on one core."""

SAMPLED_BUDGET = 60_000_000
"""Item visits that the sampled walk may take at most."""

MAX_PARTIES_EXACT = 20
"""Up to here the table of all coalitions is small."""


def interactions(
    counts: JointCounts,
    *,
    n_permutations: int = 4000,
    seed: int = 0,
    budget: int = EXACT_BUDGET,
) -> Floats:
    """Shapley interaction index of each pair of parties, in nats, shape (n_parties, n_parties).

    Symmetric, with a diagonal of zeros. Exact up to 20 parties where the walk is affordable, else the
    mean over seeded permutations. With a single party the matrix is [[0]].

    Args:
        counts: The joint table.
        n_permutations: Permutations when not exact; a pair is observed in about 2/p of them.
        seed: Of those permutations.
        budget: Item visits that the exact walk may take.
    """
    from fedvalue.valuation.statistics.blocks import items_of

    items = items_of(counts)
    if items.n_parties == 1:
        return np.zeros((1, 1))
    table = conditional_entropies(items, budget)
    if table is not None:
        return _exact(table, items.n_parties)
    return _sampled(items, n_permutations, seed)


def conditional_entropies(items: Items, budget: int = EXACT_BUDGET) -> Floats | None:
    """h(S) of all coalitions by bit mask, or None when that is not affordable."""
    from fedvalue.valuation.statistics.interaction_kernels import entropies

    if items.n_parties > MAX_PARTIES_EXACT:
        return None
    table: NDArray[np.float64]
    table, work = entropies(items.codes, items.label, items.count, items.start, items.width, budget)
    return table / items.n_samples if work <= budget else None


def _exact(entropy: Floats, p: int) -> Floats:
    from fedvalue.valuation.statistics.interaction_kernels import exact_interactions

    # Weight of a coalition of size s behind which a pair comes: s!(p-s-2)!/(p-1)!
    weight = np.zeros(p + 3)
    for s in range(p - 1):
        weight[s] = 1.0 / ((p - 1) * math.comb(p - 2, s))
    sizes = np.arange(p + 1)
    both = np.where(sizes >= 2, weight[sizes - 2], 0.0)
    one = np.where(sizes >= 1, -weight[sizes - 1], 0.0)
    return np.asarray(exact_interactions(-entropy, p, both, one, weight[: p + 1]))


def _sampled(items: Items, n_permutations: int, seed: int) -> Floats:
    from fedvalue.valuation.statistics.interaction_kernels import sampled_interactions

    p = items.n_parties
    affordable = SAMPLED_BUDGET // max(1, 3 * items.n_items * p)
    # Balanced sets of orders, so that no pair goes unseen; the random names make each position of a pair
    # equally likely over the sets.
    rng = np.random.default_rng(seed)
    blocks = max(2, min(n_permutations, affordable) // p)
    orders = np.concatenate([_latin(rng.permutation(p)) for _ in range(blocks)])
    total, _, times = sampled_interactions(
        items.codes, items.label, items.count, items.start, items.width, orders
    )
    out: Floats = total / np.maximum(times, 1) / items.n_samples
    np.fill_diagonal(out, 0.0)
    return out


def _latin(party: NDArray[np.int64]) -> NDArray[np.int64]:
    """A set of orders in which every two parties are neighbours as often as any other two.

    The zigzag 0, 1, -1, 2, -2, ... modulo p, shifted by each element: Williams, "Experimental designs
    balanced for the estimation of residual effects of treatments" (1949). For odd p the reverse of each
    row completes the balance.
    """
    p = len(party)
    zigzag = np.array([(k + 1) // 2 if k % 2 else -(k // 2) for k in range(p)])
    rows = (zigzag[None, :] + np.arange(p)[:, None]) % p
    if p % 2:
        rows = np.concatenate([rows, rows[:, ::-1]])
    return np.asarray(party[rows], dtype=np.int64)
