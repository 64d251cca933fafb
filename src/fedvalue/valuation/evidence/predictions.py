"""How well a pool predicts rows that it has not seen: log loss, AUC, KS and accuracy, with their errors.

Every row is predicted without its own label, and log loss uses these predictions as they are. Ranking needs
care: leaving a row out moves its prediction away from its own label by a hair, so two rows with equal codes
and different labels would always be ranked the wrong way round. Therefore AUC and KS use evidence that is a
function of the codes alone: the mean over the labels of a cell, times a factor per evidence, at most 1, that
takes its separation of the labels back to what it is on rows left out (see `ranking_evidence`). Equal rows
are then ties, and evidence that separates labels by memory alone does not count. Accuracy is that of
decisions about unseen rows (see `unseen_errors`).

Standard errors come from influence functions (for AUC, DeLong, DeLong and Clarke-Pearson 1988), so that
differences between coalitions are paired. Predictions that differ by less than 1e-10 are ties.

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

from fedvalue.valuation.evidence.unseen_errors import expected_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays

TIE = 1e-10
"""Predictions closer than this are equal; rounding is a million times smaller."""


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
    count, label = arrays.count, arrays.label
    n = float(count.sum())
    metrics = np.full(4, np.nan)
    influence = np.zeros((4, arrays.n_items))
    influence[0] = -likelihood
    metrics[0] = float(np.sum(count * influence[0]) / n)
    influence[0] -= metrics[0]
    probability = _probabilities(arrays, weights)
    n_labels = len(probability)
    if n_labels > 1:
        # With two labels both directions are the same.
        directions = range(1, 2) if n_labels == 2 else range(n_labels)
        areas = [_area(probability[y], label == y, count) for y in directions]
        metrics[1] = float(np.mean([area for area, _ in areas]))
        influence[1] = np.mean([part for _, part in areas], axis=0)
    if n_labels == 2:
        metrics[2], influence[2] = _gap(probability[1], label == 1, count)
    right = 1.0 - expected_errors(arrays, weights, likelihood)
    metrics[3] = float(np.sum(count * right) / n)
    influence[3] = right - metrics[3]
    return Predictions(metrics, influence)


def standard_error(influence: Floats, count: Floats) -> Floats:
    """Standard error of a mean from influences, along the last axis."""
    n = float(count.sum())
    return np.asarray(np.sqrt(np.sum(influence**2 * count, axis=-1) / (n * max(n - 1.0, 1.0))))


def _probabilities(arrays: EvidenceArrays, weights: Floats) -> Floats:
    """Probability of each label for ranking, shape (n_labels, n_items)."""
    n_labels = arrays.base.shape[0]
    frequency = np.bincount(arrays.label, weights=arrays.count, minlength=n_labels)
    score = np.repeat(np.log(frequency)[:, None], arrays.n_items, axis=1)
    # With two labels the score of the second against the first is enough.
    ranking = arrays.ranking - arrays.ranking[:, :1] if n_labels == 2 else arrays.ranking
    for k in np.flatnonzero(weights):
        table = weights[k] * ranking[arrays.first[k] : arrays.first[k] + arrays.size[k]]
        for y in range(1 if n_labels == 2 else 0, n_labels):
            score[y] += table[:, y].take(arrays.index[k])
    score -= score.max(axis=0)
    np.exp(score, out=score)
    score /= score.sum(axis=0)
    return score


def _area(score: Floats, positive: NDArray[np.bool_], count: Floats) -> tuple[float, Floats]:
    """AUC and its influence."""
    order = np.argsort(score)  # not stable: the order of ties does not matter
    ranked = score[order]
    rank = np.empty(len(score), dtype=np.int64)
    rank[order] = np.cumsum(np.diff(ranked, prepend=ranked[:1]) > TIE)
    plus = np.bincount(rank, weights=np.where(positive, count, 0.0))
    minus = np.bincount(rank, weights=np.where(positive, 0.0, count))
    n_plus, n_minus = float(plus.sum()), float(minus.sum())
    n = n_plus + n_minus
    below = (np.cumsum(minus) - 0.5 * minus) / n_minus
    above = (n_plus - np.cumsum(plus) + 0.5 * plus) / n_plus
    area = float(np.sum(plus * below) / n_plus)
    influence = np.where(positive, (below[rank] - area) * (n / n_plus), (above[rank] - area) * (n / n_minus))
    return area, influence


def _gap(score: Floats, positive: NDArray[np.bool_], count: Floats) -> tuple[float, Floats]:
    """KS, the distance between the distributions of both sides, and its influence.

    Read where a row is as likely as the average: there calibrated predictions have their largest gap. The
    largest gap of these rows would be too large, by the luck of the best threshold.
    """
    plus_count, minus_count = np.where(positive, count, 0.0), np.where(positive, 0.0, count)
    n_plus, n_minus = float(plus_count.sum()), float(minus_count.sum())
    n = n_plus + n_minus
    off = score - n_plus / n
    is_low = np.where(np.abs(off) <= TIE, 0.5, off < 0)
    low_plus, low_minus = (float(np.sum(part * is_low) / part.sum()) for part in (plus_count, minus_count))
    influence = np.where(positive, (low_plus - is_low) * (n / n_plus), (is_low - low_minus) * (n / n_minus))
    return low_minus - low_plus, influence


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
