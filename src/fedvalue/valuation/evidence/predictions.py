"""How well a pool predicts rows that it has not seen: log loss, AUC, KS and accuracy, with their errors.

Log loss uses the predictions of rows without their own label, as they are. The other three are those of the
rule that a buyer would use, evidence read from all rows, about new rows: see `unseen_ranking` and
`unseen_errors`.

Standard errors come from influence functions (for AUC, DeLong, DeLong and Clarke-Pearson 1988), so that
differences between coalitions are paired.

A learnable value is a mean over rows of what each row contributes, so its variance is that of the
contributions over n. This leaves out that evidence and weights were fitted on the same rows; a factor and a
floor make up for it (`calibrated`). Both were set by redrawing populations
(docs/decisions/0602-pooled-evidence.md): 95% intervals contain the mean over redraws in 95% of the cases, and
on the demonstration the population's value in 96-97%. The interval is that of the value of *as many rows as
there are*. Unlimited rows could teach more, by a learning cost of the order of 1/n per code and label, which
matters below about 1,000 rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.evidence.row_scores import row_scores
from fedvalue.valuation.evidence.unseen_errors import expected_errors, unseen_gap
from fedvalue.valuation.evidence.unseen_ranking import unseen_area

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """The metrics of one coalition.

    Args:
        metrics: Log loss in nats, AUC (mean of one label against the rest with more than two labels; NaN with
            one), KS (NaN unless there are two labels), accuracy.
        influence: Influence of each item's samples on each metric, shape (4, n_items), mean zero.
    """

    metrics: Floats
    influence: Floats = field(repr=False)


def score_predictions(arrays: EvidenceArrays, weights: Floats, likelihood: Floats) -> Predictions:
    """Score the predictions of a fitted pool.

    Args:
        arrays: Evidences and rows.
        weights: Weight of every evidence; 0 for those that the pool does not have.
        likelihood: ln p(y_i | i), the row's own pull removed.
    """
    count = arrays.count
    n = float(count.sum())
    metrics = np.full(4, np.nan)
    influence = np.zeros((4, arrays.n_items))
    influence[0] = -likelihood
    metrics[0] = float(np.sum(count * influence[0]) / n)
    influence[0] -= metrics[0]
    right = np.ones(arrays.n_items)
    n_labels = len(arrays.base)
    if n_labels > 1:
        scores = row_scores(arrays, weights, likelihood)
        metrics[1], influence[1] = unseen_area(scores)
        if n_labels == 2:
            metrics[2], influence[2] = unseen_gap(scores)
        right = 1.0 - expected_errors(scores)
    metrics[3] = float(np.sum(count * right) / n)
    influence[3] = right - metrics[3]
    return Predictions(metrics, influence)


def standard_error(influence: Floats, count: Floats) -> Floats:
    """Standard error of a mean from influences, along the last axis."""
    n = float(count.sum())
    return np.asarray(np.sqrt(np.sum(influence**2 * count, axis=-1) / (n * max(n - 1.0, 1.0))))


CALIBRATION = 1.15
"""Standard errors from row-wise contributions are too small by about this factor."""

FLOOR = 1.0
"""Standard error, times rows, that every value has: the luck of a useless column."""

LUCK = 0.15
"""What each useless column seems to be worth, times rows, by luck: it is judged on the rows that it predicts
(decision 0603). Values keep it, and standard errors contain it."""


def row_covariance(contributions: Floats, count: Floats) -> Floats:
    """Covariance of the means of row-wise contributions, shape (p, p)."""
    n = float(count.sum())
    centred = contributions - (contributions @ count / n)[:, None]
    return np.asarray((centred * count) @ centred.T / (n * max(n - 1.0, 1.0)))


def calibrated(variance: Floats, n_samples: int, n_columns: Floats | float = 0.0) -> Floats:
    """Standard errors from variances of row-wise contributions.

    Args:
        variance: Of each value.
        n_samples: Rows.
        n_columns: Columns with evidence behind each value.
    """
    floor = np.hypot(FLOOR, LUCK * np.asarray(n_columns)) / n_samples
    return np.sqrt(CALIBRATION**2 * variance + floor**2)
