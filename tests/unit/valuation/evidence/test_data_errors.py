"""Intervals of learnable values keep their promise on redrawn populations."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from fedvalue.valuation.evidence.predictions import CALIBRATION, FLOOR, LUCK, calibrated, row_covariance
from tests.unit.valuation.evidence.worlds import linear_truth, linear_weights


def redraw(seed: int, n: int) -> FeatureTable:
    """LINEAR S0 and a useless party."""
    rng = np.random.default_rng([42, seed])
    bits = rng.integers(0, 2, (20, n))
    odds = linear_weights(1) @ (2 * bits - 1)
    label = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    parties = {"d1": list(bits[:5]), "d2": list(bits[5:10]), "d3": list(bits[10:])}
    return FeatureTable.from_columns(label=label, parties={**parties, "useless": [rng.integers(0, 5, n)]})


@pytest.fixture(scope="module")
def valued():
    """40 redraws of 5,000 rows."""
    return [evidence_values(redraw(seed, 5000)) for seed in range(40)]


def test_intervals_cover_the_population_values(valued):
    """40 redraws of 5,000 rows, three informative parties: 95% intervals cover in at least 88% of 120 cases.

    With a true coverage of 95% and independent cases, fewer than 88% happen once in 600 times. The total is
    compared with its mean over redraws, since learning 20 columns costs 1% to 2% of it.
    """
    truth, _ = linear_truth("S0", 1)
    found = valued
    values, errors = np.array([f.values for f in found]), np.array([f.se for f in found])
    totals, total_errors = np.array([f.total for f in found]), np.array([f.se_total for f in found])
    assert np.mean(np.abs(values[:, :3] - truth) <= 1.96 * errors[:, :3]) >= 0.88
    assert np.mean(np.abs(totals - totals.mean()) <= 1.96 * total_errors) >= 0.85
    assert np.mean(np.abs(values[:, 3]) <= 1.96 * errors[:, 3]) >= 0.9
    # Neither are they so wide that they say nothing: redraws scatter as the errors say.
    assert values.std(axis=0)[:3] == pytest.approx(errors.mean(axis=0)[:3], rel=0.35)


def population_gains(own: range) -> np.ndarray:
    """AUC, KS at the average rate and accuracy of the best model of these bits, minus those of no bit.

    All 2^20 rows are equally likely, so the population is enumerated.
    """
    bits = np.arange(1 << 20) >> np.arange(20)[:, None] & 1
    p = 1 / (1 + np.exp(-(linear_weights(1) @ (2 * bits - 1))))
    rate = p.mean()
    key = np.sum([bits[j] << k for k, j in enumerate(own)], axis=0)
    n_rows = np.bincount(key)
    score = np.bincount(key, weights=p) / n_rows
    order = np.argsort(score)
    score, mass = score[order], n_rows[order] / len(p)
    plus, minus = mass * score / rate, mass * (1 - score) / (1 - rate)
    area = np.sum(plus * (np.cumsum(minus) - minus / 2))
    gap = np.sum((plus - minus)[score > rate])
    right = np.sum(mass * np.maximum(score, 1 - score))
    return np.array([area - 0.5, gap, right - max(rate, 1 - rate)])


def test_intervals_of_the_uplift_cover_the_populations_gains(valued):
    """Each party alone and all: 95% intervals of AUC, KS and accuracy cover in at least 88% of 160 cases."""
    truth = np.array([population_gains(own) for own in (range(5), range(5, 10), range(10, 20), range(20))])
    rows = [[*found.uplift.alone[:3], found.uplift.everybody] for found in valued]
    measures = [[(row.auc, row.ks, row.accuracy) for row in one] for one in rows]
    gains = np.array([[[m.gain for m in row] for row in one] for one in measures])
    errors = np.array([[[m.se_gain for m in row] for row in one] for one in measures])
    covered = np.mean(np.abs(gains - truth) <= 1.96 * errors, axis=(0, 1))
    assert np.all(covered >= 0.88), covered
    # Neither are they so wide that they say nothing.
    assert errors.mean(axis=0) == pytest.approx(gains.std(axis=0), rel=0.6)


def test_errors_follow_from_contributions():
    """Two items, three samples: the variance of a mean of three, times the calibration, plus the floor."""
    count = np.array([1.0, 2.0])
    covariance = row_covariance(np.array([[3.0, 0.0]]), count)
    assert covariance == pytest.approx(np.var([3.0, 0.0, 0.0], ddof=1) / 3)
    expected = np.sqrt(CALIBRATION**2 * covariance + (FLOOR / 3) ** 2)
    assert calibrated(covariance, 3) == pytest.approx(expected)
    with_luck = np.sqrt(CALIBRATION**2 * covariance + (FLOOR**2 + (40 * LUCK) ** 2) / 9)
    assert calibrated(covariance, 3, 40) == pytest.approx(with_luck)


def test_errors_of_the_total_follow_from_those_of_the_values():
    table = redraw(0, 500)
    found = evidence_values(table)
    n_columns = EvidenceGame.of(table).n_columns
    assert n_columns.sum() > 0
    floor = (FLOOR**2 + (LUCK * n_columns.sum()) ** 2) / 500**2
    assert found.se_total**2 == pytest.approx(CALIBRATION**2 * found.covariance.sum() + floor, rel=1e-12)


@pytest.mark.parametrize(("n", "n_columns"), [(500, 60), (1000, 100)])
def test_a_wide_party_of_noise_is_not_worth_more_than_its_luck(n, n_columns):
    """Columns are judged on the rows that they predict: 0.15 / n nats of luck each, which errors contain.

    With errors that do not know the number of columns, 4 of 10 and 6 of 8 such tables had an interval above
    0, and more than a tenth of all decisions seemed to be saved.
    """
    for seed in range(4):
        rng = np.random.default_rng(seed)
        noise = [rng.integers(0, 5, n) for _ in range(n_columns)]
        table = FeatureTable.from_columns(label=rng.integers(0, 2, n), parties={"noise": noise})
        found = evidence_values(table)
        assert found.values[0] - 1.96 * found.se[0] < 0
        everybody = found.uplift.everybody
        assert everybody.errors_avoided - 1.96 * everybody.se_errors_avoided < 15


def test_a_gain_of_no_decision_is_not_known_for_certain():
    """A party that flips no decision on these rows may flip one on others: the interval is not a point."""
    found = evidence_values(redraw(0, 500)).uplift
    for one in (*found.alone, found.everybody):
        assert one.se_errors_avoided >= 1000 * FLOOR / 500
    assert found.nobody.se_errors_avoided == 0.0
