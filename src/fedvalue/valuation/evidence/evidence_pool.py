"""The pool of a coalition's evidence: weights w >= 0, fitted, with each row's own pull removed.

    p(y | i) ∝ pi_i(y) exp(Σ_k w_k E_k(i, y)),    w maximises Σ_i ln p(y_i | i) − (λ/2) Σ_k (w_k − ½)².

The objective is strictly concave, so there is one optimum; Newton steps on the weights that are free, with a
line search, reach it to rounding from any start. A row's own pull on w is removed by one Newton step per
row, w + H^-1 (gradient without it), so a row's prediction does not use its label.

`EvidenceArrays` is all that fits need, in arrays that travel to workers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.evidence.label_evidence import LabelEvidence
    from fedvalue.valuation.evidence.pool_arrays import PoolRules

PENALTY = 4.0
"""lambda: how strongly weights are held at their prior mean (docs/statistics.md)."""

PRIOR_WEIGHT = 0.5
"""Weight of evidence before anything is seen: half, since columns repeat each other."""

SNAP = 1e-9
"""Smaller weights count as zero, so that rounding does not decide which weights are free."""

ROUNDING = 2.0**-50
"""Rounding of one sample's loss: where a column gives the label away, the loss itself is hardly larger."""

HEAD = 16
"""One item in 16 takes part in a first fit: it costs little and saves one or two passes over all rows."""

HEAD_ABOVE = 2**16
"""Items from which there is a first fit."""

MAX_STEPS = 200
"""Newton steps after which something is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceArrays:
    """Every evidence of a table, and the rows, as arrays.

    Args:
        index: Group of each item in each evidence, shape (n_evidences, n_items).
        tables: Log-odds of all groups, evidence after evidence, shape (n_groups, n_labels - 1).
        first: Place in `tables` of each evidence's first group.
        size: Number of groups of each evidence.
        decisive: What new rows are scored with (see `row_scores`), shape (n_groups, n_labels + 2): the
            log-odds read from all rows, a row's own pull on them, their variance, and the part of the pull
            that moves a row against the average other one.
        decides: Which evidences take part in that: those that are more likely than luck.
        base: Log-odds of label frequencies, shape (n_labels, n_labels - 1).
        fitted_base: The same, the row itself counted.
        label: Label per item.
        count: Samples per item.
    """

    index: NDArray[np.unsignedinteger] = field(repr=False)
    tables: Floats = field(repr=False)
    first: NDArray[np.int64] = field(repr=False)
    size: NDArray[np.int64] = field(repr=False)
    decisive: Floats = field(repr=False)
    decides: NDArray[np.bool_] = field(repr=False)
    base: Floats = field(repr=False)
    fitted_base: Floats = field(repr=False)
    label: Codes = field(repr=False)
    count: Floats = field(repr=False)

    @classmethod
    def stack(
        cls,
        evidences: Sequence[LabelEvidence],
        base: Floats,
        fitted_base: Floats,
        label: Codes,
        count: Floats,
    ) -> EvidenceArrays:
        """All evidences of a table in one place."""
        sizes = [len(evidence.log_odds) for evidence in evidences]
        narrow = np.uint16 if max(sizes, default=0) <= 2**16 else np.uint32
        index = np.empty((len(evidences), len(label)), dtype=narrow)
        for k, evidence in enumerate(evidences):
            index[k] = evidence.index
        parts = [np.zeros((0, base.shape[1])), *(evidence.log_odds for evidence in evidences)]
        return cls(
            index=index,
            tables=np.concatenate(parts),
            first=np.concatenate([[0], np.cumsum(sizes)])[: len(sizes)].astype(np.int64),
            size=np.array(sizes, dtype=np.int64),
            decisive=np.concatenate(
                [np.zeros((0, len(base) + 2)), *(_decisive(evidence) for evidence in evidences)]
            ),
            decides=np.array([evidence.decides for evidence in evidences], dtype=bool),
            base=base,
            fitted_base=fitted_base,
            label=label,
            count=count,
        )

    @property
    def n_evidences(self) -> int:
        """Number of evidences."""
        return len(self.first)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.label)


def _decisive(evidence: LabelEvidence) -> Floats:
    """Columns of `EvidenceArrays.decisive`.

    Each other row of the cell pulls about as much as the row itself, this way or that.
    """
    n_other = evidence.log_odds.shape[1]
    pull = (evidence.log_odds - evidence.fitted).sum(axis=1) / max(1, n_other)
    variance = (evidence.total - 1.0) * pull**2
    apart = pull * (1.0 - evidence.total / evidence.n_samples)
    return np.column_stack([evidence.fitted, pull, variance, apart])


@dataclass(frozen=True, slots=True, eq=False)
class PoolFit:
    """A fitted pool.

    Args:
        weights: One per chosen evidence.
        log_odds: Of each alternative label against the row's own, the row's own pull removed, shape
            (n_labels - 1, n_items).
    """

    weights: Floats
    log_odds: Floats = field(repr=False)

    @property
    def log_likelihood(self) -> Floats:
        """Logarithm of p(y_i | i), per item."""
        return log_likelihood(self.log_odds)


def log_likelihood(log_odds: Floats) -> Floats:
    """Logarithm of p of the row's own label from the log-odds of the others against it."""
    if len(log_odds) == 0:
        return np.zeros(log_odds.shape[1])
    if len(log_odds) == 1:
        return np.asarray(-np.logaddexp(0.0, log_odds[0]))
    top = np.maximum(log_odds.max(axis=0), 0.0)
    return np.asarray(-top - np.log(np.exp(-top) + np.exp(log_odds - top).sum(axis=0)))


@dataclass(frozen=True, slots=True, eq=False)
class PoolFits:
    """What fits of several pools give.

    Args:
        sums: Sum over the samples of ln p(y_i | i) per pool.
        contributions: Sum over the pools of coefficient times ln p(y_i | i), shape (n_parties, n_items).
        weights: Of the pools whose rows are kept, by their order, shape (n_kept, n_evidences); 0 elsewhere.
        likelihood: ln p(y_i | i) of these pools, shape (n_kept, n_items).
    """

    sums: Floats
    contributions: Floats = field(repr=False)
    weights: Floats = field(repr=False)
    likelihood: Floats = field(repr=False)


def fit_pools(
    arrays: EvidenceArrays,
    keys: NDArray[np.bool_],
    coefficients: Floats,
    kept: Sequence[int] = (),
    *,
    n_samples: int,
    compiled: bool,
) -> PoolFits:
    """Fit several pools, one after the other: each starts at the last weights of its evidences.

    Args:
        arrays: The evidences and the rows.
        keys: Which evidences each pool has, shape (n_pools, n_evidences); neighbours should differ little.
        coefficients: How each pool counts in the contributions of each party, shape (n_pools, n_parties).
        kept: Places of the pools whose weights and rows are kept, ascending.
        n_samples: See `tolerance`.
        compiled: Whether to use compiled passes, which give the same to rounding.

    Raises:
        EngineError: The steps do not converge, which no table of counts should cause.
    """
    start = np.full(arrays.n_evidences, PRIOR_WEIGHT)
    fits = PoolFits(
        np.zeros(len(keys)),
        np.zeros((coefficients.shape[1], arrays.n_items)),
        np.zeros((len(kept), arrays.n_evidences)),
        np.zeros((len(kept), arrays.n_items)),
    )
    if compiled:
        _fit_compiled(arrays, keys, start, coefficients, kept, n_samples, fits)
        return fits
    place = {at: row for row, at in enumerate(kept)}
    for at, key in enumerate(keys):
        chosen = np.flatnonzero(key)
        fit = fit_pool(arrays, chosen, start[chosen], n_samples=n_samples, compiled=False)
        start[chosen] = fit.weights
        likelihood = fit.log_likelihood
        fits.sums[at] = float(np.sum(arrays.count * likelihood))
        for party in np.flatnonzero(coefficients[at]):
            fits.contributions[party] += coefficients[at, party] * likelihood
        if at in place:
            fits.weights[place[at], chosen] = fit.weights
            fits.likelihood[place[at]] = likelihood
    return fits


def _fit_compiled(
    arrays: EvidenceArrays,
    keys: NDArray[np.bool_],
    start: Floats,
    coefficients: Floats,
    kept: Sequence[int],
    n_samples: int,
    fits: PoolFits,
    log_odds: Floats | None = None,
) -> None:
    """Fit pools by compiled code, which frees the interpreter lock and starts no threads of its own."""
    from fedvalue.valuation.evidence.pool_arrays import PoolSums, pool_rows, pool_scratch
    from fedvalue.valuation.evidence.pool_kernels import fit_pools as fit_in_turn

    rows = pool_rows(arrays)
    sizes = keys.sum(axis=1)
    place = np.full(len(keys), -1)
    place[list(kept)] = np.arange(len(kept))
    failed = fit_in_turn(
        rows,
        np.ascontiguousarray(keys),
        start,
        np.ascontiguousarray(coefficients),
        place,
        *_rules(arrays.n_items, n_samples),
        pool_scratch(rows, int(sizes.max(initial=0))),
        PoolSums(
            fits.sums,
            fits.contributions,
            fits.weights,
            fits.likelihood,
            np.zeros((0, arrays.n_items)) if log_odds is None else log_odds,
        ),
        np.zeros(arrays.n_items),
    )
    if failed >= 0:
        raise _not_converged(int(sizes[failed]))


def _rules(n_items: int, n_samples: int) -> tuple[PoolRules, PoolRules]:
    """Constants of the fit on all items, and of a first fit on some of them.

    The first fit has its part of the penalty, so that both look for the same weights. Items are in the order
    of a hash of their content, so the first of them stand for all.
    """
    from fedvalue.valuation.evidence.pool_arrays import PoolRules

    n_first = n_items // HEAD if n_items >= HEAD_ABOVE else 0
    part = n_first / n_items
    return (
        PoolRules(n_items, _left_open(n_samples), PENALTY, PRIOR_WEIGHT, SNAP, ROUNDING, MAX_STEPS),
        PoolRules(n_first, math.inf, part * PENALTY, PRIOR_WEIGHT, SNAP, ROUNDING, MAX_STEPS),
    )


def fit_pool(
    arrays: EvidenceArrays, chosen: NDArray[np.int64], start: Floats, *, n_samples: int, compiled: bool
) -> PoolFit:
    """Fit the weights of chosen evidences.

    Args:
        arrays: The evidences and the rows.
        chosen: Which evidences, ascending.
        start: First guess of their weights; the answer does not depend on it beyond rounding.
        n_samples: See `tolerance`.
        compiled: Whether to use compiled passes, which give the same to rounding.

    Raises:
        EngineError: The steps do not converge, which no table of counts should cause.
    """
    if len(chosen) == 0:
        return PoolFit(np.zeros(0), np.ascontiguousarray(arrays.base[arrays.label].T))
    if compiled:
        key = np.zeros((1, arrays.n_evidences), dtype=bool)
        key[0, chosen] = True
        weights = np.zeros(arrays.n_evidences)
        weights[chosen] = start
        log_odds = np.zeros((arrays.tables.shape[1], arrays.n_items))
        nothing = np.zeros((0, arrays.n_items))
        fits = PoolFits(np.zeros(1), nothing, np.zeros((0, arrays.n_evidences)), nothing)
        _fit_compiled(arrays, key, weights, np.zeros((1, 0)), (), n_samples, fits, log_odds)
        return PoolFit(weights[chosen], log_odds)
    passes = PlainPasses(arrays, chosen)
    target, hessian, n_steps = passes.fit(start, tolerance(n_samples, len(chosen)))
    if n_steps < 0:
        raise _not_converged(len(chosen))
    w = np.where(target > SNAP, target, 0.0)
    return PoolFit(w, passes.left_out(w, hessian))


def tolerance(n_samples: int, n_chosen: int) -> float:
    """How small the last step must be: what it leaves open moves the mean log-likelihood by below 1e-12.

    The next step would be about its square. What stays is the Hessian, off by as much as the last step: the
    pulls of rows left out, k / n in the mean, are off by that part. Of many rows 1e-10 is enough.
    """
    return min(1e-5, max(1e-10, _left_open(n_samples) / n_chosen))


def _left_open(n_samples: int) -> float:
    return n_samples * (1e-12 if n_samples < HEAD_ABOVE else 1e-10)


def _not_converged(n_chosen: int) -> EngineError:
    return EngineError(f"the pool of {n_chosen} evidences did not converge in {MAX_STEPS} steps")


class PlainPasses:
    """Passes in plain NumPy: nothing is compiled."""

    def __init__(self, arrays: EvidenceArrays, chosen: NDArray[np.int64]) -> None:
        self._offset = np.ascontiguousarray(arrays.base[arrays.label].T)
        self._count = arrays.count
        rows = [arrays.tables[arrays.first[k] + arrays.index[k].astype(np.int64)].T for k in chosen]
        self._x = np.array(rows).reshape(len(chosen), *self._offset.shape)

    def derivatives(self, w: Floats) -> tuple[float, Floats, Floats]:
        """-sum ln p(y_i | i) with the penalty, its gradient and its Hessian."""
        x, count = self._x, self._count
        log_odds = self._offset + np.einsum("k,kai->ai", w, x)
        p, log_z = _softmax(log_odds)
        weighted = x * (count * p)
        hessian = _products(weighted, x)
        if len(p) == 1:
            hessian -= _products(weighted * p, x)
        else:
            mean = (x * p).sum(axis=1, keepdims=True)
            hessian -= _products(mean * count, mean)
        hessian.reshape(-1)[:: len(hessian) + 1] += PENALTY
        off = w - PRIOR_WEIGHT
        loss = float(np.sum(count * log_z)) + 0.5 * PENALTY * float(np.sum(off * off))
        return loss, weighted.sum(axis=(1, 2)) + PENALTY * off, hessian

    def fit(self, start: Floats, tolerance: float) -> tuple[Floats, Floats, int]:
        """Newton's method on the active set, with a line search.

        Returns:
            Weights that no step moves by more than `tolerance`, the Hessian there, and the number of looks at
            all rows; -1 where the steps do not converge.
        """
        w = np.maximum(start, 0.0)
        rounding = ROUNDING * float(np.sum(self._count))
        loss, gradient, hessian = self.derivatives(w)
        n_steps = 1
        while True:
            target = plain_target(hessian, gradient, w)
            step = target - w
            if float(np.abs(step).max()) <= tolerance:
                return target, hessian, n_steps
            slope, scale = float(np.sum(gradient * step)), 1.0
            while True:
                if n_steps >= MAX_STEPS:
                    return target, hessian, -1
                trial = np.maximum(w + scale * step, 0.0)
                found = self.derivatives(trial)
                n_steps += 1
                # Near the optimum the decrease drowns in rounding.
                if found[0] <= loss + 1e-4 * scale * slope + max(1e-14 * abs(loss), rounding):
                    break
                scale *= 0.5
            w = trial
            loss, gradient, hessian = found

    def left_out(self, w: Floats, hessian: Floats) -> Floats:
        """Log-odds of each alternative with the row's own pull removed, shape (n_labels - 1, n_items).

        Args:
            w: The optimum; weights at the bound do not move.
            hessian: There.
        """
        free = w > 0
        x = self._x[free]
        log_odds = self._offset + np.einsum("k,kai->ai", w[free], x)
        p, _ = _softmax(log_odds)
        root = np.linalg.inv(np.linalg.cholesky(hessian[np.ix_(free, free)]))
        y, flat = np.empty_like(x), x.reshape(len(x), -1)
        for piece in _pieces(max(1, len(x)), flat.shape[1]):
            y.reshape(flat.shape)[:, piece] = root @ flat[:, piece]
        pull = (y * p).sum(axis=1)
        return np.asarray(log_odds + (y * pull[:, None]).sum(axis=0))


def _softmax(log_odds: Floats) -> tuple[Floats, Floats]:
    """Probabilities of the alternatives, and -ln p of the row's own label."""
    top = np.maximum(log_odds.max(axis=0), 0.0)
    e = np.exp(log_odds - top)
    z = np.exp(-top) + e.sum(axis=0)
    return e / z, top + np.log(z)


def _products(left: Floats, right: Floats) -> Floats:
    """Sums over all but the first axis of left times right, shape (len(left), len(right))."""
    k = len(left)
    left, right = left.reshape(k, -1), right.reshape(k, -1)
    total = np.zeros((k, k))
    for piece in _pieces(k, left.shape[1]):
        total += left[:, piece] @ right[:, piece].T
    return total


def _pieces(k: int, length: int) -> Iterator[slice]:
    """Cuts of a product of k x length by length x k that a BLAS does not spread over threads.

    OpenBLAS takes one thread below 2^18 multiplications. Its threads and ours would wait for each other.
    """
    size = max(8, 2**18 // k**2)
    for at in range(0, length, size):
        yield slice(at, at + size)


def plain_target(hessian: Floats, gradient: Floats, w: Floats) -> Floats:
    """Minimum of the quadratic model at w over non-negative weights.

    Principal pivoting (Kostreva 1978; Portugal, Judice and Vicente 1994): exchange all weights that break a
    sign condition at once, one at a time after that has failed three times, which always ends.
    """
    k = len(w)
    linear = np.einsum("ij,j->i", hessian, w) - gradient
    free = (w > 0) | (gradient < 0)
    fewest, patience = k + 1, 3
    while True:
        z = np.zeros(k)
        if free.all():
            z = np.linalg.solve(hessian, linear)
        elif free.any():
            z[free] = np.linalg.solve(hessian[np.ix_(free, free)], linear[free])
        slope = np.einsum("ij,j->i", hessian, z) - linear
        wrong = (free & (z < 0)) | (~free & (slope < -1e-12 * (1.0 + np.abs(linear))))
        n_wrong = int(wrong.sum())
        if n_wrong == 0:
            return z
        if n_wrong < fewest:
            fewest, patience = n_wrong, 3
        elif patience > 0:
            patience -= 1
        else:
            last = np.flatnonzero(wrong)[-1]
            wrong = np.arange(k) == last
        free = free ^ wrong
