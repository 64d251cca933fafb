"""The compiled kernels against plain NumPy twins."""

from __future__ import annotations

import math
from itertools import combinations
from math import factorial

import numpy as np
import pytest

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table
from fedvalue.valuation.walk import block_table as layout
from fedvalue.valuation.walk import regions
from fedvalue.valuation.walk.block_kernels import block_items, block_scratch
from fedvalue.valuation.walk.block_table import BlockTable
from fedvalue.valuation.walk.block_tree import find_roots, sample_tree
from fedvalue.valuation.walk.regions import (
    Region,
    region_items,
    region_table,
    split_region,
    walk_region,
    whole_region,
)
from fedvalue.valuation.walk.tree_kernels import needed_columns
from tests.support.joint_tables import Table, random_table


def block_table(counts: JointCounts) -> BlockTable:
    """The layout without the columns of the parties."""
    return layout.block_table(item_table(counts))[0]


def make_table(seed: int = 0, *, weighted: bool = False) -> BlockTable:
    rng = np.random.default_rng(seed)
    plain = random_table(rng, n_parties=6, n_items=70, n_codes=4, n_labels=3)
    if weighted:
        plain.weight[:] = rng.integers(1, 9, 70).tolist()
    return block_table(plain.counts())


def items_of(table: BlockTable, columns: list[int], witness: int) -> np.ndarray:
    """Twin of `block_items`."""
    same = (table.cells[:, columns] == table.cells[witness, columns]).all(axis=1)
    return np.flatnonzero(same)


def cost(table: BlockTable, items: np.ndarray) -> float:
    """c(B) = ξ(N) − Σ ξ(N_y)."""
    n_y = np.bincount(table.label[items], weights=table.weight[items])
    n_y = n_y[n_y > 0]
    return float(n_y.sum() * np.log(n_y.sum()) - (n_y * np.log(n_y)).sum())


def mask(table: BlockTable, columns: list[int]) -> np.ndarray:
    words = np.zeros(table.n_columns // 64 + 1, dtype=np.uint64)
    for column in columns:
        words[column >> 6] |= np.uint64(1) << np.uint64(column & 63)
    return words


@pytest.mark.parametrize("bitset_share", [1, 3, 256], ids=["lists", "both", "bit sets"])
def test_block_items_are_those_that_agree_with_the_witness(
    bitset_share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "BITSET_SHARE", bitset_share)
    table = make_table()
    rng = np.random.default_rng(1)
    scratch = block_scratch(table)
    for _ in range(200):
        columns = sorted(rng.choice(table.n_columns + 1, rng.integers(1, 4), replace=False).tolist())
        witness = int(rng.integers(table.n_items))
        n = block_items(table, scratch, mask(table, columns), np.uint64(witness))
        assert scratch.items[:n].tolist() == items_of(table, columns, witness).tolist()


def game(table: BlockTable, region: Region) -> np.ndarray:
    """Twin of a walk: what each column explains in a region, by the definition.

    n·φ_d restricted to the coalitions S that have the inside columns and not the outside ones, and to
    the items in the inside cells: Σ_S w(|S|)·[c(S) − c(S ∪ d)], with w(s) = s!(p − s − 1)!/p!.
    """
    p = table.n_columns
    inside = [int(np.searchsorted(table.first_cell, cell, side="right")) - 1 for cell in region.inside]
    items = region_items(table, region)
    gains = np.zeros(p)
    others = [c for c in range(p) if c not in inside and c not in region.outside]
    for size in range(len(others) + 1):
        for chosen in combinations(others, size):
            coalition = [*inside, *chosen]
            s = len(coalition)
            for d in set(range(p)) - set(coalition):
                explained = costs(table, items, coalition) - costs(table, items, [*coalition, d])
                gains[d] += factorial(s) * factorial(p - s - 1) / factorial(p) * explained
    return gains


def costs(table: BlockTable, items: np.ndarray, columns: list[int]) -> float:
    """Σ c(B) over the blocks into which X_t and some columns split some items."""
    cells = table.cells[items][:, [*columns, table.n_columns]]
    blocks = np.unique(cells, axis=0, return_inverse=True)[1].ravel()
    return sum(cost(table, items[blocks == b]) for b in np.unique(blocks))


def regions_of(table: BlockTable, depth: int) -> list[Region]:
    """Split `depth` times, all regions that can be."""
    found = [Region()]
    for _ in range(depth):
        found = [
            smaller
            for region in found
            for local in [region_table(table, region)]
            for smaller in ([region] if local is None else split_region(table, region, local) or [region])
        ]
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_walking_a_region_equals_its_definition(depth: int, n_labels: int, weighted: bool) -> None:
    """Every region apart, with awaited and outside parties, and with the task party's codes."""
    rng = np.random.default_rng(depth)
    plain = random_table(rng, n_parties=5, n_items=40, n_codes=3, n_labels=n_labels)
    weight = rng.integers(1, 9, 40).tolist() if weighted else plain.weight
    counts = Table(plain.parties, plain.label, rng.integers(0, 2, 40).tolist(), weight).counts()
    table = block_table(counts)
    regions = regions_of(table, depth)
    assert len(regions) > depth
    for region in regions:
        local = region_table(table, region)
        found = np.zeros(table.n_columns)
        if local is not None:
            walked = walk_region(local, math.inf)
            assert walked is not None
            found[local.columns] = walked.gains
        np.testing.assert_allclose(found, game(table, region), rtol=0, atol=1e-12)


def test_every_coalition_and_item_is_in_one_region() -> None:
    table = make_table(seed=5)
    regions = regions_of(table, 3)
    for coalition in (set(chosen) for size in range(7) for chosen in combinations(range(6), size)):
        seen = np.zeros(table.n_items, dtype=int)
        for region in regions:
            inside = {int(np.searchsorted(table.first_cell, c, side="right")) - 1 for c in region.inside}
            if inside <= coalition and not coalition & set(region.outside):
                seen[region_items(table, region)] += 1
        # Items that nobody has to explain anything about may be in none.
        pure = [
            len(np.unique(table.label[items_of(table, list(coalition), item)])) == 1
            for item in range(table.n_items)
        ]
        assert seen.max() == 1
        assert ((seen == 1) | pure).all()
    assert len({region.path for region in regions}) == len(regions)


def test_a_party_with_very_many_codes_is_no_pivot() -> None:
    """One region for each of 200 codes would cost more to begin than all blocks to split."""
    rng = np.random.default_rng(9)
    plain = random_table(rng, n_parties=6, n_items=400, n_codes=3, n_labels=2)
    plain.parties[2][:] = rng.integers(0, 200, 400).tolist()
    table = block_table(plain.counts())
    assert len(split_region(table, Region(), whole_region(table))) == 4


def test_a_region_with_too_many_blocks_is_given_up() -> None:
    local = whole_region(make_table())
    whole = walk_region(local, math.inf)
    assert whole is not None
    assert walk_region(local, whole.n_blocks // 2) is None


def test_block_set_keeps_keys_and_masses_while_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that begins with little memory and grows finds what one with enough for all finds."""
    plain = random_table(np.random.default_rng(3), n_parties=9, n_items=300, n_codes=3, n_labels=2)
    local = whole_region(block_table(plain.counts()))
    found = walk_region(local, math.inf)
    assert found is not None
    assert found.n_blocks > 4000  # it began with memory for about a thousand
    monkeypatch.setattr(regions, "FIRST_CAPACITY", 10**5)
    roomy = walk_region(local, math.inf)
    assert roomy is not None
    np.testing.assert_allclose(found.gains, roomy.gains, rtol=1e-14)
    assert found.n_blocks == roomy.n_blocks


def test_needed_columns_are_those_without_which_a_block_grows() -> None:
    table = make_table(seed=6)
    nodes = sample_tree(table, table.n_columns, 10**9, seed=0).nodes
    constant = np.zeros((len(nodes.witness), table.n_columns), dtype=np.bool_)
    needed = np.zeros_like(constant)
    needed_columns(table, block_scratch(table), table.n_columns, nodes, constant, needed)
    assert len(nodes.witness) > 100
    for b, witness in enumerate(nodes.witness):
        made_by = [c for c in range(table.n_columns) if int(nodes.generator[b, 0]) >> c & 1]
        block = items_of(table, made_by, int(witness))
        same = (table.cells[block, :-1] == table.cells[witness, :-1]).all(axis=0)
        assert constant[b].tolist() == same.tolist()
        for c in range(table.n_columns):
            without = [k for k in np.flatnonzero(same).tolist() if k != c]
            assert needed[b, c] == (same[c] and len(items_of(table, without, int(witness))) > len(block))


def test_whole_region_is_the_table_of_the_region_without_limits() -> None:
    """The table leaves out at once what a region's table leaves out: nothing is laid out twice."""
    rng = np.random.default_rng(4)
    plain = random_table(rng, n_parties=4, n_items=60, n_codes=3, n_labels=2)
    plain.parties[1][:] = [0] * 60
    task = rng.integers(0, 3, 60)
    label = np.where(task == 1, 0, np.array(plain.label))
    table = block_table(Table(plain.parties, label.tolist(), task.tolist(), plain.weight).counts())
    local = region_table(table, Region())
    assert local is not None
    assert table.n_columns == 3
    assert table.n_samples == int((task != 1).sum())
    assert len(local.items) == table.n_items
    assert local.columns.tolist() == whole_region(table).columns.tolist()


def test_roots_are_the_blocks_of_the_task_codes() -> None:
    """Keys are sums of hashes, and free columns are those on which the items of a task code differ."""
    rng = np.random.default_rng(14)
    plain = random_table(rng, n_parties=4, n_items=50, n_codes=2, n_labels=2)
    task = rng.integers(0, 9, 50).tolist()
    table = block_table(Table(plain.parties, plain.label, task, plain.weight).counts())
    roots = find_roots(table)
    assert len(roots.key) > 4
    for witness, key, free in zip(roots.nodes.witness.tolist(), roots.key, roots.free, strict=True):
        items = items_of(table, [table.n_columns], witness)
        assert witness == items[0]
        assert key == table.hashes[items].sum()
        assert free.tolist() == [len(set(column)) > 1 for column in table.cells[items, :-1].T.tolist()]
