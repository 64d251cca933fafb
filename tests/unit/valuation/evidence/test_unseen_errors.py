"""Wrong decisions and KS are about unseen rows: against populations, and against leaving one out."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.evidence import unseen_errors
from fedvalue.valuation.evidence.evidence_game import EvidenceGame, fit_evidences
from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from fedvalue.valuation.evidence.row_scores import fitted_log_odds, row_scores
from fedvalue.valuation.evidence.unseen_errors import expected_errors, unseen_gap
from tests.unit.valuation.evidence.worlds import scores_of


def population(n_cells: int) -> np.ndarray:
    """P(label = 1) in each of some equally likely cells."""
    return np.random.default_rng(99).beta(0.7, 0.7, n_cells)


def true_error(chance: np.ndarray, n: int) -> float:
    """Error on new rows of the majority of each cell among n rows, mean of 400 draws; ties are tossed."""
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(400):
        cell = rng.integers(0, len(chance), n)
        positive = rng.random(n) < chance[cell]
        more = np.bincount(cell, np.where(positive, 1.0, -1.0), len(chance))
        decided = 0.5 + 0.5 * np.sign(more)
        errors.append(np.mean(decided * (1 - chance) + (1 - decided) * chance))
    return float(np.mean(errors))


@pytest.mark.parametrize("n_cells", [200, 500])
def test_errors_are_those_of_new_rows(n_cells):
    """1,000 rows in cells of 5 and of 2: within 4 standard errors of the mean of 20 redraws, 0.02.

    Counted on the known rows, 0.19 and 0.14 would be wrong; on new ones 0.27 and 0.32 are.
    """
    chance = population(n_cells)
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cell = rng.integers(0, n_cells, 1000)
        label = (rng.random(1000) < chance[cell]).astype(np.int64)
        table = FeatureTable.from_columns(label=label, parties={"a": [cell]})
        found.append(1 - evidence_values(table).uplift.everybody.accuracy.value)
    tolerance = 4 * np.std(found, ddof=1) / np.sqrt(len(found))
    assert tolerance < 0.02
    assert np.mean(found) == pytest.approx(true_error(chance, 1000), abs=tolerance)


def test_without_smoothing_it_is_leaving_one_out(monkeypatch):
    """Three labels: the decisions of predictions without each row, label frequencies left as they are.

    Pulls through the weights are of the first order, so one in ten of the rows that turn may differ.
    """
    monkeypatch.setattr(unseen_errors, "SPREAD", 0.0)
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 10, 400) for _ in range(3)]
    label = (sum(columns) + rng.integers(-5, 6, 400)) // 10 % 3
    game = EvidenceGame.of(FeatureTable.from_columns(label=label, parties={"a": columns}))
    arrays = game.arrays
    key = tuple(k for k in game.evidences_of(1) if arrays.decides[k])
    assert len(key) >= 3
    fit = fit_evidences(game, key, np.full(arrays.n_evidences, 0.5), compiled=False)
    weights = np.zeros(arrays.n_evidences)
    weights[list(key)] = fit.weights
    left_out = fit.log_odds + (arrays.fitted_base - arrays.base)[arrays.label].T
    wrong = (left_out > 0).any(axis=0)
    found = expected_errors(row_scores(arrays, weights, fit.log_likelihood))
    apparent = (fitted_log_odds(arrays, weights) > 0).any(axis=0)
    turned = wrong & ~apparent
    assert np.sum(turned) >= 10
    assert np.sum(found != wrong) <= 0.1 * np.sum(turned)
    assert not np.any(apparent & ~wrong)


def test_rows_do_not_matter_one_by_one():
    """Rows in another order, codes and labels under other names: the same errors to rounding."""
    rng = np.random.default_rng(4)
    columns = [rng.integers(0, 4, 300) for _ in range(4)]
    label = (columns[0] + rng.integers(0, 3, 300) > 2).astype(np.int64)
    order, names = rng.permutation(300), rng.permutation(4)
    here = FeatureTable.from_columns(label=label, parties={"a": columns[:2], "b": columns[2:]})
    there = FeatureTable.from_columns(
        label=1 - label[order],
        parties={
            "a": [names[column[order]] for column in columns[:2]],
            "b": [names[column[order]] for column in columns[2:]],
        },
    )
    left, right = (evidence_values(table).uplift for table in (here, there))
    assert left.everybody.errors_avoided > 0
    for one, other in zip((left.everybody, *left.alone), (right.everybody, *right.alone), strict=True):
        assert one.errors_avoided == pytest.approx(other.errors_avoided, abs=1e-6)
        assert one.se_errors_avoided == pytest.approx(other.se_errors_avoided, rel=1e-9)
        for here, there in ((one.auc, other.auc), (one.ks, other.ks)):
            assert here.gain == pytest.approx(there.gain, abs=1e-9)
            assert here.se_gain == pytest.approx(there.se_gain, rel=1e-6)


def test_gap_is_read_at_the_average_rate():
    score = np.array([-0.4, -0.3, 0.0, 0.2, 0.4, 0.0])
    positive = np.array([False, False, False, True, True, True])
    gap, influence = unseen_gap(scores_of(score, positive))
    # At 0: of the negatives two are below and one is tied, of the positives one is tied.
    assert gap == pytest.approx(2.5 / 3 - 0.5 / 3)
    assert influence.sum() == pytest.approx(0)


def test_gap_leaves_out_a_row_that_alone_made_its_score():
    """Rows alone in their cells: left out, all are at the average, and nothing is known about new ones."""
    score = np.array([-0.4, -0.3, 0.4, 0.5])
    scores = scores_of(score, score > 0, pull=np.abs(score))
    assert unseen_gap(scores)[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n_cells", [200, 500])
def test_gap_is_that_of_new_rows(n_cells):
    """1,000 rows in cells of 5 and of 2: within 4 standard errors of the mean of 20 redraws, 0.04.

    A new row is above the average if its cell has more of its label than the table. On the known rows KS
    would be 0.62 and 0.72; on new ones it is 0.45 and 0.37.
    """
    chance = population(n_cells)
    found, truth = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cell = rng.integers(0, n_cells, 1000)
        label = (rng.random(1000) < chance[cell]).astype(np.int64)
        table = FeatureTable.from_columns(label=label, parties={"a": [cell]})
        found.append(evidence_values(table).uplift.everybody.ks.value)
        surplus = np.bincount(cell, label - label.mean(), n_cells)
        above = 0.5 + 0.5 * np.sign(np.where(np.abs(surplus) < 1e-9, 0.0, surplus))
        truth.append(chance @ above / chance.sum() - (1 - chance) @ above / (1 - chance).sum())
    tolerance = 4 * np.std(np.subtract(found, truth), ddof=1) / np.sqrt(len(found))
    assert tolerance < 0.04
    assert np.mean(found) == pytest.approx(np.mean(truth), abs=tolerance)
