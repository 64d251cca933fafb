"""The search behind `learnable`: leave-one-out and plug-in sums of coalitions, small ones first.

The envelope v* needs only the coalitions that may be records. A bound on what any larger coalition can
reach leaves out whole subtrees, so the search is often complete long before 2^p coalitions. Where it is
not, it deepens by size until the budget is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.statistics.blocks import items_of
from fedvalue.valuation.statistics.learnable_kernels import walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.statistics.blocks import Items

MAX_ENTRIES = 6_000_000
"""Largest table of coalitions, about 50 MB per column."""

LOG_TABLE_SIZE = 200_000
"""Logarithms kept in a table, few enough for the processor's cache."""

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a search found.

    Args:
        loo: Leave-one-out sum over the samples per coalition (see `learnable_kernels` for the numbering).
        plug: n val(S) likewise.
        order: Largest size of coalition in the tables.
        complete: Whether no larger coalition can be a record.
        party: Column of the counts for each party number of the tables.
        binomial: Pascal's triangle, which numbers the coalitions.
    """

    loo: Floats
    plug: Floats
    order: int
    complete: bool
    party: NDArray[np.int64]
    binomial: NDArray[np.int64]


def search(counts: JointCounts, alpha: float, noise: float, budget: int) -> Found:
    """Search for records among ever larger coalitions, until none is left or the budget is spent.

    Parties are numbered by rising entropy, so that the largest subtrees are left out first.
    """
    items = items_of(counts)
    party = _entropy_order(items)
    items = replace(items, codes=np.ascontiguousarray(items.codes[party]))
    binomial = _pascal(items.n_parties)
    best: Found | None = None
    for order in _orders(items.n_parties):
        # Single parties are always computed, whatever they cost.
        allowed = _UNLIMITED if best is None else budget
        loo, plug, work, n_open = _walk(items, alpha, binomial, order=order, noise=noise, budget=allowed)
        if work > allowed:
            break
        budget -= work
        best = Found(loo, plug, order, n_open == 0, party, binomial)
        if best.complete:
            break
    assert best is not None
    return best


def every_coalition(counts: JointCounts, alpha: float, order: int) -> Found:
    """The tables of all coalitions of at most `order` parties, parties in the order of the counts."""
    items = items_of(counts)
    p = items.n_parties
    binomial = _pascal(p)
    loo, plug, _, _ = _walk(items, alpha, binomial, order=order, noise=None, budget=_UNLIMITED)
    return Found(loo, plug, order, order == p, np.arange(p), binomial)


def _orders(p: int) -> list[int]:
    """Sizes to try: each walk starts over, so beyond 4 the steps grow and little work is repeated."""
    orders = [k for k in (1, 2, 3, 4, 5, 7, 10, 14) if k < p] + [p]
    return [k for k in orders if k == 1 or sum(math.comb(p, s) for s in range(k + 1)) <= MAX_ENTRIES]


def _walk(
    items: Items, alpha: float, binomial: NDArray[np.int64], *, order: int, noise: float | None, budget: int
) -> tuple[Floats, Floats, int, int]:
    """Leave-one-out table, n val table, work and open ends (see `learnable_kernels.walk`).

    Without `noise` no coalition is left out.
    """
    total, prior = _prior(items, alpha)
    row, logs = _log_tables(items, prior, alpha)
    # An item alone in its block; where it is alone in its X_t too, the coalition adds nothing.
    count = items.count
    share = (count - 1 + alpha * prior) / (count - 1 + alpha)
    single = np.where(count == total, 0.0, count * (np.log(share) - np.log(prior)))
    loo, entropy, work, n_open = walk(
        items.codes, items.label, count, items.start, items.width,
        total, single, prior, np.log(prior), row, logs, alpha, order, binomial,
        noise is not None, noise or 0.0, budget,
    )  # fmt: skip
    return loo, entropy[0] - entropy, int(work), int(n_open)


def _prior(items: Items, alpha: float) -> tuple[NDArray[np.int64], Floats]:
    """N(x_t), and the leave-one-out p(y | x_t), of each item."""
    block = np.repeat(np.arange(len(items.start) - 1), np.diff(items.start))
    total = np.bincount(block, weights=items.count)[block]
    pair = block * items.n_labels + items.label
    same = np.bincount(pair, weights=items.count)[pair]
    prior = (same - 1 + alpha / items.n_labels) / (total - 1 + alpha)
    return total.astype(np.int64), np.asarray(prior)


def _log_tables(items: Items, prior: Floats, alpha: float) -> tuple[NDArray[np.int64], Floats]:
    """Logarithms of small numbers of samples (see `learnable_kernels.score`), and each item's row."""
    distinct, row = np.unique(prior, return_inverse=True)
    rows = len(distinct) + 2
    k = np.arange(1, min(items.n_samples + 1, max(2, LOG_TABLE_SIZE // rows)))
    logs = np.zeros((rows, len(k) + 1))
    logs[0, 1:] = np.log(k)
    logs[1, 1:] = np.log(k - 1 + alpha)
    logs[2:, 1:] = np.log(k - 1 + alpha * distinct[:, None])
    return row.astype(np.int64) + 2, logs


def _entropy_order(items: Items) -> NDArray[np.int64]:
    """Parties by rising entropy of their codes.

    Entropies are rounded before they are compared: two servers that count the same table in another
    order must agree.
    """
    share = items.count / items.n_samples
    entropy = np.empty(items.n_parties)
    for k, codes in enumerate(items.codes):
        q = np.sort(np.bincount(codes, weights=share))
        q = q[q > 0]
        entropy[k] = -float(np.sum(q * np.log(q)))
    return np.argsort(np.round(entropy, 9), kind="stable").astype(np.int64)


def _pascal(p: int) -> NDArray[np.int64]:
    """Binomial coefficients C(n, k) for n, k <= p + 1 (clipped where they pass 64 bits)."""
    table = [[min(math.comb(n, k), _UNLIMITED) for k in range(p + 2)] for n in range(p + 2)]
    return np.array(table, dtype=np.int64)
