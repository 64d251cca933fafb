"""Compiled walks behind `learnable`: tables over small coalitions, and what follows from them.

A table has one entry per coalition of at most `order` parties, by size and inside a size in colexicographic
order, so that coalition {c_1 < ... < c_s} is entry offset(s) + sum_i C(c_i, i). With order = n_parties
these are all 2^p coalitions.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
# Compiled functions take their types from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.statistics.blocks import refine

NOT_A_RECORD = -1e300
"""Stands for a leave-one-out value that was not computed because it cannot beat a sub-coalition's."""


@njit(cache=True, nogil=True)
def score(
    label, count, task_total, single, prior, log_prior, row, logs, alpha, items, starts, n_blocks, settled
):
    """Sums over the samples of the given blocks; blocks of one item are then dropped, in place.

    A block of one item is the same in every refinement, so its sum, single[item], is carried in `settled`.

    Logarithms of small numbers of samples come from `logs`: row 0 holds ln k, row 1 ln(k - 1 + alpha), and
    row[i] is the row of item i, ln(k - 1 + alpha p(y|x_t)).

    Returns:
        (blocks left, leave-one-out sum with settled blocks, n h(S), bound on the leave-one-out sum
        of every refinement, new settled sum).
    """
    kept = 0
    place = 0
    lo = 0
    live = 0.0
    bound = 0.0
    entropy = 0.0
    for block in range(n_blocks):
        hi = starts[block + 1]
        if hi - lo == 1:
            settled += single[items[lo]]
            lo = hi
            continue
        total = 0
        for j in range(lo, hi):
            total += count[items[j]]
        small = total < logs.shape[1]
        log_total = logs[1, total] if small else np.log(total - 1 + alpha)
        block_sum = 0.0
        j = lo
        while j < hi:
            item = items[j]
            run = count[item]
            end = j + 1
            while end < hi and label[items[end]] == label[item]:
                run += count[items[end]]
                end += 1
            log_share = logs[row[item], run] if small else np.log(run - 1 + alpha * prior[item])
            block_sum += run * (log_share - log_total - log_prior[item])
            # Other labels can only take probability away: refinements do best without them.
            log_run = logs[1, run] if small else np.log(run - 1 + alpha)
            bound += run * (log_share - log_run - log_prior[item])
            if run < total:
                entropy += run * (logs[0, total] - logs[0, run] if small else np.log(total / run))
            j = end
        if total == task_total[items[lo]]:
            block_sum = 0.0  # the coalition does not split this block: it adds nothing to X_t here
        live += block_sum
        for j in range(lo, hi):
            items[place] = items[j]
            place += 1
        kept += 1
        starts[kept] = place
        lo = hi
    return kept, settled + live, entropy, settled + bound, settled


@njit(cache=True, nogil=True)
def best_of_parts(table, c, s, below, binomial):
    """Largest entry among the coalitions {c_0 < ... < c_(s-1)} without one member, at least 0.

    Args:
        table: Entries by size and rank.
        c: Members in rising order.
        s: Number of members.
        below: Offset of size s - 1 in the table.
        binomial: Pascal's triangle.
    """
    # Without member r, the members below it keep their place and those above move down by one.
    tail = 0
    for r in range(1, s):
        tail += binomial[c[r], r]
    head = 0
    best = 0.0
    for r in range(s):
        best = max(best, table[below + head + tail])
        head += binomial[c[r], r + 1]
        if r + 1 < s:
            tail -= binomial[c[r + 1], r + 1]
    return best


@njit(cache=True, nogil=True)
def walk(
    codes,
    label,
    count,
    start,
    width,
    task_total,
    single,
    prior,
    log_prior,
    row,
    logs,
    alpha,
    order,
    binomial,
    prune,
    noise,
    budget,
):
    """Leave-one-out sums and n h(S) of every coalition of at most `order` parties.

    Depth first; a child adds a party of smaller index than all before it. A subtree whose bound does
    not pass the best sub-coalition met so far by `noise` holds no record and is left out (`prune`).

    Returns:
        (leave-one-out table, n h table, work, open). `work` counts item visits; beyond `budget` the
        tables are not complete. `open` counts coalitions of size `order` that could have gone deeper.
    """
    p, m = codes.shape
    offset = np.zeros(order + 2, dtype=np.int64)
    for s in range(order + 1):
        offset[s + 1] = offset[s] + binomial[p, s]
    loo = np.full(offset[order + 1], NOT_A_RECORD)
    entropy = np.zeros(offset[order + 1])
    items = np.empty((order + 1, m), dtype=np.int64)
    starts = np.zeros((order + 1, m + 1), dtype=np.int64)
    blocks = np.zeros(order + 1, dtype=np.int64)
    settled = np.zeros(order + 1)
    best = np.zeros(offset[order + 1])
    coalition = np.zeros(order + 1, dtype=np.int64)
    member = np.zeros(order + 1, dtype=np.int64)
    following = np.zeros(order + 1, dtype=np.int64)
    size = np.zeros(width, dtype=np.int64)
    seen = np.empty(m, dtype=np.int64)
    for j in range(m):
        items[0, j] = j
    starts[0, : len(start)] = start
    blocks[0], loo[0], entropy[0], bound, settled[0] = score(
        label, count, task_total, single, prior, log_prior, row, logs, alpha,
        items[0], starts[0], len(start) - 1, 0.0,
    )  # fmt: skip
    member[0] = p
    depth = 0
    work = 0
    n_open = 0
    while depth >= 0:
        d = following[depth]
        if d >= member[depth]:
            depth -= 1
            continue
        following[depth] += 1
        work += starts[depth, blocks[depth]] + 1
        if work > budget:
            return loo, entropy, work, n_open
        child = depth + 1
        blocks[child] = refine(
            codes[d], items[depth], starts[depth], blocks[depth], items[child], starts[child], size, seen
        )
        blocks[child], total, h, bound, settled[child] = score(
            label, count, task_total, single, prior, log_prior, row, logs, alpha,
            items[child], starts[child], blocks[child], settled[depth],
        )  # fmt: skip
        member[child] = d
        entry = offset[child]
        for k in range(child):
            coalition[k] = member[child - k]
            entry += binomial[coalition[k], k + 1]
        loo[entry] = total
        entropy[entry] = h
        # Every sub-coalition was visited before, or left out; an entry of 0 is a valid lower bound.
        best[entry] = max(total, best_of_parts(best, coalition, child, offset[child - 1], binomial))
        if d == 0 or (prune and bound <= best[entry] + noise):
            continue
        if child == order:
            n_open += 1
            continue
        following[child] = 0
        depth = child
    return loo, entropy, work, n_open


@njit(cache=True, nogil=True)
def envelope(loo, plug, p, order, binomial, cap, noise):
    """The learnable game v* on a table of coalitions (see `learnable`).

    Returns:
        (v*, whether the coalition is a record: v* above that of all its sub-coalitions).
    """
    n_entries = len(loo)
    best_loo = np.zeros(n_entries)
    value = np.zeros(n_entries)
    record = np.zeros(n_entries, dtype=np.bool_)
    offset = 0
    below = 0
    for s in range(1, order + 1):
        below = offset
        offset += binomial[p, s - 1]
        c = np.arange(s)
        for rank in range(binomial[p, s]):
            entry = offset + rank
            sub_loo = best_of_parts(best_loo, c, s, below, binomial)
            sub_value = best_of_parts(value, c, s, below, binomial)
            best_loo[entry] = max(sub_loo, loo[entry])
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
            while r + 1 < s and c[r] + 1 == c[r + 1]:
                c[r] = r
                r += 1
            c[r] += 1
    return value, record


@njit(cache=True, nogil=True)
def by_mask(value, p, order, binomial):
    """v* of all 2^p coalitions, by bit mask; larger coalitions take the best of their parts."""
    dense = np.zeros(1 << p)
    for mask in range(1, 1 << p):
        s = 0
        entry = 0
        for d in range(p):
            if mask >> d & 1:
                s += 1
                entry += binomial[d, s]
        if s <= order:
            for k in range(s):
                entry += binomial[p, k]
            dense[mask] = value[entry]
        else:
            for d in range(p):
                if mask >> d & 1:
                    dense[mask] = max(dense[mask], dense[mask ^ (1 << d)])
    return dense


@njit(cache=True, nogil=True)
def members_of_records(record, value, p, order, binomial):
    """Members (padded with -1) and value of each record coalition."""
    n_records = 0
    for entry in range(len(record)):
        n_records += record[entry]
    members = np.full((n_records, order), -1, dtype=np.int64)
    values = np.empty(n_records)
    offset = 0
    found = 0
    for s in range(1, order + 1):
        offset += binomial[p, s - 1]
        c = np.arange(s)
        for rank in range(binomial[p, s]):
            if record[offset + rank]:
                members[found, :s] = c
                values[found] = value[offset + rank]
                found += 1
            r = 0
            while r + 1 < s and c[r] + 1 == c[r + 1]:
                c[r] = r
                r += 1
            c[r] += 1
    return members, values


@njit(cache=True, nogil=True)
def marginals_along(orders, members, values):
    """Marginal contributions in the game max over records inside S, per order, shape (n_orders, p)."""
    n_orders, p = orders.shape
    out = np.zeros((n_orders, p))
    position = np.empty(p, dtype=np.int64)
    best = np.empty(p)
    for k in range(n_orders):
        for step in range(p):
            position[orders[k, step]] = step
            best[step] = 0.0
        for t in range(len(values)):
            complete = 0
            for r in range(members.shape[1]):
                d = members[t, r]
                if d < 0:
                    break
                complete = max(complete, position[d])
            best[complete] = max(best[complete], values[t])
        top = 0.0
        for step in range(p):
            if best[step] > top:
                out[k, orders[k, step]] = best[step] - top
                top = best[step]
    return out
