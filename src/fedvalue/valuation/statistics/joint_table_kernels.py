"""Compiled walks behind the joint-table game: tables over small coalitions, and what follows from them.

A table has one entry per coalition of at most `order` parties, by size and inside a size in colexicographic
order, so that coalition {c_1 < ... < c_s} is entry offset(s) + sum_i C(c_i, i). With order = n_parties these
are all 2^p coalitions. The coalitions of one size with the same largest member are neighbours, in the order
of their other members: a subtree has a table of its own, over those.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,assignment"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import inner_kernel, kernel
from fedvalue.valuation.statistics.partition_kernels import refine_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

NOT_A_RECORD = -1e300
"""Stands for a leave-one-out value that was not computed because it cannot beat a sub-coalition's."""


class LeaveOneOut(NamedTuple):
    """What the leave-one-out predictions of a table need.

    Args:
        party: Row of the item table's codes of each party number.
        pair: Number of the pair of X_t and label of each item.
        task_total: N(x_t) of each pair.
        prior: Leave-one-out p(y | x_t).
        log_prior: Its logarithm.
        row: The pair's row in `logs`.
        logs: Logarithms of small numbers of samples: row 0 holds ln k, row 1 ln(k - 1 + alpha), and row[i]
            ln(k - 1 + alpha p(y|x_t)) of pair i.
        alpha: Strength of the back-off.
    """

    party: NDArray[np.int64]
    pair: NDArray[np.uint32]
    task_total: NDArray[np.int64]
    prior: Floats
    log_prior: Floats
    row: NDArray[np.int64]
    logs: Floats
    alpha: float


class KnownBest(NamedTuple):
    """The largest leave-one-out sums inside the coalitions that are known already, at least 0.

    Args:
        best: One entry per coalition of at most `order` parties.
        offset: Where each size starts.
        order: Their largest size.
        binomial: Pascal's triangle.
    """

    best: Floats
    offset: NDArray[np.int64]
    order: int
    binomial: NDArray[np.int64]


class SubtreeTable(NamedTuple):
    """Sums of the coalitions with one largest member, by their other members.

    Args:
        loo: Leave-one-out sums; NOT_A_RECORD where left out.
        entropy: n h(S).
        best: The largest leave-one-out sum inside each coalition, at least 0.
        offset: Where each size starts, the largest member counted.
    """

    loo: Floats
    entropy: Floats
    best: Floats
    offset: NDArray[np.int64]


@inner_kernel
def score(table, predictor, scratch, depth, settled):
    """Sums over the samples of the blocks at a depth; blocks of one item are then dropped, in place.

    A block of one item is the same in every refinement, so its sum is carried in `settled`.

    Returns:
        (leave-one-out sum with settled blocks, n h(S), bound on the leave-one-out sum of every refinement,
        new settled sum).
    """
    label, weight, logs, alpha = table.label, table.weight, predictor.logs, predictor.alpha
    items, starts = scratch.items[depth], scratch.starts[depth]
    kept = 0
    place = 0
    lo = 0
    live = 0.0
    bound = 0.0
    entropy = 0.0
    for block in range(scratch.n_blocks[depth]):
        hi = np.int64(starts[block + 1])
        total = 0
        for j in range(lo, hi):
            total += weight[items[j]]
        small = total < logs.shape[1]
        log_total = logs[1, total] if small else np.log(total - 1 + alpha)
        block_sum = 0.0
        block_bound = 0.0
        j = lo
        while j < hi:
            item = items[j]
            run = weight[item]
            end = j + 1
            while end < hi and label[items[end]] == label[item]:
                run += weight[items[end]]
                end += 1
            pair = predictor.pair[item]
            log_share = (
                logs[predictor.row[pair], run] if small else np.log(run - 1 + alpha * predictor.prior[pair])
            )
            block_sum += run * (log_share - log_total - predictor.log_prior[pair])
            # Other labels can only take probability away: refinements do best without them.
            log_run = logs[1, run] if small else np.log(run - 1 + alpha)
            block_bound += run * (log_share - log_run - predictor.log_prior[pair])
            if run < total:
                entropy += run * (logs[0, total] - logs[0, run] if small else np.log(total / run))
            j = end
        if total == predictor.task_total[predictor.pair[items[lo]]]:
            block_sum = 0.0  # the coalition does not split this block: it adds nothing to X_t here
        if hi - lo == 1:
            settled += block_sum
            lo = hi
            continue
        live += block_sum
        bound += block_bound
        for j in range(lo, hi):
            items[place] = items[j]
            place += 1
        kept += 1
        starts[kept] = place
        lo = hi
    scratch.n_blocks[depth] = kept
    return settled + live, entropy, settled + bound, settled


@inner_kernel
def best_of_parts(best, c, s, below, binomial):
    """Largest entry among the coalitions {c_0 < ... < c_(s-1)} without one member, at least 0.

    Args:
        best: Entries by size and rank.
        c: Members in rising order.
        s: Number of members.
        below: Where size s - 1 starts.
        binomial: Pascal's triangle.
    """
    # Without member r, the members below it keep their place and those above move down by one.
    tail = 0
    for r in range(1, s):
        tail += binomial[c[r], r]
    head = 0
    largest = 0.0
    for r in range(s):
        largest = max(largest, best[below + head + tail])
        head += binomial[c[r], r + 1]
        if r + 1 < s:
            tail -= binomial[c[r + 1], r + 1]
    return largest


@kernel
def walk_subtree(table, predictor, known, scratch, settled, coalition, out, top, order, noise, budget):
    """Leave-one-out sums and n h(S) of the coalitions with the largest member `top`, up to a size.

    A subtree whose bound does not pass the best sub-coalition met so far by `noise` holds no record and is
    left out; with a negative `noise` none is.

    Args:
        table: An `ItemTable`.
        predictor: `LeaveOneOut`.
        known: `KnownBest`.
        scratch: A `PartitionScratch` with order + 1 depths.
        settled: A number per depth.
        coalition: Buffer for order + 1 members.
        out: A `SubtreeTable`.
        top: The largest member.
        order: Largest size.
        noise: See above; in units of the sums.
        budget: Item visits after which to stop.

    Returns:
        Item visits; beyond `budget` the table is not complete. And the visits that the coalitions of one
        party more would take: 0 when none of them can be a record.
    """
    binomial = known.binomial
    settled[0] = score(table, predictor, scratch, np.int64(0), 0.0)[3]
    scratch.member[0] = top + 1
    scratch.following[0] = top
    depth = np.int64(0)
    work = 0
    ahead = 0
    while depth >= 0:
        d = scratch.following[depth]
        if d >= scratch.member[depth]:
            depth -= 1
            continue
        scratch.following[depth] += 1
        work += scratch.starts[depth, scratch.n_blocks[depth]] + 1
        if work > budget:
            return work, ahead
        child = depth + 1
        refine_blocks(table.codes[predictor.party[d]], scratch, depth, child)
        total, h, bound, settled[child] = score(table, predictor, scratch, child, settled[depth])
        scratch.member[child] = d
        # The members without the largest, rising.
        rank = 0
        for k in range(child - 1):
            coalition[k] = scratch.member[child - k]
            rank += binomial[coalition[k], k + 1]
        entry = out.offset[child] + rank
        out.loo[entry] = total
        out.entropy[entry] = h
        # Sub-coalitions were visited before, or left out, or belong to others; 0 is a valid lower bound.
        best = max(0.0, total)
        if child > 1:
            best = max(best, best_of_parts(out.best, coalition, child - 1, out.offset[child - 1], binomial))
            if child - 1 <= known.order:
                best = max(best, known.best[known.offset[child - 1] + rank])
        out.best[entry] = best
        if d == 0 or (noise >= 0.0 and bound <= best + noise):
            continue
        if child == order:
            ahead += d * (scratch.starts[child, scratch.n_blocks[child]] + 1)
            continue
        scratch.following[child] = 0
        depth = child
    return work, ahead


@kernel
def envelope(loo, plug, p, order, binomial, cap, noise, members, best, value, record):
    """The game v* on a table of coalitions (see `joint_table_game`), for any number of parties.

    Args:
        loo: Leave-one-out sums.
        plug: n val(S).
        p: Number of parties.
        order: Largest size.
        binomial: Pascal's triangle.
        cap: How far the bias correction may stretch a gain.
        noise: Gain up to which a record may be luck.
        members: Buffer for `order` members.
        best: Zeros; receives the largest leave-one-out sum inside each coalition.
        value: Zeros; receives n v*.
        record: Receives whether a coalition's v* is above that of all its sub-coalitions.
    """
    offset = 0
    for s in range(1, order + 1):
        below = offset
        offset += binomial[p, s - 1]
        for r in range(s):
            members[r] = r
        for rank in range(binomial[p, s]):
            entry = offset + rank
            sub_loo = best_of_parts(best, members, s, below, binomial)
            sub_value = best_of_parts(value, members, s, below, binomial)
            best[entry] = max(sub_loo, loo[entry])
            value[entry] = sub_value
            gain = loo[entry] - sub_loo
            if gain > noise:
                corrected = 0.5 * (loo[entry] + max(plug[entry], loo[entry]))
                candidate = min(corrected, sub_value + cap * min(gain, 2.0 * (gain - noise)))
                if candidate > sub_value:
                    value[entry] = candidate
                    record[entry] = True
            # Next coalition of this size in colexicographic order.
            r = 0
            while r + 1 < s and members[r] + 1 == members[r + 1]:
                members[r] = r
                r += 1
            members[r] += 1
