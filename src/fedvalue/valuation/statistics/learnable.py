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
   v*(S) = m = max over d in S of v*(S - d), unless S is a record, that is loo(S) exceeds loo of every
   proper part (and 0) by a gain g of more than noise / n. Then v*(S) = min(mid(S), m + cap min(g, 2 (g
   - noise / n))) if this is larger: what may be luck counts for nothing, what is beyond doubt counts in
   full, and the correction may at most double (cap = 2) what leave-one-out has shown.

v* is a game like any other (0 for nobody, monotone), so its Shapley value keeps additivity, missingness
and consistency. It is a function of the counts alone: deterministic and invariant under relabelling.
The choice of back-off, alpha, cap and noise is in docs/decisions/0601-learnable-back-off.md, with the
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats

ALPHA = 1.0
"""Strength of the back-off, in samples."""

CAP = 2.0
"""How far the bias correction may stretch a leave-one-out gain."""

NOISE = 4.0
"""Gain, times samples, up to which a record may be luck; from twice that on it counts in full.

A useless split of one cell in two gains (chi-square with 1 degree of freedom - 2) / 2 on average, so it
passes 4 once in 640 times.
"""

MAX_PARTIES_DENSE = 20
"""Up to here the Shapley value of v* is exact: 2^20 coalitions fit in memory and in a second."""

MAX_PARTIES_TABLES = 12
"""Up to here a result may carry the value of every coalition: 2 x 4,096 numbers."""

MAX_PARTIES_PAIRS = 100
"""Up to here a result may carry the value of every pair: 10,000 numbers."""

BUDGET = 150_000_000
"""Item visits of the walk over coalitions: several seconds on one core."""


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

    @property
    def remark(self) -> str | None:
        """What a reader must know about the search, or None when it was complete."""
        if self.complete:
            return None
        return f"only coalitions of at most {self.order} parties were searched, so the total is a lower bound"


def learnable_values(
    counts: JointCounts,
    *,
    alpha: float = ALPHA,
    cap: float = CAP,
    noise: float = NOISE,
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
        noise: Gain, times samples, up to which a record may be luck; 0 takes every gain.
        n_permutations: Permutations beyond 20 parties.
        seed: Of those permutations.
        budget: Item visits that the search may take.

    Raises:
        InputError: alpha not positive, cap below 1 or noise negative.
    """
    from fedvalue.valuation.statistics import learnable_kernels as kernels
    from fedvalue.valuation.statistics.learnable_search import search

    _check(alpha, cap, noise)
    found = search(counts, alpha, noise, budget)
    n, p = counts.n_samples, counts.n_parties
    value, record = kernels.envelope(found.loo, found.plug, p, found.order, found.binomial, cap, noise)
    if p <= MAX_PARTIES_DENSE:
        game = kernels.by_mask(value, p, found.order, found.binomial) / n
        values, se, total, method = shapley(game), np.zeros(p), float(game[-1]), "exact"
    else:
        members, tops = kernels.members_of_records(record, value, p, found.order, found.binomial)
        values, se = _sampled_shapley(members, tops / n, p, n_permutations, seed)
        total, method = float(tops.max(initial=0.0) / n), "sampled"
    # The search numbers the parties in its own order.
    back = np.argsort(found.party)
    return Learnable(
        values[back], total, se[back], method, p if found.complete else found.order, found.complete
    )


def coalition_tables(
    counts: JointCounts, *, alpha: float = ALPHA, cap: float = CAP, noise: float = NOISE
) -> dict[str, tuple[float, ...]] | None:
    """The games themselves, for decisions about subsets of parties, as part of a result.

    Up to 12 parties val(S) as "value" and v*(S) as "learnable", by bit mask (party k is bit k): 2^p numbers
    each. Up to 100 parties v* of single parties and pairs as "learnable_pairs", the rows of a p x p matrix
    with single parties on the diagonal. None beyond.
    """
    p = counts.n_parties
    if p <= MAX_PARTIES_TABLES:
        value, learnable = coalition_games(counts, alpha=alpha, cap=cap, noise=noise)
        return {"value": tuple(value.tolist()), "learnable": tuple(learnable.tolist())}
    if p <= MAX_PARTIES_PAIRS:
        return {
            "learnable_pairs": tuple(pair_values(counts, alpha=alpha, cap=cap, noise=noise).ravel().tolist())
        }
    return None


def pair_values(
    counts: JointCounts, *, alpha: float = ALPHA, cap: float = CAP, noise: float = NOISE
) -> Floats:
    """v* of every pair of parties, single parties on the diagonal, shape (p, p)."""
    from fedvalue.valuation.statistics import learnable_kernels as kernels
    from fedvalue.valuation.statistics.learnable_search import every_coalition

    _check(alpha, cap, noise)
    p = counts.n_parties
    order = min(2, p)
    found = every_coalition(counts, alpha, order)
    value, _ = kernels.envelope(found.loo, found.plug, p, order, found.binomial, cap, noise)
    out = np.diag(value[1 : p + 1])
    # Pairs {a < b} follow the empty and the single coalitions, numbered C(b, 2) + a.
    for b in range(1, p):
        row = value[p + 1 + b * (b - 1) // 2 :][:b]
        out[b, :b] = out[:b, b] = row
    return np.asarray(out / counts.n_samples)


def coalition_games(
    counts: JointCounts, *, alpha: float = ALPHA, cap: float = CAP, noise: float = NOISE
) -> tuple[Floats, Floats]:
    """Both games, val(S) and v*(S), of all coalitions by bit mask, each of shape (2^p,).

    Raises:
        InputError: More than 20 parties, alpha not positive, cap below 1 or noise negative.
    """
    from fedvalue.valuation.statistics import learnable_kernels as kernels
    from fedvalue.valuation.statistics.learnable_search import every_coalition

    _check(alpha, cap, noise)
    n, p = counts.n_samples, counts.n_parties
    if p > MAX_PARTIES_DENSE:
        raise InputError(f"coalition tables exist for at most {MAX_PARTIES_DENSE} parties, got {p}")
    found = every_coalition(counts, alpha, p)
    value, _ = kernels.envelope(found.loo, found.plug, p, p, found.binomial, cap, noise)
    plug = kernels.by_mask(found.plug, p, p, found.binomial)
    return plug / n, kernels.by_mask(value, p, p, found.binomial) / n


def learnable_game(
    counts: JointCounts, *, alpha: float = ALPHA, cap: float = CAP, noise: float = NOISE, budget: int = BUDGET
) -> Callable[[int], float]:
    """v* as a function of a coalition's bit mask, for any number of parties.

    v*(S) is the largest value of a record inside S, so a list of records is enough.
    """
    from fedvalue.valuation.statistics import learnable_kernels as kernels
    from fedvalue.valuation.statistics.learnable_search import search

    _check(alpha, cap, noise)
    found = search(counts, alpha, noise, budget)
    n, p = counts.n_samples, counts.n_parties
    value, record = kernels.envelope(found.loo, found.plug, p, found.order, found.binomial, cap, noise)
    members, tops = kernels.members_of_records(record, value, p, found.order, found.binomial)
    needs = np.zeros((len(tops), p), dtype=bool)
    rows, places = np.nonzero(members >= 0)
    needs[rows, found.party[members[rows, places]]] = True

    def game(mask: int) -> float:
        absent = np.array([not mask >> k & 1 for k in range(p)])
        inside = ~(needs[:, absent].any(axis=1))
        return float(tops[inside].max(initial=0.0) / n)

    return game


def shapley(game: Floats) -> Floats:
    """Shapley value of a game given as 2^p numbers by bit mask, shape (p,)."""
    from fedvalue.valuation.statistics.blocks import shapley_weights

    p = len(game).bit_length() - 1
    weight = shapley_weights(p)
    sizes = np.bitwise_count(np.arange(len(game), dtype=np.uint32)).astype(np.int64)
    values = np.empty(p)
    for d in range(p):
        pairs = game.reshape(-1, 2, 1 << d)
        without = sizes.reshape(-1, 2, 1 << d)[:, 0]
        values[d] = float(np.sum(weight[without] * (pairs[:, 1] - pairs[:, 0])))
    return values


def _sampled_shapley(
    members: Floats, tops: Floats, p: int, n_permutations: int, seed: int
) -> tuple[Floats, Floats]:
    """Mean and standard error of the marginal contributions over antithetic pairs of permutations."""
    from fedvalue.valuation.statistics.learnable_kernels import marginals_along

    rng = np.random.default_rng(seed)
    forward = np.array([rng.permutation(p) for _ in range(max(2, n_permutations // 2))])
    along = marginals_along(np.concatenate([forward, forward[:, ::-1]]), members, tops)
    # The two orders of a pair count as one observation.
    pairs = 0.5 * (along[: len(forward)] + along[len(forward) :])
    return pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs))


def _check(alpha: float, cap: float, noise: float) -> None:
    if not alpha > 0:
        raise InputError(f"alpha must be positive, got {alpha}")
    if not cap >= 1:
        raise InputError(f"cap must be at least 1, got {cap}")
    if not noise >= 0:
        raise InputError(f"noise must not be negative, got {noise}")
