"""Compiled passes over the rows of a pool: derivatives, and predictions without the row's own pull.

Rows go by in blocks that stay in the cache. Sums may be reordered by the compiler, so results agree with the
plain NumPy passes to rounding, not to the bit.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 256
"""Rows in a block: with 40 evidences, 80 KB of doubles."""

_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _load(index, tables, first, base, label, chosen, w, low, size, x, log_odds):
    """Gather one block's evidence into x, shape (n_chosen, n_alternatives * size), and its log-odds."""
    n_other = tables.shape[1]
    for a in range(n_other):
        for i in range(size):
            log_odds[a * size + i] = base[label[low + i], a]
    for j in range(len(chosen)):
        rows = index[chosen[j]]
        start = first[chosen[j]]
        for a in range(n_other):
            at = a * size
            for i in range(size):
                x[j, at + i] = tables[start + np.int64(rows[low + i]), a]
        weight = w[j]
        for i in range(n_other * size):
            log_odds[i] += weight * x[j, i]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _probabilities(log_odds, n_other, size, count, p):
    """Write the probability of each alternative; return the block's share of the loss."""
    loss = 0.0
    for i in range(size):
        top = 0.0
        for a in range(n_other):
            top = max(top, log_odds[a * size + i])
        z = np.exp(-top)
        for a in range(n_other):
            e = np.exp(log_odds[a * size + i] - top)
            p[a * size + i] = e
            z += e
        for a in range(n_other):
            p[a * size + i] /= z
        loss += count[i] * (top + np.log(z))
    return loss


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _scale(x, count, p, n_other, size, n_chosen, gradient, scaled, mean):
    """Write the two factors of the block's Hessian, and add its gradient.

    With one alternative the weights are count p (1 - p). With more, `mean` gets the expected evidence.
    """
    for j in range(n_chosen):
        total = 0.0
        for a in range(n_other):
            at = a * size
            for i in range(size):
                part = count[i] * p[at + i] * x[j, at + i]
                total += part
                scaled[j, at + i] = part
        gradient[j] += total
        if n_other == 1:
            for i in range(size):
                scaled[j, i] *= 1.0 - p[i]
            continue
        for i in range(size):
            mean[j, i] = 0.0
        for a in range(n_other):
            at = a * size
            for i in range(size):
                mean[j, i] += p[at + i] * x[j, at + i]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def derivatives(index, tables, first, base, label, count, chosen, w):
    """-sum ln p(y_i | i), gradient and Hessian (see `evidence_pool.Passes`)."""
    k = len(chosen)
    padded = (k + 3) // 4 * 4
    n_items = len(label)
    n_other = tables.shape[1]
    x = np.zeros((padded, n_other * BLOCK))
    scaled = np.zeros((padded, n_other * BLOCK))
    mean = np.zeros((padded, BLOCK))
    log_odds = np.empty(n_other * BLOCK)
    p = np.empty(n_other * BLOCK)
    gradient = np.zeros(k)
    hessian = np.zeros((padded, padded))
    loss = 0.0
    for low in range(0, n_items, BLOCK):
        size = min(BLOCK, n_items - low)
        _load(index, tables, first, base, label, chosen, w, low, size, x, log_odds)
        loss += _probabilities(log_odds, n_other, size, count[low : low + size], p)
        _scale(x, count[low : low + size], p, n_other, size, k, gradient, scaled, mean)
        _add_products(hessian, scaled, x, n_other * size, padded)
        if n_other > 1:
            for j in range(k):
                for i in range(size):
                    scaled[j, i] = -count[low + i] * mean[j, i]
            _add_products(hessian, scaled, mean, size, padded)
    for j in range(k):
        for h in range(j):
            hessian[h, j] = hessian[j, h]
    return loss, gradient, hessian[:k, :k].copy()


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _add_products(hessian, left, right, length, padded):
    """Add left right' to the lower triangle, in tiles of 4 x 4."""
    for j in range(0, padded, 4):
        for h in range(0, j + 4, 4):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
            for i in range(length):
                l0, l1, l2, l3 = left[j, i], left[j + 1, i], left[j + 2, i], left[j + 3, i]
                r0, r1, r2, r3 = right[h, i], right[h + 1, i], right[h + 2, i], right[h + 3, i]
                s00 += l0 * r0
                s01 += l0 * r1
                s02 += l0 * r2
                s03 += l0 * r3
                s10 += l1 * r0
                s11 += l1 * r1
                s12 += l1 * r2
                s13 += l1 * r3
                s20 += l2 * r0
                s21 += l2 * r1
                s22 += l2 * r2
                s23 += l2 * r3
                s30 += l3 * r0
                s31 += l3 * r1
                s32 += l3 * r2
                s33 += l3 * r3
            hessian[j, h] += s00
            hessian[j, h + 1] += s01
            hessian[j, h + 2] += s02
            hessian[j, h + 3] += s03
            hessian[j + 1, h] += s10
            hessian[j + 1, h + 1] += s11
            hessian[j + 1, h + 2] += s12
            hessian[j + 1, h + 3] += s13
            hessian[j + 2, h] += s20
            hessian[j + 2, h + 1] += s21
            hessian[j + 2, h + 2] += s22
            hessian[j + 2, h + 3] += s23
            hessian[j + 3, h] += s30
            hessian[j + 3, h + 1] += s31
            hessian[j + 3, h + 2] += s32
            hessian[j + 3, h + 3] += s33


@njit(cache=True, nogil=True, fastmath=_REORDER)
def left_out(index, tables, first, base, label, count, chosen, w, root):
    """Log-odds of each row without its own pull (see `evidence_pool.Passes`).

    `root` is lower triangular.
    """
    k = len(chosen)
    n_items = len(label)
    n_other = tables.shape[1]
    x = np.zeros((k + 3, n_other * BLOCK))
    log_odds = np.empty(n_other * BLOCK)
    p = np.empty(n_other * BLOCK)
    y = np.empty(n_other * BLOCK)
    moved = np.empty(n_other * BLOCK)
    out = np.empty((n_other, n_items))
    rows = np.zeros((k, k + 3))
    rows[:, :k] = root
    for low in range(0, n_items, BLOCK):
        size = min(BLOCK, n_items - low)
        length = n_other * size
        _load(index, tables, first, base, label, chosen, w, low, size, x, log_odds)
        _probabilities(log_odds, n_other, size, count[low : low + size], p)
        moved[:length] = log_odds[:length]
        for j in range(k):
            if rows[j, j] == 0.0:
                continue
            y[:length] = 0.0
            for h in range(0, j + 1, 4):
                r0, r1, r2, r3 = rows[j, h], rows[j, h + 1], rows[j, h + 2], rows[j, h + 3]
                for i in range(length):
                    y[i] += r0 * x[h, i] + r1 * x[h + 1, i] + r2 * x[h + 2, i] + r3 * x[h + 3, i]
            _remove_pull(p, y, n_other, size, moved)
        out[:, low : low + size] = moved[:length].reshape(n_other, size)
    return out


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _remove_pull(p, y, n_other, size, moved):
    """Move the log-odds against the pull that a row has along one direction."""
    for i in range(size):
        pull = 0.0
        for a in range(n_other):
            pull += p[a * size + i] * y[a * size + i]
        for a in range(n_other):
            moved[a * size + i] += pull * y[a * size + i]
