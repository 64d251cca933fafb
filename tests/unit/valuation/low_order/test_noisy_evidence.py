"""Evidence of single columns with noise, against the gain of their exact tables in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.low_order.noisy_evidence import ColumnPosterior

SEEDS = 40
DEVIATION = 29.0
"""Of the noise of `gram` in a cell: epsilon 1, 10,000 rows, five columns."""

RARE = np.array([[12, 8], [29, 80], [53, 81], [45, 59], [8733, 900]], dtype=np.float64)
"""Bank marketing: days since the last contact, where most were never contacted."""

EVEN = np.array([[1700, 300], [1650, 350], [1600, 400], [1550, 450], [1400, 600]], dtype=np.float64)


def plug_in(table: np.ndarray) -> float:
    """I(X; Y) of a table, in nats."""
    joint = table / table.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return float(np.sum(joint * np.log(joint / apart)))


def gain(posterior: ColumnPosterior) -> float:
    """The gain that the evidence predicts for itself."""
    column = posterior.mean()
    return float(np.sum(column.frequency[:, None] * column.probability * column.evidence))


def posterior_of(table: np.ndarray, seed: int, deviation: float = DEVIATION) -> ColumnPosterior:
    noise = np.rint(np.random.default_rng(seed).normal(0, deviation, table.shape))
    n = int(table.sum())
    return ColumnPosterior.of(table + noise, table.sum(axis=0) / n, n, deviation**2)


@pytest.mark.parametrize("table", [RARE, EVEN], ids=["rare codes", "even codes"])
def test_noise_does_not_take_a_columns_worth_away(table):
    """Mean of 40 draws between 0.7 and 1.2 of the exact table's gain.

    By the old rules the rare codes kept less than half: a code below two deviations of noise counted as
    absent, and the code that nearly everybody has spoke against the effects of the others.
    """
    gains = [gain(posterior_of(table, seed)) for seed in range(SEEDS)]
    assert 0.7 < np.mean(gains) / plug_in(table) < 1.2


@pytest.mark.parametrize("table", [RARE, EVEN], ids=["rare codes", "even codes"])
def test_a_column_without_signal_gets_next_to_nothing(table):
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    gains = [gain(posterior_of(independent, seed)) for seed in range(SEEDS)]
    assert np.mean(gains) < 0.05 * plug_in(table)


@pytest.mark.parametrize("table", [RARE, EVEN], ids=["rare codes", "even codes"])
def test_without_noise_the_gain_is_that_of_the_table_less_its_overfit(table):
    """Expected overfit of a plug-in gain: (codes - 1) (labels - 1) / 2 n."""
    n, (n_codes, n_labels) = table.sum(), table.shape
    due = plug_in(table) - (n_codes - 1) * (n_labels - 1) / (2 * n)
    assert gain(posterior_of(table, 0, deviation=0.0)) == pytest.approx(due, rel=0.1)


def test_codes_that_drown_in_noise_share_their_evidence_and_their_frequency():
    table = np.array([[4000, 1000], [4000, 900], [20, 30], [25, 25]], dtype=np.float64)
    n = int(table.sum())
    column = ColumnPosterior.of(table, table.sum(axis=0) / n, n, 40.0**2).mean()
    assert column.evidence[2].tolist() == column.evidence[3].tolist()
    assert column.frequency[2] == column.frequency[3]
    assert column.frequency.sum() == pytest.approx(1.0)
    assert len(np.unique(column.evidence[:, 0])) == 3
