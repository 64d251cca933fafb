"""Pooled evidence as its definition reads, row by row: slow, without groups, tables or shortcuts."""

from __future__ import annotations

import itertools
import math

import numpy as np

STRENGTHS = (0.5, 1, 2, 4, 8, 16, 32, 64)


def dense(column):
    return np.unique(np.asarray(column), return_inverse=True)[1]


def cell_evidence(cell, label, log_pool, prior_log_odds):
    """Evidence of cells against a pool, per row and label; and the log-odds against ignoring the cells."""
    n, n_labels = log_pool.shape
    table = np.zeros((cell.max() + 1, n_labels))
    np.add.at(table, (cell, label), 1)
    own = np.eye(n_labels)[label]
    others, total = table[cell] - own, table.sum(axis=1)[cell] - 1
    pool, rows = np.exp(log_pool), np.arange(n)
    predictions = [(others + a * pool) / (total + a)[:, None] for a in STRENGTHS]
    gains = np.array([np.sum(np.log(p[rows, label]) - log_pool[rows, label]) for p in predictions])
    scores = gains - math.log(8) + prior_log_odds
    weights = np.exp(np.append(scores, 0.0) - max(0.0, scores.max()))
    weights /= weights.sum()
    mixed = sum(w * p for w, p in zip(weights, [*predictions, pool], strict=True))
    top = scores.max()
    return np.log(mixed) - log_pool, top + math.log(np.sum(np.exp(scores - top)))


def fit(log_base, evidences, label, penalty=4.0):
    """ln p(y_i | i) of the pool, with each row's own pull removed by one Newton step."""
    n, _ = log_base.shape
    rows = np.arange(n)
    if not evidences:
        return log_base[rows, label]
    x = np.stack(evidences)
    w = np.full(len(x), 0.5)

    def predict(w):
        score = log_base + np.tensordot(w, x, 1)
        return score - np.log(np.sum(np.exp(score), axis=1))[:, None]

    for _ in range(500):
        log_p = predict(w)
        p = np.exp(log_p)
        mean = np.sum(x * p, axis=2)
        residual = x[:, rows, label] - mean
        gradient = residual.sum(axis=1) - penalty * (w - 0.5)
        hessian = np.einsum("anl,bnl,nl->ab", x, x, p) - mean @ mean.T + penalty * np.eye(len(x))
        free = (w > 0) | (gradient > 0)
        step = np.zeros(len(x))
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        if np.abs(np.maximum(w + step, 0) - w).max() < 1e-12:
            break
        # Short steps near the bound keep the active set honest; there is no hurry here.
        w = np.maximum(w + 0.5 * step, 0) if np.any(w + step < -1e-3) else np.maximum(w + step, 0)
    free = w > 1e-9
    pull = np.zeros_like(residual)
    pull[free] = np.linalg.solve(hessian[np.ix_(free, free)], residual[free])
    score = log_base + np.tensordot(w, x, 1) - np.einsum("kn,knl->nl", pull, x)
    return score[rows, label] - np.log(np.sum(np.exp(score), axis=1))


def coalition_values(table):
    """v of every coalition by bit mask, and the kept pairs. Columns must be distinct."""
    repeat = table.count
    label = dense(np.repeat(table.label, repeat))
    columns = [dense(np.repeat(table.codes[:, k], repeat)) for k in range(table.n_columns)]
    n, n_labels = len(label), label.max() + 1
    frequency = np.bincount(label)
    log_base = np.log((frequency - np.eye(n_labels)[label] + 0.5) / (n - 1 + n_labels / 2))
    single = [cell_evidence(column, label, log_base, 0.0)[0] for column in columns]
    for k, column in enumerate(columns):
        joint = np.zeros((column.max() + 1, n_labels), dtype=int)
        np.add.at(joint, (column, label), 1)
        if np.array_equal(joint * n, np.outer(joint.sum(axis=1), frequency)):
            single[k] = np.zeros_like(log_base)
    usable = [k for k, column in enumerate(columns) if 0 < column.max() < n / 2]
    pairs = list(itertools.combinations(usable, 2))
    found = []
    for f, g in pairs:
        cell = dense(columns[f] * (columns[g].max() + 1) + columns[g])
        if cell.max() + 1 > n / 2:
            continue
        score = log_base + single[f] + single[g]
        pool = score - np.log(np.sum(np.exp(score), axis=1))[:, None]
        evidence, log_odds = cell_evidence(cell, label, pool, -(2 + math.log(len(pairs))))
        if log_odds > -2:
            found.append((log_odds, (f, g), evidence))
    found.sort(key=lambda pair: -pair[0])
    found = found[:24]
    means = []
    for mask in range(1 << table.n_parties):
        inside = [k for k, owner in enumerate(table.owner) if owner < 0 or mask >> owner & 1]
        evidences = [single[k] for k in inside]
        evidences += [evidence for _, pair, evidence in found if set(pair) <= set(inside)]
        means.append(fit(log_base, evidences, label).mean())
    return np.array(means) - means[0], [pair for _, pair, _ in found]
