"""How well a pool ranks rows that it has not seen: AUC.

AUC counts pairs of rows, one with the label and one without, that their scores put in the right order. Both
rows have pulled their scores apart, so each pair is judged with both left out:

    pair (i, j) = [s_i > s_j] + U((s_i - d_i - s_j - d_j) / b) - U((s_i - s_j) / b),    ties half

- s is the log-odds of the label by evidence read from all rows, d a row's own pull on it (see `row_scores`).
  Of the pull only that part counts which moves a row against the others: rows of the same cell move along.
- Rows with equal scores have equal codes, as a rule, and move along with all of the pull: such a pair stays a
  tie. Leaving a row out moves its score away from its label, so it would be ranked the wrong way round.
- U is the distribution function of a uniform law as wide as half the spread that the other rows of cells give
  to differences of scores. With b = 0 this would be leaving pairs out: right in the mean, but all rows of two
  cells swap together.

Sums over pairs with a uniform law are sums along sorted rows, so the cost is that of sorting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.evidence.row_scores import SHARP, SPREAD, TIE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.row_scores import RowScores

_HALF_WIDTH = np.sqrt(3.0)
"""Half the width of a uniform law of variance 1."""

LOOKED_AT = 2**14
"""Items of each side whose pairs are corrected. Items are in the order of a hash of their content, so the
first stand for all; with that many rows the correction is small, and its own error below 0.0001."""


def unseen_area(scores: RowScores) -> tuple[float, Floats]:
    """AUC and the influence of each item's samples; with more than two labels the mean of each and the rest.

    Influences are those of DeLong, DeLong and Clarke-Pearson (1988), with the corrected pairs.
    """
    n_labels = len(scores.evidence) + 1
    every = _by_label(scores.log_odds, scores.label)
    # With two labels both directions are the same.
    found = [_area(scores, every, y) for y in (range(1, 2) if n_labels == 2 else range(n_labels))]
    return float(np.mean([area for area, _ in found])), np.mean([influence for _, influence in found], axis=0)


def _by_label(log_odds: Floats, label: NDArray[np.int64]) -> Floats:
    """Score of every label up to a constant per row, shape (n_labels, n_items)."""
    n_other, n_items = log_odds.shape
    score = np.zeros((n_other + 1, n_items))
    for a in range(n_other):
        above = label > a
        score[a] += np.where(above, log_odds[a], 0.0)
        score[a + 1] += np.where(above, 0.0, log_odds[a])
    return score


def _area(scores: RowScores, every: Floats, y: int) -> tuple[float, Floats]:
    """AUC of one label against the rest."""
    positive, count = scores.label == y, scores.count
    rest = np.logaddexp.reduce(np.delete(every, y, axis=0), axis=0)
    score = every[y] - rest
    level = levels(score)
    some = np.concatenate([np.flatnonzero(positive == side)[:LOOKED_AT] for side in (True, False)])
    moved = _moved(scores, score, rest, level, positive, some)
    n, n_plus = float(count.sum()), float(np.sum(count * positive))
    plus = count[some] * positive[some]
    mean = float(np.sum(plus * moved) / plus.sum())
    beaten = beaten_part(level, positive, count) + mean
    beaten[some] += moved - mean
    area = float(np.sum(count * beaten * positive) / n_plus)
    return area, (beaten - area) * np.where(positive, n / n_plus, n / (n - n_plus))


def _moved(
    scores: RowScores,
    score: Floats,
    rest: Floats,
    level: NDArray[np.int64],
    positive: NDArray[np.bool_],
    some: NDArray[np.int64],
) -> Floats:
    """What leaving pairs out does to the part of the other side that some rows beat.

    Args:
        scores: Of all rows.
        score: Log-odds of the label.
        rest: Score of all other labels together, that of the row's own label being 0.
        level: See `levels`.
        positive: Whether the row has the label.
        some: Places of the rows.
    """
    tied = np.bincount(level, weights=scores.count)[level[some]] / scores.count.sum()
    pull = scores.pull[some] * np.minimum(1.0, scores.apart[some] / np.maximum(1.0 - tied, TIE))
    score, level, positive, count = score[some], level[some], positive[some], scores.count[some]
    # A row of another label loses that part of the rest which is its label.
    loss = np.log1p(np.exp(np.where(positive, 0.0, -rest[some])) * np.expm1(-pull))
    left_out = np.where(positive, score - pull, score - loss)
    width = max(_HALF_WIDTH * SPREAD * np.sqrt(2.0 * scores.mean_variance), SHARP)
    blurred = [blurred_part(one, positive, count, width) for one in (left_out, score)]
    return blurred[0] - blurred[1] + _kept_ties(level, np.abs(score - left_out), positive, count, width)


def levels(score: Floats) -> NDArray[np.int64]:
    """Rank of each score among the distinct ones, from 0."""
    order = np.argsort(score)  # not stable: the order of ties does not matter
    ranked = score[order]
    level = np.empty(len(score), dtype=np.int64)
    level[order] = np.cumsum(np.diff(ranked, prepend=ranked[:1]) > TIE)
    return level


def beaten_part(level: NDArray[np.int64], positive: NDArray[np.bool_], count: Floats) -> Floats:
    """Part of the other side that each row is on the right side of, ties half."""
    plus = np.bincount(level, weights=np.where(positive, count, 0.0))
    minus = np.bincount(level, weights=np.where(positive, 0.0, count))
    below = (np.cumsum(minus) - 0.5 * minus) / minus.sum()
    above = 1.0 - (np.cumsum(plus) - 0.5 * plus) / plus.sum()
    return np.asarray(np.where(positive, below[level], above[level]))


def blurred_part(score: Floats, positive: NDArray[np.bool_], count: Floats, width: float) -> Floats:
    """The same where a difference of scores is uncertain by up to `width`, all values equally likely."""
    order = np.argsort(score)
    ranked = score[order]
    low, high = (np.searchsorted(ranked, ranked + move) for move in (-width, width))
    found = np.empty_like(score)
    for side in (True, False):
        other = np.where(positive[order] == side, 0.0, count[order])
        mass = np.concatenate([[0.0], np.cumsum(other)])
        moment = np.concatenate([[0.0], np.cumsum(other * ranked)])
        # Integral of the number of other rows below t, from ranked - width to ranked + width.
        area = (ranked + width) * mass[high] - moment[high] - (ranked - width) * mass[low] + moment[low]
        below = area / (2.0 * width * mass[-1])
        mine = positive[order] == side
        found[order[mine]] = below[mine] if side else 1.0 - below[mine]
    return found


def _kept_ties(
    level: NDArray[np.int64], pull: Floats, positive: NDArray[np.bool_], count: Floats, width: float
) -> Floats:
    """What blurred pairs of equal rows lose by leaving them out, as a part of the other side of each row."""
    plus = np.bincount(level, weights=np.where(positive, count, 0.0))
    minus = np.bincount(level, weights=np.where(positive, 0.0, count))
    both = (plus > 0) & (minus > 0)
    moved = np.zeros(len(plus))
    for side, samples in ((True, plus), (False, minus)):
        total = np.bincount(level, weights=np.where(positive == side, count * pull, 0.0))
        moved += np.divide(total, samples, out=np.zeros_like(total), where=both)
    lost = np.minimum(moved / (2.0 * width), 0.5)
    kept = np.where(positive, (lost * minus)[level] / minus.sum(), (lost * plus)[level] / plus.sum())
    return np.asarray(kept)
