"""Compiled: the small linear algebra of a fit with weights that must not be negative."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np

from fedvalue.compiled import float_kernel


@float_kernel()
def lower_factor(matrix, places, n_places, lower):
    """Cholesky factor of the first rows and columns `places` of a positive definite matrix."""
    for i in range(n_places):
        for j in range(i + 1):
            total = matrix[places[i], places[j]]
            for h in range(j):
                total -= lower[i, h] * lower[j, h]
            if i == j:
                lower[i, i] = np.sqrt(total)
            else:
                lower[i, j] = total / lower[j, j]


@float_kernel()
def solve(matrix, places, n_places, right, z, k, lower):
    """Write into z[places] the solution of the system of these rows and columns; the rest of k is 0."""
    lower_factor(matrix, places, n_places, lower)
    for i in range(k):
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


@float_kernel()
def _find_wrong(hessian, linear, z, k, free, wrong):
    """Write the places of weights that break a sign condition; return their number."""
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


@float_kernel()
def newton_target(scratch, k, w):
    """Minimum of the quadratic model at w over non-negative weights (see `evidence_pool.plain_target`).

    Args:
        scratch: A `PoolScratch` with gradient and Hessian; its third vector takes the answer.
        k: Number of weights.
        w: Where the model was made.
    """
    z, gradient, linear = scratch.vectors[2], scratch.vectors[3], scratch.vectors[4]
    free, places, wrong = scratch.places[1], scratch.places[2], scratch.places[3]
    for i in range(k):
        linear[i] = -gradient[i]
        for h in range(k):
            linear[i] += scratch.hessian[i, h] * w[h]
        free[i] = 1 if w[i] > 0.0 or gradient[i] < 0.0 else 0
    fewest = k + 1
    patience = 3
    while True:
        n_free = 0
        for i in range(k):
            places[n_free] = i
            n_free += free[i]
        solve(scratch.hessian, places, n_free, linear, z, k, scratch.lower)
        n_wrong = _find_wrong(scratch.hessian, linear, z, k, free, wrong)
        if n_wrong == 0:
            return
        begin = 0
        if n_wrong < fewest:
            fewest = n_wrong
            patience = 3
        elif patience > 0:
            patience -= 1
        else:
            begin = n_wrong - 1
        for i in range(begin, n_wrong):
            free[wrong[i]] = 1 - free[wrong[i]]


@float_kernel()
def inverse_factor(matrix, places, n_places, lower, root):
    """R with R'R the inverse of rows and columns `places`; lower triangular, then columns of zeros."""
    lower_factor(matrix, places, n_places, lower)
    # R is the inverse of L: row j is (e_j - sum_h L_jh row h) / L_jj.
    for j in range(n_places):
        for i in range(n_places + 3):
            root[j, i] = 0.0
        for h in range(j):
            for i in range(h + 1):
                root[j, i] -= lower[j, h] * root[h, i]
        for i in range(j):
            root[j, i] /= lower[j, j]
        root[j, j] = 1.0 / lower[j, j]
