"""The joint-table game: out-of-sample information of the joint table of each coalition.

The plug-in estimate counts what a table can memorise: a useless party with many codes, or one that submits
its row numbers, takes value from the honest ones. This game v* asks instead what the joint table of a
coalition predicts about samples that it has not seen. It sees synergy of any number of parties, which pooled
evidence (`valuation.evidence`) does not; the learnable game takes the larger of the two per coalition.

For a coalition S, with N(.) a number of samples:

1. *Leave-one-out information.* loo(S) = mean_i [ln p(y_i | x_S, x_t) - ln p(y_i | x_t)], where each sample is
   predicted from the others, backing off to X_t with strength alpha:
   p(y | x_S, x_t) = (N(x_S, x_t, y) - 1 + alpha p(y | x_t)) / (N(x_S, x_t) - 1 + alpha),
   p(y | x_t) likewise with the uniform distribution behind it. Where the coalition does not split the
   samples of an x_t, the prediction is p(y | x_t) itself: a party with a single code adds exactly nothing.
2. *Bias.* With well filled cells loo(S) falls short of the information by the cost of learning the table,
   and the plug-in val(S) passes it by about the same amount, so their mean, mid(S), is nearly unbiased.
   In badly filled cells it is not, so the correction must be earned, see 3.
3. *Monotone envelope.* More data never hurts a predictor that may ignore it:
   v*(S) = m = max over d in S of v*(S - d), unless S is a record, that is loo(S) exceeds loo of every
   proper part (and 0) by a gain g of more than noise / n. Then v*(S) = min(mid(S), m + cap min(g, 2 (g
   - noise / n))) if this is larger: what may be luck counts for nothing, what is beyond doubt counts in
   full, and the correction may at most double (cap = 2) what leave-one-out has shown.

v* is a game like any other (0 for nobody, monotone), so its Shapley value keeps additivity, missingness
and consistency. It is a function of the counts alone: deterministic and invariant under other code numbers.
The choice of back-off, alpha, cap and noise is in docs/decisions/0601-learnable-back-off.md, with the
numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.errors import InputError
from fedvalue.valuation.entropies import (
    coalition_counts,
    coalition_entropies,
    conditional_label_entropy,
    is_small,
)
from fedvalue.valuation.shapley_indices import coalition_sizes
from fedvalue.valuation.statistics.pieces import pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.items import ItemTable
    from fedvalue.valuation.statistics.joint_table_search import JointTables

CAP = 2.0
"""How far the bias correction may stretch a leave-one-out gain."""

NOISE = 4.0
"""Gain, times samples, up to which a record may be luck; from twice that on it counts in full.

A useless split of one cell in two gains (chi-square with 1 degree of freedom - 2) / 2 on average, so it
passes 4 once in 640 times.
"""

MAX_PARTIES_DENSE = 20
"""Up to here the game is a table: 2^20 coalitions fit in memory and in a second."""

PLACES_AT_ONCE = 2**20
"""Members of records, times coalitions, that are looked up at a time: a megabyte."""

BUDGET = 20_000_000
"""Item visits of the walk over coalitions: some tenths of a second on one core.

Seven times as many change no value of Parkinsons, Spect and Breast by more than 0.04% of the total, none of
Credit by more than 0.8% and none of Music with 40 parties by more than 3%.
"""


@dataclass(frozen=True, slots=True, eq=False)
class JointTableGame:
    """v*, in nats: `game(mask)` is the value of a coalition, party k being bit k.

    Args:
        n_parties: Number of parties.
        complete: Whether the search met every coalition that can be a record. When False, v* counts only
            what small coalitions show: a lower bound of the full game.
        table: v* of all coalitions by bit mask, up to 20 parties.
        members: Members of each record, padded with -1, beyond 20 parties.
        tops: v* of each record, beyond 20 parties. v*(S) is the largest of the records inside S.
    """

    n_parties: int
    complete: bool
    table: Floats | None = field(default=None, repr=False)
    members: NDArray[np.int64] | None = field(default=None, repr=False)
    tops: Floats | None = field(default=None, repr=False)

    @property
    def total(self) -> float:
        """v* of all parties together."""
        return self((1 << self.n_parties) - 1)

    def __call__(self, mask: int) -> float:
        """v* of a coalition."""
        if self.table is not None:
            return float(self.table[mask])
        return float(self.of(np.array([[mask >> k & 1 for k in range(self.n_parties)]]) == 1)[0])

    def of(self, inside: NDArray[np.bool_]) -> Floats:
        """v* of coalitions, given as whether each has each party, shape (n_coalitions, n_parties)."""
        if self.table is not None:
            return np.asarray(self.table[inside @ (1 << np.arange(self.n_parties))])
        assert self.members is not None
        assert self.tops is not None
        # One more place, for the padding, which counts as present.
        present = np.concatenate([inside, np.ones((len(inside), 1), dtype=bool)], axis=1)
        size = max(1, PLACES_AT_ONCE // max(1, self.members.size))
        parts = [
            (present[at : at + size, self.members].all(axis=2) * self.tops).max(axis=1, initial=0.0)
            for at in range(0, len(inside), size)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def peaks(self, margin: float) -> list[int]:
        """Bit masks of the coalitions of two or more worth over `margin` more than all their parts."""
        if self.table is not None:
            masks = np.arange(len(self.table))
            best_part = np.zeros(len(masks))
            for k in range(self.n_parties):
                inside = masks[masks >> k & 1 == 1]
                best_part[inside] = np.maximum(best_part[inside], self.table[inside ^ 1 << k])
            larger = masks[self.table > best_part + margin].tolist()
            return [mask for mask in larger if mask.bit_count() >= 2]
        assert self.members is not None
        # Only a record can be worth more than all its parts.
        masks_of = {sum(1 << k for k in row if k >= 0) for row in self.members.tolist()}
        several = sorted(mask for mask in masks_of if mask.bit_count() >= 2)
        inside = (np.array(several, dtype=object)[:, None] >> np.arange(self.n_parties) & 1).astype(bool)
        best_part = np.zeros(len(several))
        for k in range(self.n_parties):
            part = inside.copy()
            part[:, k] = False
            best_part = np.where(inside[:, k], np.maximum(best_part, self.of(part)), best_part)
        larger = self.of(inside) > best_part + margin
        return [mask for mask, is_larger in zip(several, larger, strict=True) if is_larger]


def joint_table_game(
    items: ItemTable, *, budget: int = BUDGET, execution: Execution = HERE
) -> JointTableGame:
    """The game of a table; the search for records is complete where the budget allows, and says so where not.

    Args:
        items: The items.
        budget: Item visits that the search may take.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    p = items.n_parties
    if is_small(items):
        _, table = coalition_games(items)
        return JointTableGame(p, True, table)
    from fedvalue.valuation.statistics.joint_table_search import search

    tables = search(items, NOISE, budget, execution)
    if p <= MAX_PARTIES_DENSE:
        table = _envelope(by_mask(tables.loo, tables), by_mask(tables.plug, tables)) / items.n_samples
        return JointTableGame(p, tables.complete, table)
    members, tops = _records(tables)
    return JointTableGame(p, tables.complete, members=members, tops=tops / items.n_samples)


def coalition_games(items: ItemTable, *, execution: Execution = HERE) -> tuple[Floats, Floats]:
    """Both games, val(S) and v*(S), of all coalitions by bit mask, each of shape (2^p,), without pruning.

    Raises:
        InputError: More than 20 parties.
    """
    _check_dense(items)
    from fedvalue.valuation.statistics.joint_table_search import every_coalition

    if is_small(items):
        loo, plug = _small_sums(items)
    else:
        tables = every_coalition(items, execution)
        loo, plug = by_mask(tables.loo, tables), by_mask(tables.plug, tables)
    return plug / items.n_samples, _envelope(loo, plug) / items.n_samples


def plug_in_game(items: ItemTable, *, execution: Execution = HERE) -> Floats:
    """val(S) of all coalitions by bit mask, shape (2^p,).

    Raises:
        InputError: More than 20 parties.
    """
    _check_dense(items)
    if is_small(items):
        entropy = coalition_entropies(items)
        return np.asarray(entropy[0] - entropy)
    entropy = np.full(
        1 << items.n_parties, conditional_label_entropy(items, items.codes[-1].astype(np.int64))
    )
    with engines.using(execution.executor) as pool:
        shared = engines.share(pool, items)
        # The largest subtrees first: they take longest.
        tops = range(items.n_parties - 1, -1, -1)
        parts = engines.map_in_order(pool, subtree_entropies, ((shared, top) for top in tops))
        for top, part in zip(tops, parts, strict=True):
            entropy[1 << top : 2 << top] = part / items.n_samples
    return np.asarray(entropy[0] - entropy)


def subtree_entropies(items: ItemTable, top: int) -> Floats:
    """N H(Y | X_t, X_S) of the coalitions with one largest member; one unit of work for a worker."""
    from fedvalue.valuation.statistics.entropy_kernels import entropy_subtree

    entropy = np.zeros(1 << top)
    for piece in pieces(items, top):
        entropy_subtree(piece.table, piece.scratch, top, entropy)
    return entropy


def _small_sums(items: ItemTable) -> tuple[Floats, Floats]:
    """Leave-one-out sums and n val(S) of all coalitions of a small table, by bit mask."""
    from fedvalue.valuation.statistics.joint_table_search import ALPHA, prior_of

    pair, task_total, prior = prior_of(items)
    task_total, prior = task_total[pair], prior[pair]
    loo, entropy = np.zeros((2, 1 << items.n_parties))
    for counts in coalition_counts(items):
        share = counts.with_label - 1 + ALPHA * prior
        ratio = np.log(share / (counts.in_block - 1 + ALPHA)) - np.log(prior)
        loo[counts.mask] = np.sum(items.weight * np.where(counts.in_block == task_total, 0.0, ratio))
        entropy[counts.mask] = np.sum(items.weight * np.log(counts.in_block / counts.with_label))
    return loo, entropy[0] - entropy


def _envelope(loo: Floats, plug: Floats) -> Floats:
    """The envelope of point 3 above, from and to tables by bit mask, all times the number of samples."""
    p = len(loo).bit_length() - 1
    masks, sizes = np.arange(1 << p), coalition_sizes(p)
    best, value = np.zeros((2, 1 << p))
    for size in range(1, p + 1):
        now = masks[sizes == size]
        sub_loo, sub_value = np.zeros((2, len(now)))
        for d in range(p):
            inside = np.flatnonzero(now >> d & 1)
            part = now[inside] ^ (1 << d)
            sub_loo[inside] = np.maximum(sub_loo[inside], best[part])
            sub_value[inside] = np.maximum(sub_value[inside], value[part])
        gain = loo[now] - sub_loo
        corrected = 0.5 * (loo[now] + np.maximum(plug[now], loo[now]))
        earned = CAP * np.minimum(gain, 2.0 * (gain - NOISE))
        candidate = np.minimum(corrected, sub_value + earned)
        value[now] = np.where(gain > NOISE, np.maximum(sub_value, candidate), sub_value)
        best[now] = np.maximum(sub_loo, loo[now])
    return value


def by_mask(sums: Floats, tables: JointTables) -> Floats:
    """Sums of a table by bit mask, parties in the order of the items; those not in the table are lowest."""
    p = len(tables.party)
    # Colexicographic order is that of bit masks: entries are the masks by size, and within a size rising.
    masks = np.argsort(coalition_sizes(p), kind="stable")[: len(sums)]
    renamed = np.zeros(len(masks), dtype=np.int64)
    for number, party in enumerate(tables.party.tolist()):
        renamed |= (masks >> number & 1) << party
    dense = np.full(1 << p, sums.min())
    dense[renamed] = sums
    return dense


def _records(tables: JointTables) -> tuple[NDArray[np.int64], Floats]:
    """Members (padded with -1) and n v* of each record."""
    from fedvalue.valuation.statistics.joint_table_kernels import envelope

    p, order, binomial = len(tables.party), tables.order, tables.binomial
    best, value = np.zeros((2, len(tables.loo)))
    record = np.zeros(len(tables.loo), dtype=np.bool_)
    scratch = np.zeros(order, dtype=np.int64)
    envelope(tables.loo, tables.plug, p, order, binomial, CAP, NOISE, scratch, best, value, record)
    found = np.flatnonzero(record)
    members = np.full((len(found), order), -1, dtype=np.int64)
    start = 1
    for size in range(1, order + 1):
        end = start + math.comb(p, size)
        mine = np.flatnonzero((found >= start) & (found < end))
        rank = found[mine] - start
        # The largest member is the largest c with C(c, size) <= rank, and so on with the rest.
        for place in range(size, 0, -1):
            member = np.searchsorted(binomial[:, place], rank, side="right") - 1
            rank = rank - binomial[member, place]
            members[mine, place - 1] = tables.party[member]
        start = end
    return members, value[found]


def _check_dense(items: ItemTable) -> None:
    if items.n_parties > MAX_PARTIES_DENSE:
        raise InputError(
            f"coalition tables exist for at most {MAX_PARTIES_DENSE} parties, got {items.n_parties}"
        )
