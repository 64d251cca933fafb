"""Sampled orders agree with the exact game, stop in time, and do not depend on where they ran."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.engines import Execution, ProcessEngine, Stop, thread_engine
from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence.worlds import exclusive_or, joint_game_of


def eight_parties(n: int = 400) -> FeatureTable:
    rng = np.random.default_rng(11)
    columns = rng.integers(0, 4, (8, n))
    columns[5] = np.where(rng.random(n) < 0.7, columns[0], columns[5])
    odds = (columns[:5] - 1.5).T @ np.array([0.9, 0.5, 0.3, 0.3, 0.2])
    label = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return FeatureTable.from_columns(label=label, parties={f"p{k}": [c] for k, c in enumerate(columns)})


@pytest.fixture(scope="module")
def exact():
    return evidence_values(eight_parties(), EvidenceSettings(method="exact"))


@pytest.fixture(scope="module")
def sampled():
    return evidence_values(eight_parties(), EvidenceSettings(method="sampled", precision=0.005))


def test_sampled_values_lie_within_their_errors_of_the_exact_ones(exact, sampled):
    """Within 4.5 standard errors, which 8 normal values exceed once in 18,000 times."""
    assert (exact.method, sampled.method) == ("exact", "sampled")
    assert np.all(np.abs(sampled.values - exact.values) <= 4.5 * sampled.se_sampling + 1e-12)
    assert sampled.values.sum() == pytest.approx(sampled.total, abs=1e-12)
    assert sampled.total == pytest.approx(exact.total, abs=1e-12)
    assert sampled.se_sampling.max() <= 0.005 * sampled.total
    assert sampled.n_orders >= 24


def test_errors_uplift_and_corners_are_those_of_the_exact_game(exact, sampled):
    assert sampled.se == pytest.approx(exact.se, rel=0.1)
    assert sampled.uplift.everybody.log_loss.value == pytest.approx(exact.uplift.everybody.log_loss.value)
    for mask, value in sampled.coalition_values.items():
        assert value == pytest.approx(exact.coalition_values[mask], abs=1e-12)
    assert len(sampled.coalition_values) == 2 * 8 + 2
    assert sampled.every_coalition is None


def test_fitted_interactions_are_close_to_the_exact_ones(exact, sampled):
    """Both see that parties 0 and 5 repeat each other; elsewhere they differ by little."""
    assert np.unravel_index(np.argmin(sampled.interactions), (8, 8)) == (0, 5)
    assert sampled.interactions == pytest.approx(exact.interactions, abs=0.02 * exact.total)


def test_sampling_does_not_depend_on_the_number_of_workers():
    settings = EvidenceSettings(method="sampled", max_orders=24)
    with thread_engine(1) as one, thread_engine(3) as three:
        alone = evidence_values(eight_parties(150), settings, execution=Execution(one))
        together = evidence_values(eight_parties(150), settings, execution=Execution(three))
    assert alone.values.tolist() == together.values.tolist()
    assert alone.covariance.tolist() == together.covariance.tolist()


def test_work_travels_to_other_processes():
    settings = EvidenceSettings(method="sampled", max_orders=8)
    engine = ProcessEngine(1)
    try:
        there = evidence_values(eight_parties(100), settings, execution=Execution(engine))
    finally:
        engine.shutdown()
    assert there.values.tolist() == evidence_values(eight_parties(100), settings).values.tolist()


def test_sampled_game_counts_the_larger_of_both_games():
    table = exclusive_or(600, 3, 1)
    game = joint_game_of(table)
    settings = EvidenceSettings(method="sampled", max_orders=200)
    found = evidence_values(table, settings, joint_game=game)
    assert found.total >= game(15)
    assert np.all(np.abs(found.values[:3] - found.total / 3) <= 4.5 * found.se_sampling[:3] + 1e-3)
    assert found.synergies == (("bit 0", "bit 1", "bit 2"),)


def test_a_person_can_stop_the_sampling():
    """Asked after the first orders, the walk ends with those it has."""
    stop = Stop()
    notes = []

    def progress(done: float, total: float, note: str = "") -> None:
        assert 0 <= done <= total
        notes.append(note)
        if note == "orders of parties":
            assert stop.possible
            stop.asked = True

    settings = EvidenceSettings(method="sampled", precision=1e-6)
    found = evidence_values(eight_parties(150), settings, execution=Execution(progress=progress, stop=stop))
    assert notes.count("orders of parties") == 1
    assert 2 <= found.n_orders <= 32
    assert found.values.sum() == pytest.approx(found.total, abs=1e-12)
