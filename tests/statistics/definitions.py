"""Naive twins of the statistics: the definitions over single samples, with dictionaries and loops."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np


class Samples:
    """A table of single samples (task, codes of the parties, label)."""

    def __init__(self, counts) -> None:
        self.rows = [
            (int(t), tuple(int(c) for c in x), int(y))
            for t, x, y, k in zip(counts.task, counts.parties, counts.label, counts.count, strict=True)
            for _ in range(int(k))
        ]
        self.p = counts.n_parties
        self.labels = len({y for _, _, y in self.rows})

    def cell(self, row, S):
        t, x, _ = row
        return (t, *(x[d] for d in sorted(S)))

    def counters(self, S):
        total, same = Counter(), Counter()
        for row in self.rows:
            total[self.cell(row, S)] += 1
            same[self.cell(row, S), row[2]] += 1
        return total, same

    def log_chance(self, S):
        """ln p(y_i | x_S, x_t) of every sample, plug-in."""
        total, same = self.counters(S)
        return [math.log(same[self.cell(r, S), r[2]] / total[self.cell(r, S)]) for r in self.rows]

    def leave_one_out(self, S, alpha):
        """Sum over samples of ln p(y_i | x_S, x_t) - ln p(y_i | x_t), each from the other samples."""
        total, same = self.counters(S)
        task_total, task_same = self.counters(())
        out = 0.0
        for r in self.rows:
            here, there = self.cell(r, S), self.cell(r, ())
            behind = (task_same[there, r[2]] - 1 + alpha / self.labels) / (task_total[there] - 1 + alpha)
            if total[here] == task_total[there]:
                continue
            own = (same[here, r[2]] - 1 + alpha * behind) / (total[here] - 1 + alpha)
            out += math.log(own) - math.log(behind)
        return out / len(self.rows)

    def val(self, S):
        here, nobody = self.log_chance(S), self.log_chance(())
        return sum(a - b for a, b in zip(here, nobody, strict=True)) / len(self.rows)

    def freedom(self, S):
        """Labels seen beyond the first, summed over the cells."""
        total, same = self.counters(S)
        return len(same) - len(total)


def coalitions(p):
    return [frozenset(S) for k in range(p + 1) for S in itertools.combinations(range(p), k)]


def shapley(game, p):
    """Mean marginal contribution over all orders."""
    phi = np.zeros(p)
    for order in itertools.permutations(range(p)):
        before = frozenset()
        for d in order:
            phi[d] += game[before | {d}] - game[before]
            before = before | {d}
    return phi / math.factorial(p)


def learnable_game(samples, alpha, cap, noise):
    """v* of every coalition, as docs/statistics.md defines it."""
    loo = {S: samples.leave_one_out(S, alpha) if S else 0.0 for S in coalitions(samples.p)}
    star = {frozenset(): 0.0}
    for S in coalitions(samples.p)[1:]:
        proper = [T for T in coalitions(samples.p) if T < S]
        base = max(star[T] for T in proper)
        gain = loo[S] - max(0.0, *(loo[T] for T in proper))
        star[S] = base
        luck = noise / len(samples.rows)
        if gain > luck:
            middle = (loo[S] + max(samples.val(S), loo[S])) / 2
            star[S] = max(base, min(middle, base + cap * min(gain, 2 * (gain - luck))))
    return star


def pointwise_shapley(samples):
    """psi_d(i): the Shapley value of each sample's log ratio, shape (p, n)."""
    logs = {S: np.array(samples.log_chance(S)) for S in coalitions(samples.p)}
    psi = np.zeros((samples.p, len(samples.rows)))
    for order in itertools.permutations(range(samples.p)):
        before = frozenset()
        for d in order:
            psi[d] += logs[before | {d}] - logs[before]
            before = before | {d}
    return psi / math.factorial(samples.p)


def interaction(game, p, i, j):
    """Shapley interaction index by its definition."""
    rest = [k for k in range(p) if k not in (i, j)]
    out = 0.0
    for k in range(p - 1):
        for S in map(frozenset, itertools.combinations(rest, k)):
            weight = math.factorial(k) * math.factorial(p - k - 2) / math.factorial(p - 1)
            out += weight * (game[S | {i, j}] - game[S | {i}] - game[S | {j}] + game[S])
    return out
