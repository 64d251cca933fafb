"""How often a pool decides wrongly about rows that it has not seen.

The rule that is judged takes the likeliest label by evidence read from all rows (see `row_scores`). By how
much it looks better on its own rows is exact for errors that are counted (Efron 1986, JASA 81, 461): it is
the chance that a row's own label turns the decision about it, from wrong to right.

    error of i = [m_i < 0] + F(-(m_i - d_i) / s_i) - F(-m_i / s_i)

- m_i is the margin of row i: the log-odds of its label against the likeliest other one.
- d_i is the row's own pull on it: through the counts of its cells and the weights of the pool.
- F is a distribution function of variance 1, and s_i half the spread that the other rows of the row's cells
  give its margin. With s = 0 this would be leaving one out: right in the mean, but all rows of a balanced
  cell turn together, and the count jumps by the whole cell. Smoothed, a cell counts by how close it is.

Frequencies of labels are taken as they are: a table of half and half has an error of one half without
evidence.

KS, read where a row is as likely as the average, is made of two such errors: rows of one label below that
threshold and rows of the other above it. There calibrated predictions have their largest gap; the largest gap
of these rows would be too large, by the luck of the best threshold. Rows that are alone in all their cells
have no spread, but lie at the threshold once they are left out, so all rows have the mean spread here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.evidence.row_scores import SHARP, SPREAD, TIE

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.row_scores import RowScores

_LOGISTIC = np.pi / np.sqrt(3.0)
"""Standard deviation of the logistic distribution."""


def expected_errors(scores: RowScores) -> Floats:
    """Chance that a decision about a new row like each item is wrong.

    Single items may be off by luck, even below 0 or above 1; the mean over items is what counts.
    """
    log_odds = scores.log_odds
    margin = -log_odds.max(axis=0)
    tied = (np.abs(log_odds) <= TIE).sum(axis=0)
    wrong = np.where(margin < -TIE, 1.0, tied / (1.0 + tied))
    scale = np.maximum(SPREAD * np.sqrt(scores.variance), SHARP)
    return wrong + _turned(margin, scores.pull, scale)


def unseen_gap(scores: RowScores) -> tuple[float, Floats]:
    """KS of two labels where a row is as likely as the average, and the influence of each item's samples."""
    margin = -scores.evidence[0]
    wrong = np.where(np.abs(margin) <= TIE, 0.5, margin < 0)
    scale = max(SPREAD * np.sqrt(scores.mean_variance), SHARP)
    right = 1.0 - wrong - _turned(margin, scores.pull, scale)
    samples = np.bincount(scores.label, weights=scores.count)
    means = np.bincount(scores.label, weights=scores.count * right) / samples
    influence = (right - means[scores.label]) * (samples.sum() / samples)[scores.label]
    return float(means.sum()) - 1.0, influence


def _turned(margin: Floats, pull: Floats, scale: Floats | float) -> Floats:
    """Chance that a row's own label has turned the decision about it, from wrong to right."""
    return _below(margin - pull, scale) - _below(margin, scale)


def _below(margin: Floats, scale: Floats | float) -> Floats:
    """Chance that a margin of this spread is below zero."""
    return np.asarray(0.5 - 0.5 * np.tanh(0.5 * _LOGISTIC * margin / scale))
