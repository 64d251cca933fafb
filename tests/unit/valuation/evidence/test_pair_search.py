"""The search for pairs: what it finds, what it leaves out, and what it says about it."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.evidence import pair_search
from fedvalue.valuation.evidence.canonical_table import canonical_table
from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from fedvalue.valuation.evidence.label_evidence import base_log_odds, column_evidence
from tests.unit.valuation.evidence.test_evidence_definition import renumbered
from tests.unit.valuation.evidence.worlds import random_table, value_of


def hidden_exclusive_or(n: int, n_columns: int, seed: int) -> FeatureTable:
    """Columns 3 and n_columns - 2 tell the label together; no column tells anything alone."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 3, (n_columns, n))
    label = ((columns[3] > 0) ^ (columns[-2] > 0) ^ (rng.random(n) < 0.1)).astype(np.int64)
    half = n_columns // 2
    parties = {"a": list(columns[:half]), "b": list(columns[half:])}
    return FeatureTable.from_columns(label=label, parties=parties)


def judged(table: FeatureTable):
    canonical = canonical_table(table)
    base = base_log_odds(canonical)
    return canonical, [column_evidence(canonical, k, base) for k in range(canonical.n_columns)], base


@pytest.mark.parametrize("labels", [2, 4])
def test_compiled_and_plain_judging_agree(labels, monkeypatch):
    """The plain judge is the oracle of the compiled one."""
    canonical, columns, base = judged(random_table(3, n=400, p=4, labels=labels))
    pairs = np.array([(f, g) for f in range(canonical.n_columns) for g in range(f)])
    plain = pair_search.judge_pairs(canonical, columns, base, pairs)
    monkeypatch.setattr(pair_search, "COMPILE_ABOVE", 0)
    compiled = pair_search.judge_pairs(canonical, columns, base, pairs)
    assert compiled[0] == pytest.approx(plain[0], abs=1e-9)
    assert compiled[1].tolist() == plain[1].tolist()


def test_a_hidden_pair_is_found_among_all():
    found = evidence_values(hidden_exclusive_or(1500, 40, 0)).pair_search
    assert found.kept[0] == (3, 38)
    assert (found.n_pairs, found.searched, found.screened_on) == (780, 780, None)
    assert found.remark is None


def test_a_hidden_pair_is_found_when_all_pairs_are_screened_on_few_rows():
    """The budget allows for an eighth of the visits; the pair has no evidence but its own."""
    table = hidden_exclusive_or(6000, 40, 1)
    settings = EvidenceSettings(pair_visits=6000 * 780 // 8)
    found = evidence_values(table, settings).pair_search
    assert found.kept[0] == (3, 38)
    assert 1000 <= found.screened_on < 1100
    assert found.searched == 96
    assert found.remark.startswith("780 pairs of columns were judged on 1,0")
    other = evidence_values(renumbered(table, 5), settings).pair_search
    assert other.kept == found.kept
    assert other.screened_on == found.screened_on


def test_pairs_with_more_cells_than_half_the_rows_are_left_out():
    rng = np.random.default_rng(2)
    label = rng.integers(0, 2, 100)
    columns = [rng.integers(0, 8, 100), rng.integers(0, 9, 100), np.arange(100), np.zeros(100, dtype=int)]
    table = FeatureTable.from_columns(label=label, parties={"a": columns[:2], "b": columns[2:]})
    found = evidence_values(table).pair_search
    # The constant column makes no pair; the row numbers and the 72 cells of the first two are too wide.
    assert (found.n_pairs, found.searched, found.kept) == (3, 0, ())


def test_only_the_best_pairs_stay_and_ties_stay_together():
    log_odds = np.arange(30.0)[::-1].copy()
    assert pair_search._best(log_odds).tolist() == list(range(24))
    log_odds[20:27] = 7.0 + 1e-13 * np.arange(7)
    assert pair_search._best(log_odds).tolist() == list(range(27))
    tied = np.full(60, 3.0) + 1e-13 * np.random.default_rng(0).normal(size=60)
    assert pair_search._best(tied).tolist() == list(range(24))


def test_pairs_of_one_party_count_in_every_coalition_with_it():
    """Both halves of the exclusive or belong to one party: it is worth all of it, alone."""
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 2, (2, 500))
    table = FeatureTable.from_columns(
        label=bits[0] ^ bits[1], parties={"both": list(bits), "none": [rng.integers(0, 3, 500)]}
    )
    found = evidence_values(table)
    assert value_of(found, "both") > 0.65
    assert found.values[0] == pytest.approx(found.total, abs=1e-3)
