"""The learnable value: what n samples let someone learn from a party, rather than memorise.

The plug-in estimate counts what a table can memorise: a useless party with many codes, or one that submits
its row numbers, takes value from the honest ones. The learnable value is the Shapley value of a second
game v* on the same counts.

For a coalition S, with N(.) a number of samples:

1. *Leave-one-out information.* loo(S) = mean_i [ln p(y_i | x_S, x_t) - ln p(y_i | x_t)], where each sample is
   predicted from the others, backing off to X_t with strength alpha:
   p(y | x_S, x_t) = (N(x_S, x_t, y) - 1 + alpha p(y | x_t)) / (N(x_S, x_t) - 1 + alpha),
   p(y | x_t) likewise with the uniform distribution behind it. Where the coalition does not split the
   samples of an x_t, the prediction is p(y | x_t) itself: a party with a single code adds exactly nothing.
2. *Bias.* With well filled cells loo(S) falls short of the information by the cost of learning the table,
   and the plug-in val(S) passes it by about the same amount, so their mean, mid(S), is nearly unbiased.
   In badly filled cells it is not, so the correction must be earned, see 3.
3. *Monotone envelope.* More data never hurts someone who may ignore it:
   v*(S) = max over d in S of v*(S - d), unless S is a record, that is loo(S) exceeds loo of every proper part
   (and 0) by a gain g > 0. Then v*(S) = min(mid(S), that maximum + cap g) if this is larger: the
   correction may at most double (cap = 2) what leave-one-out has shown.

v* is a game like any other (0 for nobody, monotone), so its Shapley value keeps additivity, missingness
and consistency. It is a function of the counts alone: deterministic and invariant under relabelling.
The choice of back-off, alpha and cap is in docs/decisions/0006-learnable-back-off.md, with the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.blocks import Items

ALPHA = 4.0
"""Strength of the back-off, in samples."""

CAP = 2.0
"""How far the bias correction may stretch a leave-one-out gain."""

MAX_PARTIES_DENSE = 20
"""Up to here the Shapley value of v* is exact: 2^20 coalitions fit in memory and in a second."""

MAX_PARTIES_TABLES = 12
"""Up to here a result may carry the value of every coalition: 2 x 4,096 numbers."""

BUDGET = 400_000_000
"""Item visits of the walk over coalitions: several seconds on one core."""

LOG_TABLE_SIZE = 200_000
"""Logarithms kept in a table, few enough for the processor's cache."""

MAX_ENTRIES = 6_000_000
"""Largest table of coalitions, about 50 MB per column."""


@dataclass(frozen=True, slots=True)
class Learnable:
    """Learnable values of all parties.

    Args:
        values: Per party, in nats; they sum to `total`.
        total: v* of all parties together.
        se: Standard error of each value from permutation sampling; zeros when exact.
        method: "exact" or "sampled".
        order: Largest size of coalition that was searched for records; the number of parties when the
            search was complete.
        complete: Whether no larger coalition can be a record. When False, v* counts only what coalitions
            of at most `order` parties show: a lower bound of the full game.
    """

    values: Floats = field(repr=False)
    total: float
    se: Floats = field(repr=False)
    method: str
    order: int
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Sums over samples per coalition of at most `order` parties, and whether larger ones matter."""

    loo: Floats
    plug: Floats
    order: int
    complete: bool


def learnable_values(
    counts: JointCounts,
    *,
    alpha: float = ALPHA,
    cap: float = CAP,
    n_permutations: int = 2000,
    seed: int = 0,
    budget: int = BUDGET,
) -> Learnable:
    """Shapley values of the learnable game v*.

    Exact up to 20 parties; beyond, permutations of the same game with their standard error. The
    search for records is complete where the budget allows, and says so where not.

    Args:
        counts: The joint table.
        alpha: Strength of the back-off, in samples.
        cap: How far the bias correction may stretch a leave-one-out gain; 1 leaves it out.
        n_permutations: Permutations beyond 20 parties.
        seed: Of those permutations.
        budget: Item visits that the search may take.

    Raises:
        InputError: alpha not positive, or cap below 1.
    """
    from fedvalue.valuation.blocks import items_of
    from fedvalue.valuation.learnable_kernels import by_mask, envelope, marginals_along, members_of_records

    _check(alpha, cap)
    items = _rising_entropy(items_of(counts))
    n, p = items.n_samples, items.n_parties
    binomial = _pascal(p)
    tables = _search(items, alpha, binomial, budget)
    value, record = envelope(tables.loo, tables.plug, p, tables.order, binomial, cap)
    order = p if tables.complete else tables.order
    if p <= MAX_PARTIES_DENSE:
        game = by_mask(value, p, tables.order, binomial) / n
        values, se, total = shapley(game), np.zeros(p), float(game[-1])
        method = "exact"
    else:
        members, tops = members_of_records(record, value, p, tables.order, binomial)
        rng = np.random.default_rng(seed)
        forward = np.array([rng.permutation(p) for _ in range(max(2, n_permutations // 2))])
        orders = np.concatenate([forward, forward[:, ::-1]])
        along = marginals_along(orders, members, tops) / n
        # The two orders of an antithetic pair count as one observation.
        pairs = 0.5 * (along[: len(forward)] + along[len(forward) :])
        values = pairs.mean(axis=0)
        se = pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs))
        total = float(tops.max() / n) if len(tops) else 0.0
        method = "sampled"
    back = np.argsort(_entropy_order(items_of(counts)), kind="stable")
    return Learnable(values[back], total, se[back], method, order, tables.complete)


def coalition_tables(
    counts: JointCounts, *, alpha: float = ALPHA, cap: float = CAP
) -> dict[str, tuple[float, ...]] | None:
    """The two games themselves, val(S) as "value" and v*(S) as "learnable", by bit mask (party k is bit k).

    Decisions about subsets of parties read them. None beyond 12 parties: the tables are part of the
    result, and 2^p numbers each.
    """
    if counts.n_parties > MAX_PARTIES_TABLES:
        return None
    value, learnable = coalition_games(counts, alpha=alpha, cap=cap)
    return {"value": tuple(value.tolist()), "learnable": tuple(learnable.tolist())}


def coalition_games(counts: JointCounts, *, alpha: float = ALPHA, cap: float = CAP) -> tuple[Floats, Floats]:
    """Both games, val(S) and v*(S), of all coalitions by bit mask, each of shape (2^p,).

    Raises:
        InputError: More than 20 parties, alpha not positive, or cap below 1.
    """
    from fedvalue.valuation.blocks import items_of
    from fedvalue.valuation.learnable_kernels import by_mask, envelope

    _check(alpha, cap)
    items = items_of(counts)
    n, p = items.n_samples, items.n_parties
    if p > MAX_PARTIES_DENSE:
        raise InputError(f"coalition tables exist for at most {MAX_PARTIES_DENSE} parties, got {p}")
    binomial = _pascal(p)
    tables = _walk(items, alpha, binomial, order=p, prune=False, budget=2**62)[0]
    value, _ = envelope(tables.loo, tables.plug, p, p, binomial, cap)
    return by_mask(tables.plug, p, p, binomial) / n, by_mask(value, p, p, binomial) / n


def shapley(game: Floats) -> Floats:
    """Shapley value of a game given as 2^p numbers by bit mask, shape (p,)."""
    from fedvalue.valuation.blocks import shapley_weights

    p = len(game).bit_length() - 1
    weight = shapley_weights(p)
    sizes = np.bitwise_count(np.arange(len(game), dtype=np.uint32)).astype(np.int64)
    values = np.empty(p)
    for d in range(p):
        pairs = game.reshape(-1, 2, 1 << d)
        without = sizes.reshape(-1, 2, 1 << d)[:, 0]
        values[d] = float(np.sum(weight[without] * (pairs[:, 1] - pairs[:, 0])))
    return values


def _check(alpha: float, cap: float) -> None:
    if not alpha > 0:
        raise InputError(f"alpha must be positive, got {alpha}")
    if not cap >= 1:
        raise InputError(f"cap must be at least 1, got {cap}")


def _search(items: Items, alpha: float, binomial: NDArray[np.int64], budget: int) -> _Tables:
    """Deepen the search until no coalition is left that could be a record, or the budget is spent."""
    p = items.n_parties
    best: _Tables | None = None
    for order in range(1, p + 1):
        if best is not None and sum(math.comb(p, s) for s in range(order + 1)) > MAX_ENTRIES:
            break
        tables, work = _walk(items, alpha, binomial, order=order, prune=True, budget=budget)
        if work > budget and best is not None:
            break
        best = tables
        budget -= work
        if tables.complete:
            break
    assert best is not None
    return best


def _walk(
    items: Items, alpha: float, binomial: NDArray[np.int64], *, order: int, prune: bool, budget: int
) -> tuple[_Tables, int]:
    from fedvalue.valuation.learnable_kernels import walk

    task_total, prior = _prior(items, alpha)
    row, logs = _log_tables(items, prior, alpha)
    # Single parties are always computed, whatever they cost.
    allowed = 2**62 if order == 1 else budget
    loo, entropy, work, n_open = walk(
        items.codes,
        items.label,
        items.count,
        items.start,
        items.width,
        task_total,
        prior,
        np.log(prior),
        row,
        logs,
        alpha,
        order,
        binomial,
        prune,
        allowed,
    )
    return _Tables(loo, entropy[0] - entropy, order, n_open == 0), int(work)


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
    """Parties by rising entropy of their codes, so that the largest subtrees are pruned first.

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


def _rising_entropy(items: Items) -> Items:
    from dataclasses import replace

    return replace(items, codes=np.ascontiguousarray(items.codes[_entropy_order(items)]))


def _pascal(p: int) -> NDArray[np.int64]:
    """Binomial coefficients C(n, k) for n, k <= p + 1 (clipped where they pass 64 bits)."""
    table = [[min(math.comb(n, k), 2**62) for k in range(p + 2)] for n in range(p + 2)]
    return np.array(table, dtype=np.int64)
