"""Compiled steps of a permutation walk against NumPy twins."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fedvalue.valuation.frozen_random import random_orders
from fedvalue.valuation.items import ItemTable, item_table
from fedvalue.valuation.permutations.permutation_kernels import refine_live, walk_pairs
from fedvalue.valuation.permutations.prefixes import build_prefixes, choose_depth, permutation_scratch
from tests.support.joint_tables import random_table


def make(n_labels: int = 3, *, heavy: bool = False) -> ItemTable:
    rng = np.random.default_rng(n_labels)
    plain = random_table(rng, n_parties=5, n_items=60, n_codes=3, n_labels=n_labels)
    plain.weight[:] = rng.integers(1, 2**40 if heavy else 5, 60).tolist()
    return item_table(plain.counts())


def twin(table: ItemTable, columns: tuple[int, ...]) -> tuple[float, list[int]]:
    """Σ c over the blocks of these columns and the task, and the items of impure blocks."""
    rows = table.codes[[*columns, table.n_parties]].T
    block = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    cost, live = 0.0, []
    for b in np.unique(block):
        items = np.flatnonzero(block == b)
        n_y = np.bincount(table.label[items], weights=table.weight[items])
        n_y = n_y[n_y > 0]
        if len(n_y) > 1:
            cost += float(n_y.sum() * np.log(n_y.sum()) - (n_y * np.log(n_y)).sum())
            live += items.tolist()
    return cost, sorted(live)


@pytest.mark.parametrize(("n_labels", "heavy"), [(3, False), (40, False), (3, True)])
def test_refining_step_by_step_equals_grouping_at_once(n_labels: int, heavy: bool) -> None:
    """Packed labels, too many labels for a word, and counts too wide for a word."""
    table = make(n_labels, heavy=heavy)
    assert (table.field_bits == 0) == (n_labels == 40 or heavy)
    scratch = permutation_scratch(table)
    item, block = scratch.item, scratch.block
    item[:], block[:] = np.arange(table.n_items), 0
    live, n_blocks, _ = refine_live(table, scratch, table.n_parties, item, block, table.n_items, 1)
    for k in range(table.n_parties):
        live, n_blocks, cost = refine_live(table, scratch, k, item, block, live, n_blocks)
        expected, items = twin(table, tuple(range(k + 1)))
        assert cost == pytest.approx(expected, rel=1e-12, abs=1e-9)
        assert sorted(item[:live].tolist()) == items


def test_hashed_keys_equal_direct_ones() -> None:
    """A table of block numbers that is too small makes the step hash its keys: same result."""
    table = make()
    roomy = permutation_scratch(table)
    results = []
    for scratch in (roomy, roomy._replace(ids=np.zeros(128, dtype=np.int32))):
        scratch.item[:], scratch.block[:] = np.arange(table.n_items), np.arange(table.n_items)
        results.append(
            refine_live(table, scratch, 0, scratch.item, scratch.block, table.n_items, table.n_items)
        )
        assert not scratch.ids.any()
    assert results[0] == results[1]


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_prefix_costs_are_those_of_every_short_coalition(depth: int) -> None:
    table = make()
    prefixes = build_prefixes(table, depth)
    for size in range(depth + 1):
        # Colexicographic: the largest member decides first.
        ranked = sorted(combinations(range(table.n_parties), size), key=lambda s: tuple(reversed(s)))
        for rank, members in enumerate(ranked):
            cost = prefixes.costs[prefixes.cost_start[size] + rank]
            assert cost == pytest.approx(twin(table, members)[0], rel=1e-12, abs=1e-9)
            if size == depth:
                live = prefixes.item[prefixes.start[rank] : prefixes.start[rank + 1]]
                assert sorted(live.tolist()) == twin(table, members)[1]


@pytest.mark.parametrize("depth", [1, 3])
def test_walks_give_the_mean_marginals_of_an_order_and_its_reverse(depth: int) -> None:
    """Whatever the depth of the prefixes."""
    table = make()
    orders = random_orders(20, table.n_parties, seed=7)
    marginals = np.zeros(orders.shape)
    walk_pairs(table, build_prefixes(table, depth), permutation_scratch(table), orders, marginals)
    for order, row in zip(orders.tolist(), marginals, strict=True):
        expected = np.zeros(table.n_parties)
        for along in (order, order[::-1]):
            costs = [twin(table, tuple(along[:k]))[0] for k in range(len(along) + 1)]
            expected[along] -= np.diff(costs) / 2
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-11)


def test_depth_is_deep_for_few_parties_and_shallow_for_many() -> None:
    assert choose_depth(142, 13, 5000) == 4
    assert choose_depth(451, 30, 5000) == 2
    assert choose_depth(1000, 300, 5000) == 1
    assert choose_depth(10, 1, 5000) == 1
