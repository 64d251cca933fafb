"""The search behind the joint-table game: leave-one-out and plug-in sums of coalitions, small ones first.

The envelope v* needs only the coalitions that may be records. A bound on what any larger coalition can reach
leaves out whole subtrees, so the search is often complete long before 2^p coalitions. Where it is not, it
deepens by size until the budget is spent. The coalitions of one largest member are one task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.information.contingency import pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.items import ItemTable
    from fedvalue.valuation.statistics.joint_table_kernels import KnownBest, LeaveOneOut, SubtreeTable

ALPHA = 1.0
"""Strength of the back-off to X_t, in samples (decision 0601)."""

MAX_ENTRIES = 6_000_000
"""Largest table of coalitions, about 50 MB per column."""

LOG_TABLE_SIZE = 200_000
"""Logarithms kept in a table, few enough for the processor's cache."""

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class JointTables:
    """Sums of all coalitions up to a size (see `joint_table_kernels` for the numbering).

    Args:
        loo: Leave-one-out sum over the samples per coalition; a huge negative number where left out.
        plug: n val(S) likewise.
        order: Largest size of coalition in the tables.
        complete: Whether no larger coalition can be a record.
        party: Column of each party number.
        binomial: Pascal's triangle, which numbers the coalitions.
    """

    loo: Floats
    plug: Floats
    order: int
    complete: bool
    party: NDArray[np.int64]
    binomial: NDArray[np.int64]


def search(items: ItemTable, noise: float, budget: int, execution: Execution = HERE) -> JointTables:
    """Search for records among ever larger coalitions, until none is left or the budget is spent.

    Parties are numbered by rising entropy, so that the largest subtrees are left out first.
    """
    predictor = leave_one_out(items, entropy_order(items))
    binomial = _pascal(items.n_parties)
    known = _nothing_known(binomial)
    tables: JointTables | None = None
    orders = _orders(items.n_parties)
    before = 0
    for order, following in pairwise([*orders, orders[-1] + 1]):
        # Single parties are always computed, whatever they cost.
        allowed = _UNLIMITED if tables is None else budget
        walked = _walk(items, predictor, known, order, noise, allowed, execution)
        if walked is None:
            break
        loo, entropy, best, work, ahead = walked
        budget -= work
        tables = JointTables(loo, entropy[0] - entropy, order, ahead == 0, predictor.party, binomial)
        # The next walk repeats this one and goes one party deeper, or more. While each size adds at least
        # twice what the last one did, the one after it is taken to add at least as much.
        n_sizes = following - order if ahead >= 2 * (work - before) else 1
        if tables.complete or work + n_sizes * ahead > budget:
            break
        before = work
        known = known._replace(best=best, offset=_offsets(items.n_parties, order), order=order)
    assert tables is not None
    return tables


def every_coalition(items: ItemTable, execution: Execution = HERE) -> JointTables:
    """The tables of all coalitions, parties in the order of the items."""
    p = items.n_parties
    predictor = leave_one_out(items, np.arange(p))
    binomial = _pascal(p)
    walked = _walk(items, predictor, _nothing_known(binomial), p, -1.0, _UNLIMITED, execution)
    assert walked is not None
    loo, entropy, _, _, _ = walked
    return JointTables(loo, entropy[0] - entropy, p, True, predictor.party, binomial)


def leave_one_out(items: ItemTable, party: NDArray[np.int64]) -> LeaveOneOut:
    """What the leave-one-out predictions of a table need."""
    from fedvalue.valuation.statistics.joint_table_kernels import LeaveOneOut

    pair, task_total, prior = prior_of(items)
    distinct, row = np.unique(prior, return_inverse=True)
    rows = len(distinct) + 2
    k = np.arange(1, min(items.n_samples + 1, max(2, LOG_TABLE_SIZE // rows)))
    logs = np.zeros((rows, len(k) + 1))
    logs[0, 1:] = np.log(k)
    logs[1, 1:] = np.log(k - 1 + ALPHA)
    logs[2:, 1:] = np.log(k - 1 + ALPHA * distinct[:, None])
    return LeaveOneOut(
        party=party,
        pair=pair.astype(np.uint32),
        task_total=task_total,
        prior=prior,
        log_prior=np.log(prior),
        row=row.astype(np.int64) + 2,
        logs=logs,
        alpha=ALPHA,
    )


def prior_of(items: ItemTable) -> tuple[Codes, NDArray[np.int64], Floats]:
    """The pair of X_t and label of each item; N(x_t) and the leave-one-out p(y | x_t) of each pair."""
    task = items.codes[-1].astype(np.int64)
    pair = pack([task * items.n_labels + items.label])
    same = np.bincount(pair, weights=items.weight)
    task_of = np.zeros(len(same), dtype=np.int64)
    task_of[pair] = task
    total = np.bincount(task, weights=items.weight)[task_of]
    prior = (same - 1 + ALPHA / items.n_labels) / (total - 1 + ALPHA)
    return pair, total.astype(np.int64), np.asarray(prior)


def entropy_order(items: ItemTable) -> NDArray[np.int64]:
    """Parties by rising entropy of their codes.

    Entropies are rounded before they are compared: two servers that count the same table in another
    order must agree.
    """
    share = items.weight / items.n_samples
    entropy = np.empty(items.n_parties)
    for k in range(items.n_parties):
        q = np.sort(np.bincount(items.codes[k], weights=share))
        entropy[k] = -float(np.sum(q * np.log(q)))
    return np.argsort(np.round(entropy, 9), kind="stable").astype(np.int64)


def subtree_task(
    items: ItemTable,
    predictor: LeaveOneOut,
    known: KnownBest,
    top: int,
    order: int,
    noise: float,
    budget: int,
) -> tuple[SubtreeTable, int, int]:
    """The coalitions of one largest member: their table, item visits, and visits of one party more."""
    from fedvalue.valuation.statistics.joint_table_kernels import NOT_A_RECORD, SubtreeTable, walk_subtree
    from fedvalue.valuation.statistics.partition_kernels import partition_scratch

    depth = min(order, top + 1)
    # Where the sizes 0 (none), 1, 2, ... start, by the number of members below the largest.
    offset = np.concatenate([[0], _offsets(top, depth - 1)])
    n_entries = int(offset[-1])
    out = SubtreeTable(np.full(n_entries, NOT_A_RECORD), np.zeros(n_entries), np.zeros(n_entries), offset)
    scratch = partition_scratch(items, depth + 1)
    settled, coalition = np.zeros(depth + 1), np.zeros(depth + 1, dtype=np.int64)
    work, ahead = walk_subtree(
        items, predictor, known, scratch, settled, coalition, out, top, order, float(noise), budget
    )
    return out, int(work), int(ahead)


def _walk(
    items: ItemTable,
    predictor: LeaveOneOut,
    known: KnownBest,
    order: int,
    noise: float,
    budget: int,
    execution: Execution,
) -> tuple[Floats, Floats, Floats, int, int] | None:
    """Leave-one-out sums, n h(S), best sums inside, work and that of one party more; None beyond budget."""
    from fedvalue.valuation.statistics.joint_table_kernels import NOT_A_RECORD

    p = items.n_parties
    offset = _offsets(p, order)
    loo = np.full(int(offset[-1]), NOT_A_RECORD)
    entropy, best = np.zeros((2, len(loo)))
    loo[0] = 0.0
    entropy[0] = _task_entropy(items)
    work = ahead = 0
    with engines.using(execution.executor) as pool:
        shared = [engines.share(pool, data) for data in (items, predictor, known)]
        # The largest subtrees first: they take longest.
        tops = range(p - 1, -1, -1)
        tasks = ((*shared, top, order, noise, budget) for top in tops)
        results = engines.map_in_order(pool, subtree_task, tasks)
        for top, (part, visits, deeper) in zip(tops, results, strict=False):
            work += visits
            ahead += deeper
            if work > budget:
                return None
            for size in range(1, min(order, top + 1) + 1):
                mine = slice(int(part.offset[size]), int(part.offset[size + 1]))
                # Coalitions of this size with smaller largest members come before.
                at = int(offset[size]) + math.comb(top, size)
                here = slice(at, at + mine.stop - mine.start)
                loo[here], entropy[here], best[here] = part.loo[mine], part.entropy[mine], part.best[mine]
    return loo, entropy, best, work, ahead


def _task_entropy(items: ItemTable) -> float:
    """N H(Y | X_t)."""
    task = items.codes[-1].astype(np.int64)
    pair = task * items.n_labels + items.label
    total = np.bincount(task, weights=items.weight)[task]
    same = np.bincount(pair, weights=items.weight)[pair]
    return float(np.sum(items.weight * np.log(total / same)))


def _orders(p: int) -> list[int]:
    """Sizes to try: each walk starts over, so beyond 4 the steps grow and little work is repeated."""
    orders = [k for k in (1, 2, 3, 4, 5, 7, 10, 14) if k < p] + [p]
    return [k for k in orders if k == 1 or int(_offsets(p, k)[-1]) <= MAX_ENTRIES]


def _offsets(p: int, order: int) -> NDArray[np.int64]:
    """Where the coalitions of each size 0 .. order of p parties start, and their number at the end."""
    sizes = [min(math.comb(p, s), _UNLIMITED >> 8) for s in range(order + 1)]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _nothing_known(binomial: NDArray[np.int64]) -> KnownBest:
    from fedvalue.valuation.statistics.joint_table_kernels import KnownBest

    return KnownBest(np.zeros(1), np.array([0, 1], dtype=np.int64), 0, binomial)


def _pascal(p: int) -> NDArray[np.int64]:
    """Binomial coefficients C(n, k) for n, k <= p + 1 (clipped where they pass 64 bits)."""
    table = [[min(math.comb(n, k), _UNLIMITED) for k in range(p + 2)] for n in range(p + 2)]
    return np.array(table, dtype=np.int64)
