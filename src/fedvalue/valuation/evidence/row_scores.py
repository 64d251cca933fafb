"""What a pool says about each row by evidence read from all of them, and how far the row pulled it there.

Whoever retrains on these rows predicts new ones by evidence read from all of them, so that is the rule that
errors (`unseen_errors`) and rankings (`unseen_ranking`) judge. On its own rows the rule looks better than it
is, because each row has pulled its score towards its own label. The pull is known: pooled evidence has the
predictions with and without the row.

Evidence that is more likely luck than not takes no part: pools give it little weight, but how likely it is
was read from the rows' own labels, which no row's pull shows (decision 0603).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays

TIE = 1e-10
"""Scores closer than this are equal; rounding is a million times smaller."""

SPREAD = 0.5
"""Part of the spread that smooths: with all of it, cells of a few rows look too good (decision 0610)."""

SHARP = 1e-6
"""Smallest spread: a step, but for rounding."""

BLOCK = 2**13
"""Items at a time: they stay in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """Scores of all items by the evidence of a pool that takes part.

    Args:
        evidence: Log-odds of each other label against the row's own, beyond label frequencies, shape
            (n_labels - 1, n_items).
        base: The same of label frequencies.
        pull: How much the row's own label has moved the log-odds of this label upwards; not negative.
        apart: Part of the pull that moves the row against the others: a row of the same cell moves along.
        variance: What the other rows of the row's cells give its log-odds.
        label: Label per item.
        count: Samples per item.
    """

    evidence: Floats
    base: Floats
    pull: Floats
    apart: Floats
    variance: Floats
    label: Codes
    count: Floats

    @property
    def log_odds(self) -> Floats:
        """Log-odds of each other label, label frequencies included."""
        return self.base + self.evidence

    @property
    def mean_variance(self) -> float:
        """Mean variance over the samples."""
        return float(np.sum(self.variance * self.count) / np.sum(self.count))


def fitted_log_odds(arrays: EvidenceArrays, weights: Floats) -> Floats:
    """Log-odds of each alternative, read from all rows by all evidence, shape (n_labels - 1, n_items).

    Args:
        arrays: Evidences and rows.
        weights: Weight of every evidence; 0 for those that the pool does not have.
    """
    n_other = arrays.base.shape[1]
    log_odds = np.ascontiguousarray(arrays.fitted_base[arrays.label].T)
    for k in np.flatnonzero(weights):
        own = slice(arrays.first[k], arrays.first[k] + arrays.size[k])
        log_odds += (weights[k] * arrays.decisive[own, :n_other])[arrays.index[k]].T
    return log_odds


def row_scores(arrays: EvidenceArrays, weights: Floats, likelihood: Floats) -> RowScores:
    """Scores of the items of a fitted pool with two or more labels.

    Args:
        arrays: Evidences and rows.
        weights: Weight of every evidence; 0 for those that the pool does not have.
        likelihood: ln p(y_i | i), the row's own pull removed.
    """
    n_other, n_items = arrays.base.shape[1], arrays.n_items
    evidence = np.empty((n_other, n_items))
    pull, apart, variance = np.empty((3, n_items))
    tables = np.ascontiguousarray(arrays.decisive.T)
    for low in range(0, n_items, BLOCK):
        rows = slice(low, low + BLOCK)
        block = _scores_of(arrays, tables, weights, rows, likelihood[rows])
        evidence[:, rows], pull[rows], apart[rows], variance[rows] = block
    base = np.ascontiguousarray(arrays.fitted_base[arrays.label].T)
    return RowScores(evidence, base, pull, apart, variance, arrays.label, arrays.count)


def _scores_of(
    arrays: EvidenceArrays, tables: Floats, weights: Floats, rows: slice, likelihood: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Evidence, pull, apart and variance of some items; `tables` is `decisive`, column by column."""
    label = arrays.label[rows]
    n_other = arrays.base.shape[1]
    log_odds = np.zeros((n_other, len(label)))
    luck = np.ascontiguousarray(arrays.fitted_base[label].T)  # and of evidence that takes no part
    pulled, pulled_by_luck, pulled_apart, variance = np.zeros((4, len(label)))
    for k in np.flatnonzero(weights):
        own = slice(arrays.first[k], arrays.first[k] + arrays.size[k])
        index = arrays.index[k, rows]
        table = weights[k] * tables[:, own]
        decides = arrays.decides[k]
        for a in range(n_other):
            (log_odds if decides else luck)[a] += table[a].take(index)
        (pulled if decides else pulled_by_luck)[:] += table[n_other].take(index)
        if decides:
            variance += (weights[k] * table[n_other + 1]).take(index)
            pulled_apart += table[n_other + 2].take(index)
    # Own pull of the whole pool, but for that on the frequencies; then the part of the evidence that decides.
    base_pull = (arrays.base - arrays.fitted_base)[:, 0][label]
    pull = _own(log_odds + luck) - _odds(likelihood) - base_pull
    if not arrays.decides[weights != 0].all():
        pull *= _part(pulled, pulled + pulled_by_luck)
    pull[pull <= TIE] = 0.0
    return log_odds, pull, _part(pulled_apart, pulled), variance


def _part(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _own(log_odds: Floats) -> Floats:
    """Log-odds of the row's own label against all others together."""
    if len(log_odds) == 1:
        return np.asarray(-log_odds[0])
    top = log_odds.max(axis=0)
    return np.asarray(-top - np.log(np.exp(log_odds - top).sum(axis=0)))


def _odds(log_probability: Floats) -> Floats:
    """Log-odds of a probability given by its logarithm; of near certainty, where no pull matters, some 34."""
    capped = np.minimum(log_probability, -1e-15)
    return np.asarray(capped - np.log(-np.expm1(capped)))
