"""Compiled fits of many pools, one after the other.

Rows go by in blocks that stay in the cache; a table of one block is gathered once per pool. Sums may be
reordered by the compiler, so results agree with the plain NumPy passes to rounding, not to the bit. Column
a * stride + i of a block belongs to alternative a of its item i; columns beyond its items have weight 0.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np

from fedvalue.compiled import float_kernel
from fedvalue.valuation.evidence.newton_kernels import inverse_factor, newton_target
from fedvalue.valuation.evidence.vector_kernels import exp_in_place, log_in_place

_REORDER = ("reassoc", "contract", "nsz")


@float_kernel()
def _read_rows(rows, low, size, scratch):
    """Read the weights and offsets of one block."""
    stride = len(scratch.weight)
    for i in range(size):
        scratch.weight[i] = rows.samples[low + i]
    for i in range(size, stride):
        scratch.weight[i] = 0.0
    for a in range(rows.tables.shape[1]):
        for i in range(size):
            scratch.offset[a * stride + i] = rows.base[rows.label[low + i], a]
        for i in range(size, stride):
            scratch.offset[a * stride + i] = 0.0


@float_kernel()
def _read_evidence(rows, evidence, low, size, x, stride):
    """Read one evidence of one block."""
    start = rows.first[evidence]
    for a in range(rows.tables.shape[1]):
        at = a * stride
        for i in range(size):
            x[at + i] = rows.tables[start + np.int64(rows.groups[evidence, low + i]), a]
        for i in range(size, stride):
            x[at + i] = 0.0


@float_kernel()
def load_only_block(rows, scratch):
    """Read all evidence of a table of one block; of larger ones nothing."""
    for evidence in range(len(scratch.everything)):
        _read_evidence(rows, evidence, 0, len(rows.label), scratch.everything[evidence], len(scratch.weight))
    if len(scratch.everything) > 0:
        _read_rows(rows, 0, len(rows.label), scratch)


@float_kernel()
def _load(rows, chosen, k, low, scratch, n_items):
    """Bring a pool's evidence of one block of the first items; rows of x beyond k become 0."""
    stride = len(scratch.weight)
    wide = scratch.x.shape[1]
    size = min(stride, n_items - low)
    if len(scratch.everything) > 0:
        for j in range(k):
            for i in range(wide):
                scratch.x[j, i] = scratch.everything[chosen[j], i]
    else:
        _read_rows(rows, low, size, scratch)
        for j in range(k):
            _read_evidence(rows, chosen[j], low, size, scratch.x[j], stride)
    for j in range(k, (k + 3) // 4 * 4):
        for i in range(wide):
            scratch.x[j, i] = 0.0


@float_kernel(*_REORDER)
def _predict(scratch, w, k, n_other):
    """Log-odds and probabilities of the block; returns its share of the loss."""
    stride = len(scratch.weight)
    for i in range(n_other * stride):
        scratch.log_odds[i] = scratch.offset[i]
    for j in range(k):
        if w[j] != 0.0:
            for i in range(n_other * stride):
                scratch.log_odds[i] += w[j] * scratch.x[j, i]
    return _softmax(scratch, n_other)


@float_kernel()
def _softmax(scratch, n_other):
    """Probabilities from log-odds; returns the weighted sum of -ln p of the rows' own labels.

    -ln p is left in `z`, less the largest log-odds, 0 included, which `top` has.
    """
    if n_other == 1:
        return _softmax_of_one(scratch)
    return _softmax_of_many(scratch, n_other)


@float_kernel(*_REORDER)
def _softmax_of_one(scratch):
    """One exponential per row instead of two."""
    stride = len(scratch.weight)
    for i in range(stride):
        scratch.p[i] = -abs(scratch.log_odds[i])
        scratch.top[i] = max(scratch.log_odds[i], 0.0)
    exp_in_place(scratch.p, scratch.p_bits, scratch.spare, scratch.spare_bits, stride)
    for i in range(stride):
        e = scratch.p[i]
        scratch.z[i] = 1.0 + e
        scratch.p[i] = (1.0 if scratch.log_odds[i] > 0.0 else e) / (1.0 + e)
    return _loss(scratch)


@float_kernel(*_REORDER)
def _softmax_of_many(scratch, n_other):
    stride = len(scratch.weight)
    for i in range(stride):
        scratch.top[i] = 0.0
    for a in range(n_other):
        for i in range(stride):
            scratch.top[i] = max(scratch.top[i], scratch.log_odds[a * stride + i])
    for i in range(stride):
        scratch.z[i] = -scratch.top[i]
    for a in range(n_other):
        for i in range(stride):
            scratch.p[a * stride + i] = scratch.log_odds[a * stride + i] - scratch.top[i]
    exp_in_place(scratch.z, scratch.z_bits, scratch.spare, scratch.spare_bits, stride)
    exp_in_place(scratch.p, scratch.p_bits, scratch.spare, scratch.spare_bits, n_other * stride)
    for a in range(n_other):
        for i in range(stride):
            scratch.z[i] += scratch.p[a * stride + i]
    for a in range(n_other):
        for i in range(stride):
            scratch.p[a * stride + i] /= scratch.z[i]
    return _loss(scratch)


@float_kernel(*_REORDER)
def _loss(scratch):
    log_in_place(scratch.z, scratch.z_bits, scratch.spare, scratch.spare_bits, len(scratch.weight))
    loss = 0.0
    for i in range(len(scratch.weight)):
        loss += scratch.weight[i] * (scratch.top[i] + scratch.z[i])
    return loss


@float_kernel(*_REORDER)
def _add_derivatives(scratch, k, n_other, gradient):
    """Add the block's gradient, and its part of the lower triangle of the Hessian."""
    stride = len(scratch.weight)
    wide = n_other * stride
    padded = (k + 3) // 4 * 4
    share = scratch.spare
    for a in range(n_other):
        for i in range(stride):
            share[a * stride + i] = scratch.weight[i] * scratch.p[a * stride + i]
    for j in range(k):
        total = 0.0
        for i in range(wide):
            total += share[i] * scratch.x[j, i]
        gradient[j] += total
    if n_other == 1:
        for i in range(stride):
            share[i] *= 1.0 - scratch.p[i]
    for j in range(padded):
        for i in range(wide):
            scratch.scaled[j, i] = share[i] * scratch.x[j, i]
    _add_products(scratch.hessian, scratch.scaled, scratch.x, padded, wide)
    if n_other > 1:
        _take_means(scratch, padded, n_other)
        _add_products(scratch.hessian, scratch.scaled, scratch.mean, padded, stride)


@float_kernel(*_REORDER)
def _take_means(scratch, padded, n_other):
    """Mean evidence of each row under its probabilities, and the same times minus its weight."""
    stride = len(scratch.weight)
    for j in range(padded):
        for i in range(stride):
            scratch.mean[j, i] = 0.0
        for a in range(n_other):
            for i in range(stride):
                scratch.mean[j, i] += scratch.p[a * stride + i] * scratch.x[j, a * stride + i]
        for i in range(stride):
            scratch.scaled[j, i] = -scratch.weight[i] * scratch.mean[j, i]


@float_kernel(*_REORDER)
def _add_products(hessian, left, right, padded, length):
    """Add left right' to the lower triangle, in tiles of 4 x 4; the size is a multiple of 4."""
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


@float_kernel()
def derivatives(rows, chosen, k, w, rules, scratch, loaded, n_items):
    """Loss on the first items; gradient and Hessian go to `scratch` (see `evidence_pool.PlainPasses`).

    `loaded` says that `scratch` holds the evidence of the only block.
    """
    n_other = rows.tables.shape[1]
    stride = len(scratch.weight)
    gradient = scratch.vectors[3]
    padded = (k + 3) // 4 * 4
    for j in range(padded):
        gradient[j] = 0.0
        for h in range(padded):
            scratch.hessian[j, h] = 0.0
    loss = 0.0
    for low in range(0, n_items, stride):
        if not loaded:
            _load(rows, chosen, k, low, scratch, n_items)
        loss += _predict(scratch, w, k, n_other)
        _add_derivatives(scratch, k, n_other, gradient)
    for j in range(k):
        for h in range(j):
            scratch.hessian[h, j] = scratch.hessian[j, h]
        off = w[j] - rules.prior
        loss += 0.5 * rules.penalty * off * off
        gradient[j] += rules.penalty * off
        scratch.hessian[j, j] += rules.penalty
    return loss


@float_kernel()
def fit(rows, chosen, k, rules, scratch, loaded, n_items):
    """Newton's method on the first items, from the weights in `scratch`; see `PlainPasses.fit`.

    The weights in `scratch` become the optimum, snapped to 0 where they are tiny, and its Hessian the one
    there.

    Returns:
        The number of looks at all rows; -1 where the steps do not converge.
    """
    w, trial, target, gradient = (
        scratch.vectors[0],
        scratch.vectors[1],
        scratch.vectors[2],
        scratch.vectors[3],
    )
    tolerance = min(1e-5, max(1e-10, rules.left_open / k))
    rounding = 0.0
    for i in range(n_items):
        rounding += rules.rounding * rows.samples[i]
    for j in range(k):
        w[j] = max(w[j], 0.0)
    loss = derivatives(rows, chosen, k, w, rules, scratch, loaded, n_items)
    n_steps = 1
    while True:
        newton_target(scratch, k, w)
        largest = 0.0
        slope = 0.0
        for j in range(k):
            largest = max(largest, abs(target[j] - w[j]))
            slope += gradient[j] * (target[j] - w[j])
        if largest <= tolerance:
            for j in range(k):
                w[j] = target[j] if target[j] > rules.snap else 0.0
            return n_steps
        scale = 1.0
        before = loss
        while True:
            if n_steps >= rules.most_steps:
                return -1
            for j in range(k):
                trial[j] = max(w[j] + scale * (target[j] - w[j]), 0.0)
            loss = derivatives(rows, chosen, k, trial, rules, scratch, loaded, n_items)
            n_steps += 1
            if loss <= before + 1e-4 * scale * slope + max(1e-14 * abs(before), rounding):
                break
            scale *= 0.5
        for j in range(k):
            w[j] = trial[j]


@float_kernel(*_REORDER)
def _take_out(scratch, places, n_free, n_other):
    """Remove from the block's log-odds each row's own pull on the weights."""
    stride = len(scratch.weight)
    y = scratch.spare
    for j in range(n_free):
        for i in range(n_other * stride):
            y[i] = 0.0
        for h in range(0, j + 1, 4):
            r0, r1, r2, r3 = (
                scratch.root[j, h],
                scratch.root[j, h + 1],
                scratch.root[j, h + 2],
                scratch.root[j, h + 3],
            )
            x0, x1, x2, x3 = places[h], places[h + 1], places[h + 2], places[h + 3]
            for i in range(n_other * stride):
                y[i] += (
                    r0 * scratch.x[x0, i]
                    + r1 * scratch.x[x1, i]
                    + r2 * scratch.x[x2, i]
                    + r3 * scratch.x[x3, i]
                )
        if n_other == 1:
            for i in range(stride):
                scratch.log_odds[i] += scratch.p[i] * y[i] * y[i]
            continue
        for i in range(stride):
            scratch.mean[0, i] = 0.0
        for a in range(n_other):
            for i in range(stride):
                scratch.mean[0, i] += scratch.p[a * stride + i] * y[a * stride + i]
        for a in range(n_other):
            for i in range(stride):
                scratch.log_odds[a * stride + i] += scratch.mean[0, i] * y[a * stride + i]


@float_kernel()
def left_out(rows, chosen, k, scratch, loaded, likelihood, log_odds):
    """Predict every row without its own pull, from the weights and the Hessian in `scratch`.

    Args:
        rows: Evidences and rows.
        chosen: The evidences of the pool.
        k: Their number.
        scratch: With the optimum.
        loaded: Whether it holds the evidence of the only block.
        likelihood: Takes ln p(y_i | i).
        log_odds: Takes those of each alternative, shape (n_labels - 1, n_items), unless it has no rows.
    """
    n_items = len(rows.label)
    n_other = rows.tables.shape[1]
    stride = len(scratch.weight)
    w, places = scratch.vectors[0], scratch.places[2]
    n_free = 0
    for j in range(k):
        places[n_free] = j
        if w[j] > 0.0:
            n_free += 1
    for j in range(n_free, n_free + 4):
        places[j] = 0
    inverse_factor(scratch.hessian, places, n_free, scratch.lower, scratch.root)
    for low in range(0, n_items, stride):
        size = min(stride, n_items - low)
        if not loaded:
            _load(rows, chosen, k, low, scratch, n_items)
        _predict(scratch, w, k, n_other)
        _take_out(scratch, places, n_free, n_other)
        for a in range(len(log_odds)):
            for i in range(size):
                log_odds[a, low + i] = scratch.log_odds[a * stride + i]
        _softmax(scratch, n_other)
        for i in range(size):
            likelihood[low + i] = -scratch.z[i] - scratch.top[i]


@float_kernel(*_REORDER)
def _add_up(rows, likelihood, coefficients, contributions):
    """The sum over all samples; each item times each party's coefficient goes to `contributions`."""
    n_items = len(likelihood)
    total = 0.0
    for i in range(n_items):
        total += rows.samples[i] * likelihood[i]
    for party in range(len(coefficients)):
        if coefficients[party] != 0.0:
            for i in range(n_items):
                contributions[party, i] += coefficients[party] * likelihood[i]
    return total


@float_kernel()
def fit_pools(rows, keys, start, coefficients, kept, rules, head, scratch, out, likelihood):
    """Fit pools one after the other; see `evidence_pool.fit_pools`.

    Args:
        rows: Evidences and rows.
        keys: Whether a pool has an evidence, shape (n_pools, n_evidences).
        start: First guess of the weight of every evidence; each pool leaves its weights here.
        coefficients: How each pool counts for each party.
        kept: Where the rows of each pool are kept; -1 where they are not.
        rules: Constants.
        head: The same for a first fit on the first items; without items there is none.
        scratch: Buffers.
        out: Takes the results.
        likelihood: Buffer for one row.

    Returns:
        The first pool that does not converge; -1 without one.
    """
    w, chosen = scratch.vectors[0], scratch.places[0]
    load_only_block(rows, scratch)
    loaded = len(scratch.everything) > 0
    for pool in range(len(keys)):
        k = np.int64(0)  # a literal would compile everything below a second time
        for e in range(keys.shape[1]):
            if keys[pool, e]:
                chosen[k] = e
                w[k] = start[e]
                k += 1
        if loaded:
            _load(rows, chosen, k, np.int64(0), scratch, len(rows.label))
        if k > 0 and head.n_items > 0:
            # Where this ends, converged or not, is a good start.
            fit(rows, chosen, k, head, scratch, loaded, head.n_items)
        if k > 0 and fit(rows, chosen, k, rules, scratch, loaded, rules.n_items) < 0:
            return pool
        for j in range(k):
            start[chosen[j]] = w[j]
        at = kept[pool]
        row = likelihood if at < 0 else out.likelihood[at]
        left_out(rows, chosen, k, scratch, loaded, row, out.log_odds)
        out.sums[pool] = _add_up(rows, row, coefficients[pool], out.contributions)
        if at >= 0:
            for j in range(k):
                out.weights[at, chosen[j]] = w[j]
    return -1
