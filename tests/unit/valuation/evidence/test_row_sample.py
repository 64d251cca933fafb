"""Beyond a number of distinct rows, pools see a sample of them, and the result says so."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence.test_evidence_definition import renumbered
from tests.unit.valuation.evidence.worlds import joint_game_of


def wide_table(n: int = 12_000) -> FeatureTable:
    """Nearly every row is distinct; two of three parties are informative."""
    rng = np.random.default_rng(3)
    columns = rng.integers(0, 9, (6, n))
    odds = 0.4 * (columns[0] - 4) + 0.3 * (columns[2] - 4)
    label = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return FeatureTable.from_columns(
        label=label, parties={f"p{k}": list(columns[2 * k : 2 * k + 2]) for k in range(3)}
    )


def test_a_sample_of_rows_gives_the_same_values_within_its_larger_error():
    """Five standard errors of the difference to all rows: sqrt(1/n_sample - 1/n) times the spread."""
    table = wide_table()
    whole = evidence_values(table)
    part = evidence_values(table, EvidenceSettings(max_items=3000))
    assert whole.row_sample is None
    assert part.n_samples == pytest.approx(3000, abs=30)
    assert part.row_sample is not None
    assert f"{table.n_samples:,}" in part.row_sample
    assert f"{part.n_samples:,}" in part.row_sample
    error = part.se_total * np.sqrt(1 - part.n_samples / table.n_samples)
    assert f"a standard error of {error:.1g} nats" in part.row_sample
    assert abs(part.total - whole.total) <= 4 * error
    assert part.se[0] == pytest.approx(2 * whole.se[0], rel=0.15)
    assert np.all(np.abs(part.values - whole.values) <= 5 * part.se)
    assert part.values[2] == pytest.approx(0.0, abs=0.003)


def test_the_sample_depends_on_the_content_alone():
    """Another numbering of rows, codes and labels chooses the same rows."""
    table, settings = wide_table(), EvidenceSettings(max_items=3000)
    one, two = evidence_values(table, settings), evidence_values(renumbered(table, 1), settings)
    assert one.n_samples == two.n_samples
    np.testing.assert_allclose(one.values, two.values, atol=1e-9)


def test_synergy_is_judged_on_the_sampled_rows():
    """An exclusive or of three parties, with a column that makes nearly all rows distinct."""
    rng = np.random.default_rng(4)
    bits, other = rng.integers(0, 2, (3, 20_000)), rng.integers(0, 2000, 20_000)
    label = np.where(rng.random(20_000) < 0.1, 1, 0) ^ bits[0] ^ bits[1] ^ bits[2]
    parties = {f"bit {k}": [column] for k, column in enumerate(bits)} | {"other": [other]}
    table = FeatureTable.from_columns(label=label, parties=parties)
    part = evidence_values(table, EvidenceSettings(max_items=5000), joint_game=joint_game_of(table))
    assert part.synergies == (("bit 0", "bit 1", "bit 2"),)
    truth = np.log(2) + 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    assert abs(part.total - truth) <= 4 * part.se_total
    assert part.uplift.everybody.auc.value > 0.85
