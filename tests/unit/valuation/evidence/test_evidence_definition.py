"""Pooled evidence against its definition, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.valuation.evidence.coalition_walk import walk_coalitions
from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence import naive
from tests.unit.valuation.evidence.worlds import random_table


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("labels", [2, 3, 5])
def test_coalition_values_equal_the_definition(seed, labels):
    """Row by row, without groups or shortcuts, to the rounding of both."""
    table = random_table(seed, labels=labels, task=seed % 2 == 1)
    expected, pairs = naive.coalition_values(table)
    found = evidence_values(table)
    assert found.every_coalition == pytest.approx(expected, abs=1e-9)
    assert list(found.pair_search.kept) == pairs


@pytest.mark.parametrize("seed", range(3))
def test_weighted_items_equal_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    table = random_table(seed, n=60, labels=2 + seed)
    count = rng.integers(1, 5, table.n_items)
    weighted = FeatureTable(table.codes, table.label, count, table.owner, table.parties)
    repeated = FeatureTable(
        np.repeat(table.codes, count, axis=0),
        np.repeat(table.label, count),
        np.ones(count.sum(), dtype=np.int64),
        table.owner,
        table.parties,
    )
    one, two = evidence_values(weighted), evidence_values(repeated)
    assert one.every_coalition.tolist() == two.every_coalition.tolist()
    assert one.se.tolist() == two.se.tolist()
    assert one.uplift == two.uplift
    assert one.every_coalition == pytest.approx(naive.coalition_values(weighted)[0], abs=1e-9)


def renumbered(table: FeatureTable, seed: int) -> FeatureTable:
    """The same rows in another order, with other codes and labels, some items split in two."""
    rng = np.random.default_rng(seed)
    split = np.flatnonzero(table.count > 1)
    rows = np.concatenate([np.arange(table.n_items), split])
    count = table.count[rows].copy()
    count[table.n_items :] = count[split] // 2
    count[split] -= count[table.n_items :]
    order = rng.permutation(len(rows))
    rows, count = rows[order], count[order]

    def rename(column):
        return rng.permutation(int(column.max()) + 5)[column]

    codes = np.stack([rename(table.codes[rows, k]) for k in range(table.n_columns)], axis=1)
    label = rename(table.label)[rows]
    return FeatureTable(codes, label, count, table.owner, table.parties)


@given(
    seed=st.integers(0, 10_000),
    labels=st.integers(2, 4),
    n=st.integers(5, 120),
    task=st.booleans(),
    repeats=st.integers(1, 4),
)
def test_nothing_depends_on_the_numbering_of_rows_codes_or_labels(seed, labels, n, task, repeats):
    """To 1e-12: values, errors, interactions and uplift of the same multiset of rows."""
    table = random_table(seed, n=n, labels=labels, task=task)
    table = FeatureTable(table.codes, table.label, table.count * repeats, table.owner, table.parties)
    one, two = evidence_values(table), evidence_values(renumbered(table, seed))
    assert two.every_coalition == pytest.approx(one.every_coalition, abs=1e-12)
    assert two.values == pytest.approx(one.values, abs=1e-12)
    assert two.se == pytest.approx(one.se, abs=1e-12)
    assert two.interactions == pytest.approx(one.interactions, abs=1e-12)
    assert two.pair_search.kept == one.pair_search.kept
    for mine, yours in zip(measures(one), measures(two), strict=True):
        assert mine == pytest.approx(yours, abs=1e-12)


def measures(found):
    uplift = found.uplift
    for part in (uplift.nobody, *uplift.alone, uplift.everybody, *uplift.without):
        for measure in (part.log_loss, part.auc, part.ks, part.accuracy):
            if measure is not None:
                yield [measure.value, measure.se, measure.gain, measure.se_gain]


@pytest.mark.parametrize("seed", range(4))
def test_tables_whose_counts_tell_all_codes_apart_agree_to_the_bit(seed):
    """Canonical order: two servers add up the same numbers in the same order."""
    table = random_table(seed, n=400, labels=3)
    one, two = evidence_values(table), evidence_values(renumbered(table, seed + 1))
    assert two.values.tolist() == one.values.tolist()
    assert two.uplift == one.uplift


def test_compiled_and_plain_passes_walk_to_the_same_game(monkeypatch):
    game = EvidenceGame.of(random_table(3, n=700, labels=3))
    plain = walk_coalitions(game)
    monkeypatch.setattr("fedvalue.valuation.evidence.evidence_game.COMPILE_ABOVE", 0.0)
    compiled = walk_coalitions(game)
    assert compiled.likelihood == pytest.approx(plain.likelihood, abs=1e-12)
    assert compiled.contributions == pytest.approx(plain.contributions, abs=1e-9)


def test_values_do_not_depend_on_the_number_of_workers():
    from fedvalue.engines import Execution, thread_engine

    table = random_table(5, n=300, p=5)
    with thread_engine(1) as one, thread_engine(3) as three:
        alone, together = (
            evidence_values(table, execution=Execution(one)),
            evidence_values(table, execution=Execution(three)),
        )
    assert alone.values.tolist() == together.values.tolist()
    assert alone.se.tolist() == together.se.tolist()
