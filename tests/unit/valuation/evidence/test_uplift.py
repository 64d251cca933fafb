"""Uplift: what it contains, and metrics of populations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence.worlds import (
    linear_table,
    linear_weights,
    random_table,
    two_informative,
    value_of,
)


def test_without_evidence_nobody_ranks_and_the_commonest_label_wins():
    label = np.array([0] * 30 + [1] * 70)
    table = FeatureTable.from_columns(label=label, parties={"a": [np.arange(100)], "b": []})
    found = evidence_values(table).uplift
    for part in (found.nobody, found.everybody, *found.alone, *found.without):
        assert (part.auc.value, part.ks.value, part.accuracy.value) == (0.5, 0.0, 0.7)
        assert part.errors_avoided == 0.0
        assert part.log_loss.value == pytest.approx(found.nobody.log_loss.value)
    balanced = FeatureTable.from_columns(label=label[20:80] * 0 + np.arange(60) % 2, parties={"a": []})
    assert evidence_values(balanced).uplift.nobody.accuracy.value == 0.5


def test_log_loss_gain_is_the_coalition_s_value():
    found = evidence_values(random_table(1, n=300, labels=3, task=True))
    for k, party in enumerate(found.parties):
        assert found.uplift.alone[k].parties == (party,)
        assert -found.uplift.alone[k].log_loss.gain == pytest.approx(value_of(found, party), abs=1e-12)
    assert -found.uplift.everybody.log_loss.gain == pytest.approx(found.total, abs=1e-12)
    assert found.uplift.everybody.ks is None
    assert found.uplift.nobody.log_loss.gain == 0.0
    assert found.uplift.nobody.log_loss.se_gain == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_the_population(seed):
    """LINEAR with all columns known: AUC, KS and accuracy of the true logit, by 400,000 fresh rows.

    Within 4 standard errors of 20,000 rows (0.003 each), since 20 bits cost next to nothing to learn.
    """
    rng = np.random.default_rng(seed + 50)
    odds = linear_weights(seed) @ (2 * rng.integers(0, 2, (20, 400_000)) - 1)
    label = rng.random(400_000) < 1 / (1 + np.exp(-odds))
    ranks = np.argsort(np.argsort(odds))
    n_plus = label.sum()
    truth = (ranks[label].sum() - n_plus * (n_plus - 1) / 2) / (n_plus * (len(label) - n_plus))
    rate = np.log(label.mean() / (1 - label.mean()))
    found = evidence_values(linear_table("S0", 20_000, seed)).uplift.everybody
    assert found.auc.value == pytest.approx(truth, abs=4 * found.auc.se)
    assert found.accuracy.value == pytest.approx(np.mean((odds > 0) == label), abs=4 * found.accuracy.se)
    gap = np.mean(odds[label] > rate) - np.mean(odds[~label] > rate)
    assert found.ks.value == pytest.approx(gap, abs=4 * found.ks.se)


def test_useless_columns_do_not_rank_rows():
    """Five task codes tie most rows; 20 useless columns must not break the ties by memory, either way.

    AUC moves by at most 0.01; left-out predictions would lower it by 0.05, and fitted ones raise it by 0.03.
    """
    moved = []
    for seed in range(4):
        label, strong, _ = two_informative(3000, seed)
        rng = np.random.default_rng(seed + 9)
        useless = [rng.integers(0, 6, 3000) for _ in range(20)]
        table = FeatureTable.from_columns(label=label, task=[strong], parties={"useless": useless})
        moved.append(evidence_values(table).uplift.everybody.auc.gain)
    assert max(np.abs(moved)) < 0.01
    assert abs(np.mean(moved)) < 0.005


def test_every_set_of_few_parties_is_scored_where_that_is_asked_for():
    """4 parties: 16 sets, of which nobody, 4 alone, 4 all but one and all leave 6 pairs."""
    table = random_table(2, n=300, p=4)
    found = evidence_values(table, EvidenceSettings(every_set=True))
    assert evidence_values(table).uplift.sets == ()
    pairs = {frozenset(pair) for pair in itertools.combinations(found.parties, 2)}
    assert {frozenset(one.parties) for one in found.uplift.sets} == pairs
    for one in found.uplift.sets:
        assert -one.log_loss.gain == pytest.approx(value_of(found, *one.parties), abs=1e-12)
