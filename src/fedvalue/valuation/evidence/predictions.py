"""How well a pool predicts rows that it has not seen: log loss, AUC, KS and accuracy, with their errors.

Every row is predicted without its own label. Log loss uses these predictions as they are. Ranking and
deciding need care, since leaving a row out moves its prediction away from its own label by a hair: rows with
equal codes would then be ordered by their labels, the wrong way round. So, for AUC, KS and accuracy,

- every row is given the label frequencies of the whole table, not those without itself, and
- rows that no used column tells apart get one prediction, the mean of theirs. They are a tie.

Standard errors come from influence functions (for AUC, DeLong, DeLong and Clarke-Pearson 1988), so that
differences between coalitions are paired. Predictions that differ by less than 1e-10 are ties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.evidence.canonical_table import mix
from fedvalue.valuation.evidence.label_evidence import alternatives

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays, PoolFit

TIE = 1e-10
"""Predictions closer than this are equal; rounding is a million times smaller."""

METRICS = ("log_loss", "auc", "ks", "accuracy")
"""The order of the arrays below."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """The metrics of one coalition.

    Args:
        metrics: Log loss in nats, AUC (mean of one label against the rest with more than two labels), KS (NaN
            with more than two labels), accuracy.
        influence: Influence of each item's samples on each metric, shape (4, n_items), mean zero.
    """

    metrics: Floats
    influence: Floats = field(repr=False)


def score_predictions(arrays: EvidenceArrays, chosen: tuple[int, ...], fit: PoolFit) -> Predictions:
    """Score the predictions of a fitted pool.

    Args:
        arrays: Evidences and rows.
        chosen: The evidences of the pool.
        fit: Its weights and predictions.
    """
    count, label = arrays.count, arrays.label
    n = float(count.sum())
    metrics = np.full(4, np.nan)
    influence = np.zeros((4, arrays.n_items))
    influence[0] = -fit.log_likelihood
    metrics[0] = float(np.sum(count * influence[0]) / n)
    influence[0] -= metrics[0]
    used = [k for k, w in zip(chosen, fit.weights, strict=True) if w > 0]
    probability = _tied_probabilities(arrays, used, fit.log_odds)
    n_labels = len(probability)
    if n_labels > 1:
        # With two labels both directions are the same.
        directions = range(1, 2) if n_labels == 2 else range(n_labels)
        areas = [_area(probability[y], label == y, count) for y in directions]
        metrics[1] = float(np.mean([area for area, _ in areas]))
        influence[1] = np.mean([part for _, part in areas], axis=0)
    if n_labels == 2:
        metrics[2], influence[2] = _largest_gap(probability[1], label == 1, count)
    best = probability.max(axis=0)
    winners = probability > best - TIE
    right = winners[label, np.arange(len(label))] / winners.sum(axis=0)
    metrics[3] = float(np.sum(count * right) / n)
    influence[3] = right - metrics[3]
    return Predictions(metrics, influence)


def standard_error(influence: Floats, count: Floats) -> Floats:
    """Standard error of a mean from influences, along the last axis."""
    n = float(count.sum())
    return np.asarray(np.sqrt(np.sum(influence**2 * count, axis=-1) / (n * max(n - 1.0, 1.0))))


def _tied_probabilities(arrays: EvidenceArrays, used: list[int], log_odds: Floats) -> Floats:
    """Probability of each label for ranking, shape (n_labels, n_items)."""
    label, count = arrays.label, arrays.count
    n_labels = arrays.base.shape[0]
    other = alternatives(n_labels)
    frequency = np.bincount(label, weights=count, minlength=n_labels)
    common = np.log(frequency[other]) - np.log(frequency)[:, None]
    odds = np.exp(log_odds + (common - arrays.base)[label].T)
    own = 1.0 / (1.0 + odds.sum(axis=0))
    probability = np.empty((n_labels, len(label)))
    place = np.arange(len(label))
    probability[label, place] = own
    for a, part in enumerate(odds * own):
        probability[other[label, a], place] = part
    profile = _profiles(arrays, used)
    weight = np.bincount(profile, weights=count)
    for row in probability:
        row[:] = (np.bincount(profile, weights=count * row) / weight)[profile]
    return probability


def _profiles(arrays: EvidenceArrays, used: list[int]) -> Codes:
    """Number of each item's combination of cells in the used evidences, by 64-bit hashes."""
    key = np.zeros(arrays.n_items, dtype=np.uint64)
    for k in used:
        low = arrays.first[k]
        high = arrays.first[k + 1] if k + 1 < arrays.n_evidences else len(arrays.tables)
        salt = mix(np.array([k], dtype=np.uint64))
        key += mix(arrays.cell[low:high].astype(np.uint64) ^ salt)[arrays.index[k]]
    return np.asarray(np.unique(key, return_inverse=True)[1], dtype=np.int64)


def _ranks(score: Floats) -> tuple[NDArray[np.int64], int]:
    """Rank of each item's score, equal for ties, and the number of ranks."""
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    rank = np.empty(len(score), dtype=np.int64)
    rank[order] = np.cumsum(np.diff(ranked, prepend=ranked[:1]) > TIE)
    return rank, int(rank.max()) + 1


def _area(score: Floats, positive: NDArray[np.bool_], count: Floats) -> tuple[float, Floats]:
    """AUC and its influence."""
    rank, n_ranks = _ranks(score)
    plus = np.bincount(rank, weights=np.where(positive, count, 0.0), minlength=n_ranks)
    minus = np.bincount(rank, weights=np.where(positive, 0.0, count), minlength=n_ranks)
    n_plus, n_minus = float(plus.sum()), float(minus.sum())
    below = (np.cumsum(minus) - 0.5 * minus) / n_minus
    above = (n_plus - np.cumsum(plus) + 0.5 * plus) / n_plus
    area = float(np.sum(plus * below) / n_plus)
    n = n_plus + n_minus
    influence = np.where(positive, (below[rank] - area) * (n / n_plus), (above[rank] - area) * (n / n_minus))
    return area, influence


def _largest_gap(score: Floats, positive: NDArray[np.bool_], count: Floats) -> tuple[float, Floats]:
    """KS, the largest distance between the two distributions of scores, and its influence."""
    rank, n_ranks = _ranks(score)
    plus = np.bincount(rank, weights=np.where(positive, count, 0.0), minlength=n_ranks)
    minus = np.bincount(rank, weights=np.where(positive, 0.0, count), minlength=n_ranks)
    n_plus, n_minus = float(plus.sum()), float(minus.sum())
    gap = np.cumsum(minus) / n_minus - np.cumsum(plus) / n_plus
    largest = float(np.abs(gap).max())
    if largest <= TIE:
        return 0.0, np.zeros(len(score))
    # Where several thresholds have the largest gap, the mean of their influences.
    best = np.where(np.abs(gap) >= largest - TIE, np.sign(gap), 0.0)
    best /= np.abs(best).sum()
    is_low = np.cumsum(best[::-1])[::-1][rank]
    low_plus, low_minus = (
        np.sum(count * side * is_low) / np.sum(count * side) for side in (positive, ~positive)
    )
    n = n_plus + n_minus
    influence = np.where(positive, (low_plus - is_low) * (n / n_plus), (is_low - low_minus) * (n / n_minus))
    return largest, influence
