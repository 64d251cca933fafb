"""Entropies of an item table: by definition, the same bits under other names, and exactly zero at zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.entropies import alone_and_last, label_entropies, snapped
from fedvalue.valuation.items import item_table
from tests import naive
from tests.statistics.tables import random_table, relabelled
from tests.support.joint_tables import Table, tables


def conditional_entropy(table: Table, parties: list[int]) -> float:
    """H(Y | X_t, X_S) with dictionaries."""
    rows = zip(table.task, *(table.parties[d] for d in parties), strict=True)
    return naive.entropy_of_label_given(list(zip(rows, table.label, table.weight, strict=True)))


@given(tables(most_parties=5, most_items=20))
@settings(max_examples=60)
def test_ends_of_every_order_equal_the_definition(table: Table) -> None:
    items = item_table(table.counts())
    everybody = list(range(len(table.parties)))
    nobody, all_known = conditional_entropy(table, []), conditional_entropy(table, everybody)
    assert label_entropies(items) == pytest.approx((nobody, all_known), abs=1e-12)
    alone, last = alone_and_last(items)
    for d in everybody:
        others = [k for k in everybody if k != d]
        assert alone[d] == pytest.approx(nobody - conditional_entropy(table, [d]), abs=1e-12)
        assert last[d] == pytest.approx(conditional_entropy(table, others) - all_known, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_other_code_numbers_and_orders_give_the_same_bits(seed: int) -> None:
    """Counts are summed by size, so two servers agree exactly and not just to rounding."""
    counts = random_table(seed, p=4, n=300, codes=4, labels=3)
    here, there = item_table(counts), item_table(relabelled(counts, seed))
    assert label_entropies(here) == label_entropies(there)
    for mine, yours in zip(alone_and_last(here), alone_and_last(there), strict=True):
        assert mine.tobytes() == yours.tobytes()


@pytest.mark.parametrize("repeats", [1, 3, 7, 1000])
def test_independent_party_adds_exactly_nothing(repeats: int) -> None:
    """Every label with every code equally often: the difference of logarithms rounds to 1e-16, not to 0."""
    label, party, other = np.meshgrid(np.arange(3), np.arange(7), np.arange(2), indexing="ij")
    counts = JointCounts.from_columns(
        label=label.ravel(),
        parties={"independent": party.ravel(), "too": other.ravel()},
        count=np.full(label.size, repeats),
    )
    alone, last = alone_and_last(item_table(counts))
    assert alone.tolist() == [0.0, 0.0]
    assert last.tolist() == [0.0, 0.0]


def test_only_rounding_is_snapped() -> None:
    values = np.array([3e-13, -3e-13, 2e-12, -2e-12, math.log(2)])
    assert snapped(values).tolist() == [0.0, 0.0, 2e-12, -2e-12, math.log(2)]
