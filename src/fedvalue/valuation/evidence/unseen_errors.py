"""How often a pool decides wrongly about rows that it has not seen.

Whoever retrains on these rows decides about new ones by evidence read from all of them, so that is the rule
that is judged: the likeliest label, by `EvidenceArrays.decisive`. On its own rows the rule looks better than
it is, because each row has pulled the decision towards its own label. By how much is exact for errors that
are counted (Efron 1986, JASA 81, 461): it is the chance that a row's own label turns the decision about it,
from wrong to right.

    error of i = [m_i < 0] + F(-(m_i - d_i) / s_i) - F(-m_i / s_i)

- m_i is the margin of row i: the log-odds of its label against the likeliest other one.
- d_i is the row's own pull on it: through the counts of its cells and the weights of the pool.
- F is a distribution function of variance 1, and s_i half the spread that the other rows of the row's cells
  give its margin. With s = 0 this would be leaving one out: right in the mean, but all rows of a balanced
  cell turn together, and the count jumps by the whole cell. Smoothed, a cell counts by how close it is.

Frequencies of labels are taken as they are: a table of half and half has an error of one half without
evidence. Evidence that is more likely luck than not takes no part: pools give it little weight, but how
likely it is was read from the rows' own labels, which no row's pull shows (decision 0610).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays

TIE = 1e-10
"""Margins closer to zero are ties; rounding is a million times smaller."""

SPREAD = 0.5
"""Part of the spread that smooths: with all of it, cells of a few rows look too good (decision 0610)."""

SHARP = 1e-6
"""Smallest spread: a step, but for rounding."""

BLOCK = 2**13
"""Items at a time: they stay in the cache."""

_LOGISTIC = np.pi / np.sqrt(3.0)
"""Standard deviation of the logistic distribution."""


def fitted_log_odds(arrays: EvidenceArrays, weights: Floats) -> Floats:
    """Log-odds of each alternative, read from all rows, shape (n_labels - 1, n_items).

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


def expected_errors(arrays: EvidenceArrays, weights: Floats, likelihood: Floats) -> Floats:
    """Chance that a decision about a new row like each item is wrong.

    Single items may be off by luck, even below 0 or above 1; the mean over items is what counts.

    Args:
        arrays: Evidences and rows.
        weights: Weight of every evidence; 0 for those that the pool does not have.
        likelihood: ln p(y_i | i), the row's own pull removed.
    """
    errors = np.zeros(arrays.n_items)
    if arrays.base.shape[1] == 0:
        return errors
    tables = np.ascontiguousarray(arrays.decisive.T)
    for low in range(0, arrays.n_items, BLOCK):
        rows = slice(low, low + BLOCK)
        errors[rows] = _errors_of(arrays, tables, weights, rows, likelihood[rows])
    return errors


def _errors_of(
    arrays: EvidenceArrays, tables: Floats, weights: Floats, rows: slice, likelihood: Floats
) -> Floats:
    """`expected_errors` of some items; `tables` is `decisive`, column by column."""
    label = arrays.label[rows]
    n_other = arrays.base.shape[1]
    log_odds = np.ascontiguousarray(arrays.fitted_base[label].T)
    luck = np.zeros_like(log_odds)  # of evidence that takes no part
    pulled, pulled_by_luck, spread = np.zeros((3, len(label)))
    some_luck = not arrays.decides[weights != 0].all()
    for k in np.flatnonzero(weights):
        own = slice(arrays.first[k], arrays.first[k] + arrays.size[k])
        index = arrays.index[k, rows]
        table = weights[k] * tables[:, own]
        decides = arrays.decides[k]
        for a in range(n_other):
            (log_odds if decides else luck)[a] += table[a].take(index)
        if decides:
            spread += (weights[k] * table[n_other + 1]).take(index)
        if some_luck:
            pull_of_cells = pulled if decides else pulled_by_luck
            pull_of_cells += table[n_other].take(index)
    margin = -log_odds.max(axis=0)
    tied = (np.abs(log_odds) <= TIE).sum(axis=0)
    wrong = np.where(margin < -TIE, 1.0, tied / (1.0 + tied))
    # Own pull of the whole pool, but for that on the frequencies; then the part of the evidence that decides.
    base_pull = (arrays.base - arrays.fitted_base)[:, 0][label]
    pull = _own(log_odds + luck) - _odds(likelihood) - base_pull
    if some_luck:
        in_all = pulled + pulled_by_luck
        pull *= np.divide(pulled, in_all, out=np.zeros_like(pulled), where=in_all > 0)
    pull[pull <= TIE] = 0.0
    scale = np.maximum(SPREAD * np.sqrt(spread), SHARP)
    return np.asarray(wrong + _below(margin - pull, scale) - _below(margin, scale))


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


def _below(margin: Floats, scale: Floats) -> Floats:
    """Chance that a margin of this spread is below zero."""
    return np.asarray(0.5 - 0.5 * np.tanh(0.5 * _LOGISTIC * margin / scale))
