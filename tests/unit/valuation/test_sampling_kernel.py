"""Compiled steps of a permutation walk against NumPy twins."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fedvalue.valuation.permutations import kernel as sampling_kernel
from fedvalue.valuation.permutations import prefixes as sampling_prefixes
from fedvalue.valuation.permutations.refine_kernel import refine
from fedvalue.valuation.permutations.table import SamplingTable, sampling_table
from fedvalue.valuation.walk.table import block_table
from tests.support.joint_tables import random_table


def make(n_labels: int = 3, *, heavy: bool = False) -> SamplingTable:
    rng = np.random.default_rng(n_labels)
    plain = random_table(rng, n_parties=5, n_items=60, n_codes=3, n_labels=n_labels)
    plain.weight[:] = rng.integers(1, 2**40 if heavy else 5, 60).tolist()
    return sampling_table(block_table(plain.counts(), merge_duplicates=False))


def twin(table: SamplingTable, columns: tuple[int, ...]) -> tuple[float, list[int]]:
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
    assert (table.bits == 0) == (n_labels == 40 or heavy)
    item, block, *scratch = sampling_prefixes.scratch_arrays(table)
    item[:], block[:] = np.arange(table.n_items), 0
    live, n_blocks = table.n_items, 1
    arrays = (table.codes, table.widths, table.label, table.weight, table.add, table.bits, table.xi)
    live, n_blocks, _ = refine(*arrays, table.n_parties, item, block, live, n_blocks, *scratch)
    for k in range(table.n_parties):
        live, n_blocks, cost = refine(*arrays, k, item, block, live, n_blocks, *scratch)
        expected, items = twin(table, tuple(range(k + 1)))
        assert cost == pytest.approx(expected, rel=1e-12, abs=1e-9)
        assert sorted(item[:live].tolist()) == items


def test_hashed_keys_equal_direct_ones() -> None:
    """A table of block numbers that is too small makes the step hash its keys: same result."""
    table = make()
    item, block, scratch, keys, words, sums = sampling_prefixes.scratch_arrays(table)
    arrays = (table.codes, table.widths, table.label, table.weight, table.add, table.bits, table.xi)
    results = []
    for room in (scratch, np.zeros((3, 128), dtype=np.int32)):
        item[:], block[:] = np.arange(table.n_items), np.arange(table.n_items)
        found = refine(*arrays, 0, item, block, table.n_items, table.n_items, room, keys, words, sums)
        results.append(found)
        assert not room[0].any()
    assert results[0] == results[1]


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_prefix_costs_are_those_of_every_short_coalition(depth: int) -> None:
    table = make()
    prefixes = sampling_prefixes.build(table, depth)
    for size in range(depth + 1):
        # Colexicographic: the largest member decides first.
        ranked = sorted(combinations(range(table.n_parties), size), key=lambda s: tuple(reversed(s)))
        for rank, members in enumerate(ranked):
            cost = prefixes.costs[prefixes.cost_start[size] + rank]
            assert cost == pytest.approx(twin(table, members)[0], rel=1e-12, abs=1e-9)
            if size == depth:
                live = prefixes.item[prefixes.start[rank] : prefixes.start[rank + 1]]
                assert sorted(live.tolist()) == twin(table, members)[1]


def test_depth_does_not_change_the_walks() -> None:
    """The same orders give the same marginals from any starting depth, up to rounding."""
    table = make()
    results = []
    for depth in (1, 3):
        start = sampling_prefixes.build(table, depth)
        found = sampling_kernel.walk_pairs(
            table.codes, table.widths, table.label, table.weight, table.add, table.bits, table.xi,
            start.whole, depth, start.binomial, start.costs, start.cost_start, start.item, start.block,
            start.start,
            start.n_blocks, 50, np.uint64(7), *sampling_prefixes.scratch_arrays(table),
        )  # fmt: skip
        results.append(found)
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-11)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-8)


def test_orders_are_uniform() -> None:
    """24 orders of four, 48,000 draws: chi-square of 23 degrees of freedom below its 1e-6 quantile, 72."""
    state = np.array([5], dtype=np.uint64)
    order = np.arange(4)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(48_000):
        sampling_kernel.shuffle(order, state)
        key = tuple(order.tolist())
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 24
    assert sum((count - 2000) ** 2 / 2000 for count in seen.values()) < 72


def test_depth_is_deep_for_few_parties_and_shallow_for_many() -> None:
    assert sampling_prefixes.choose_depth(142, 13, 5000) == 4
    assert sampling_prefixes.choose_depth(451, 30, 5000) == 2
    assert sampling_prefixes.choose_depth(1000, 300, 5000) == 1
    assert sampling_prefixes.choose_depth(10, 1, 5000) == 1
