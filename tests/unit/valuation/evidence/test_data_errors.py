"""Intervals of learnable values keep their promise on redrawn populations."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from fedvalue.valuation.evidence.predictions import CALIBRATION, FLOOR, calibrated, row_covariance
from tests.unit.valuation.evidence.worlds import linear_truth, linear_weights


def redraw(seed: int, n: int) -> FeatureTable:
    """LINEAR S0 and a useless party."""
    rng = np.random.default_rng([42, seed])
    bits = rng.integers(0, 2, (20, n))
    odds = linear_weights(1) @ (2 * bits - 1)
    label = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    parties = {"d1": list(bits[:5]), "d2": list(bits[5:10]), "d3": list(bits[10:])}
    return FeatureTable.from_columns(label=label, parties={**parties, "useless": [rng.integers(0, 5, n)]})


def test_intervals_cover_the_population_values():
    """40 redraws of 5,000 rows, three informative parties: 95% intervals cover in at least 88% of 120 cases.

    With a true coverage of 95% and independent cases, fewer than 88% happen once in 600 times. The total is
    compared with its mean over redraws, since learning 20 columns costs 1% to 2% of it.
    """
    truth, _ = linear_truth("S0", 1)
    found = [evidence_values(redraw(seed, 5000)) for seed in range(40)]
    values, errors = np.array([f.values for f in found]), np.array([f.se for f in found])
    totals, total_errors = np.array([f.total for f in found]), np.array([f.se_total for f in found])
    assert np.mean(np.abs(values[:, :3] - truth) <= 1.96 * errors[:, :3]) >= 0.88
    assert np.mean(np.abs(totals - totals.mean()) <= 1.96 * total_errors) >= 0.85
    assert np.mean(np.abs(values[:, 3]) <= 1.96 * errors[:, 3]) >= 0.9
    # Neither are they so wide that they say nothing: redraws scatter as the errors say.
    assert values.std(axis=0)[:3] == pytest.approx(errors.mean(axis=0)[:3], rel=0.35)


def test_errors_follow_from_contributions():
    """Two items, three samples: the variance of a mean of three, times the calibration, plus the floor."""
    count = np.array([1.0, 2.0])
    covariance = row_covariance(np.array([[3.0, 0.0]]), count)
    assert covariance == pytest.approx(np.var([3.0, 0.0, 0.0], ddof=1) / 3)
    expected = np.sqrt(CALIBRATION**2 * covariance + (FLOOR / 3) ** 2)
    assert calibrated(covariance, 3) == pytest.approx(expected)


def test_errors_of_the_total_follow_from_those_of_the_values():
    found = evidence_values(redraw(0, 500))
    assert found.se_total**2 == pytest.approx(
        CALIBRATION**2 * found.covariance.sum() + (FLOOR / 500) ** 2, rel=1e-12
    )
