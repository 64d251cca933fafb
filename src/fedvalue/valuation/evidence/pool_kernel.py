"""Compiled passes over the rows of a pool, and the small linear algebra between them.

Rows go by in blocks that stay in the cache. Sums may be reordered by the compiler, so results agree with the
plain NumPy passes to rounding, not to the bit. Explicit loops throughout: expressions on slices take seconds
to compile.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np

from fedvalue.compiled import njit

BLOCK = 256
"""Rows in a block: with 40 evidences, 80 KB of doubles."""

_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _load(index, tables, first, base, label, count, chosen, w, low, size, x, log_odds, p):
    """Gather one block's evidence, its log-odds and probabilities; return its share of the loss.

    Row a * size + i of `log_odds` and `p`, and column a * size + i of `x`, belong to alternative a of item
    low + i.
    """
    n_other = tables.shape[1]
    for a in range(n_other):
        for i in range(size):
            log_odds[a * size + i] = base[label[low + i], a]
    for j in range(len(chosen)):
        start = first[chosen[j]]
        for a in range(n_other):
            at = a * size
            for i in range(size):
                x[j, at + i] = tables[start + np.int64(index[chosen[j], low + i]), a]
        for i in range(n_other * size):
            log_odds[i] += w[j] * x[j, i]
    loss = 0.0
    if n_other == 1:
        # One exponential per row instead of two.
        for i in range(size):
            e = np.exp(-abs(log_odds[i]))
            p[i] = (1.0 if log_odds[i] > 0.0 else e) / (1.0 + e)
            loss += count[low + i] * (max(log_odds[i], 0.0) + np.log(1.0 + e))
        return loss
    for i in range(size):
        top = 0.0
        for a in range(n_other):
            top = max(top, log_odds[a * size + i])
        z = np.exp(-top)
        for a in range(n_other):
            p[a * size + i] = np.exp(log_odds[a * size + i] - top)
            z += p[a * size + i]
        for a in range(n_other):
            p[a * size + i] /= z
        loss += count[low + i] * (top + np.log(z))
    return loss


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _scale(x, count, p, n_other, low, size, n_chosen, gradient, scaled, mean):
    """Write the factors of the block's Hessian, scaled x' and mean mean', and add its gradient.

    With one alternative the weights are count p (1 - p), and the mean is not needed.
    """
    for j in range(n_chosen):
        total = 0.0
        for a in range(n_other):
            at = a * size
            for i in range(size):
                part = count[low + i] * p[at + i] * x[j, at + i]
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
def _add_products(hessian, left, right, length):
    """Add left right' to the lower triangle, in tiles of 4 x 4; the size is a multiple of 4."""
    for j in range(0, len(hessian), 4):
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
def derivatives(index, tables, first, base, label, count, chosen, w, penalty, prior):
    """Loss, gradient and Hessian (see `evidence_pool.PlainPasses`).

    The Hessian's size is that of `chosen`, rounded up to a multiple of 4.
    """
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
        loss += _load(index, tables, first, base, label, count, chosen, w, low, size, x, log_odds, p)
        _scale(x, count, p, n_other, low, size, k, gradient, scaled, mean)
        _add_products(hessian, scaled, x, n_other * size)
        if n_other > 1:
            for j in range(k):
                for i in range(size):
                    scaled[j, i] = -count[low + i] * mean[j, i]
            _add_products(hessian, scaled, mean, size)
    for j in range(k):
        for h in range(j):
            hessian[h, j] = hessian[j, h]
        off = w[j] - prior
        loss += 0.5 * penalty * off * off
        gradient[j] += penalty * off
        hessian[j, j] += penalty
    return loss, gradient, hessian


@njit(cache=True, nogil=True)
def lower_factor(matrix, places, n_places):
    """Cholesky factor of the first rows and columns `places` of a positive definite matrix."""
    lower = np.zeros((n_places, n_places))
    for i in range(n_places):
        for j in range(i + 1):
            total = matrix[places[i], places[j]]
            for h in range(j):
                total -= lower[i, h] * lower[j, h]
            if i == j:
                lower[i, i] = np.sqrt(total)
            else:
                lower[i, j] = total / lower[j, j]
    return lower


@njit(cache=True, nogil=True)
def solve(matrix, places, n_places, right, z):
    """Write into z[places] the solution of the system of these rows and columns; the rest of z is 0."""
    lower = lower_factor(matrix, places, n_places)
    for i in range(len(z)):
        z[i] = 0.0
    for i in range(n_places):
        total = right[places[i]]
        for h in range(i):
            total -= lower[i, h] * z[places[h]]
        z[places[i]] = total / lower[i, i]
    for i in range(n_places - 1, -1, -1):
        z[places[i]] /= lower[i, i]
        for h in range(i):
            z[places[h]] -= lower[i, h] * z[places[i]]


@njit(cache=True, nogil=True)
def _find_wrong(hessian, linear, z, free, wrong):
    """Write the places of weights that break a sign condition; return their number."""
    k = len(z)
    n_wrong = 0
    for i in range(k):
        slope = -linear[i]
        for h in range(k):
            slope += hessian[i, h] * z[h]
        sign = z[i] if free[i] == 1 else slope + 1e-12 * (1.0 + abs(linear[i]))
        if sign < 0.0:
            wrong[n_wrong] = i
            n_wrong += 1
    return n_wrong


@njit(cache=True, nogil=True)
def newton_target(hessian, gradient, w):
    """Minimum of the quadratic model at w over non-negative weights (see `evidence_pool.plain_target`)."""
    k = len(w)
    z = np.empty(k)
    linear = np.empty(k)
    free = np.empty(k, dtype=np.int64)
    wrong = np.empty(k, dtype=np.int64)
    places = np.empty(k, dtype=np.int64)
    for i in range(k):
        linear[i] = -gradient[i]
        for h in range(k):
            linear[i] += hessian[i, h] * w[h]
        free[i] = 1 if w[i] > 0.0 or gradient[i] < 0.0 else 0
    fewest = k + 1
    patience = 3
    while True:
        n_free = 0
        for i in range(k):
            places[n_free] = i
            n_free += free[i]
        solve(hessian, places, n_free, linear, z)
        n_wrong = _find_wrong(hessian, linear, z, free, wrong)
        if n_wrong == 0:
            return z
        first = 0
        if n_wrong < fewest:
            fewest = n_wrong
            patience = 3
        elif patience > 0:
            patience -= 1
        else:
            first = n_wrong - 1
        for i in range(first, n_wrong):
            free[wrong[i]] = 1 - free[wrong[i]]


@njit(cache=True, nogil=True)
def fit(index, tables, first, base, label, count, chosen, start, penalty, prior, tolerance, most_steps):
    """Weights, Hessian and number of looks of the pool (see `evidence_pool.PlainPasses.fit`).

    The number of looks is -1 where the steps do not converge.
    """
    k = len(chosen)
    w = np.empty(k)
    trial = np.empty(k)
    for j in range(k):
        w[j] = max(start[j], 0.0)
    loss, gradient, hessian = derivatives(index, tables, first, base, label, count, chosen, w, penalty, prior)
    n_steps = 1
    while True:
        target = newton_target(hessian, gradient, w)
        largest = 0.0
        slope = 0.0
        for j in range(k):
            largest = max(largest, abs(target[j] - w[j]))
            slope += gradient[j] * (target[j] - w[j])
        if largest <= tolerance:
            return target, hessian, n_steps
        scale = 1.0
        before = loss
        while True:
            if n_steps >= most_steps:
                return target, hessian, -1
            for j in range(k):
                trial[j] = max(w[j] + scale * (target[j] - w[j]), 0.0)
            loss, gradient, hessian = derivatives(
                index, tables, first, base, label, count, chosen, trial, penalty, prior
            )
            n_steps += 1
            if loss <= before + 1e-4 * scale * slope + 1e-14 * abs(before):
                break
            scale *= 0.5
        for j in range(k):
            w[j] = trial[j]


@njit(cache=True, nogil=True)
def inverse_factor(matrix, places):
    """R with R'R the inverse of rows and columns `places`; lower triangular, then three columns of zeros."""
    k = len(places)
    lower = lower_factor(matrix, places, k)
    root = np.zeros((k, k + 3))
    # R is the inverse of L: row j is (e_j - sum_h L_jh row h) / L_jj.
    for j in range(k):
        for h in range(j):
            for i in range(h + 1):
                root[j, i] -= lower[j, h] * root[h, i]
        for i in range(j):
            root[j, i] /= lower[j, j]
        root[j, j] = 1.0 / lower[j, j]
    return root


@njit(cache=True, nogil=True, fastmath=_REORDER)
def left_out(index, tables, first, base, label, count, chosen, w, root):
    """Log-odds of each row without its own pull, shape (n_labels - 1, n_items).

    `root` is that of `inverse_factor`.
    """
    k = len(chosen)
    n_items = len(label)
    n_other = tables.shape[1]
    x = np.zeros((k + 3, n_other * BLOCK))
    log_odds = np.empty(n_other * BLOCK)
    p = np.empty(n_other * BLOCK)
    y = np.empty(n_other * BLOCK)
    out = np.empty((n_other, n_items))
    for low in range(0, n_items, BLOCK):
        size = min(BLOCK, n_items - low)
        _load(index, tables, first, base, label, count, chosen, w, low, size, x, log_odds, p)
        for j in range(k):
            for i in range(n_other * size):
                y[i] = 0.0
            for h in range(0, j + 1, 4):
                r0, r1, r2, r3 = root[j, h], root[j, h + 1], root[j, h + 2], root[j, h + 3]
                for i in range(n_other * size):
                    y[i] += r0 * x[h, i] + r1 * x[h + 1, i] + r2 * x[h + 2, i] + r3 * x[h + 3, i]
            for i in range(size):
                pull = 0.0
                for a in range(n_other):
                    pull += p[a * size + i] * y[a * size + i]
                for a in range(n_other):
                    log_odds[a * size + i] += pull * y[a * size + i]
        for a in range(n_other):
            for i in range(size):
                out[a, low + i] = log_odds[a * size + i]
    return out
