"""The compiled kernels against plain NumPy twins."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation import walk_count_kernel
from fedvalue.valuation.walk_blocks import Blocks, BlockSet, split
from fedvalue.valuation.walk_levels import Levels, cut, root_blocks
from fedvalue.valuation.walk_table import BlockTable, block_table
from tests.support.joint_tables import random_table


def make_table(seed: int = 0, *, bitset_share: int = 256, weighted: bool = False) -> BlockTable:
    rng = np.random.default_rng(seed)
    plain = random_table(rng, n_parties=6, n_items=70, n_codes=4, n_labels=3)
    if weighted:
        plain.weight[:] = rng.integers(1, 9, 70).tolist()
    return block_table(plain.counts(), bitset_share=bitset_share)


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
def test_block_items_are_those_that_agree_with_the_witness(bitset_share: int) -> None:
    table = make_table(bitset_share=bitset_share)
    rng = np.random.default_rng(1)
    room, words = np.zeros(table.n_items, np.uint32), np.zeros(table.bitsets.shape[1], np.uint64)
    for _ in range(200):
        columns = sorted(rng.choice(table.n_columns + 1, rng.integers(1, 4), replace=False).tolist())
        witness = int(rng.integers(table.n_items))
        n = walk_count_kernel.block_items(
            table.cells, table.members, table.members_start, table.bitset_row, table.bitsets,
            mask(table, columns), witness, words, room,
        )  # fmt: skip
        assert room[:n].tolist() == items_of(table, columns, witness).tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_splitting_one_block_equals_its_numpy_twin(weighted: bool) -> None:
    """Gains of every column, and key, mass, size and rank of every impure part that can be split further."""
    table = make_table(seed=4, weighted=weighted)
    roots = root_blocks(table)
    result = split(table, roots)
    everyone = np.arange(table.n_items)
    p = table.n_columns
    expected: dict[int, tuple[float, int, int]] = {}
    for d in range(p):
        gain = cost(table, everyone)
        for cell in np.unique(table.cells[:, d]):
            part = np.flatnonzero(table.cells[:, d] == cell)
            gain -= cost(table, part)
            constant = int((table.cells[part, :p] == table.cells[part[0], :p]).all(axis=0).sum())
            if cost(table, part) > 0 and constant < p:
                key = int(table.hashes[part].sum())
                mass = expected.get(key, (0.0, 0, 0))[0] + 1 / p
                expected[key] = (mass, len(part), constant)
        assert np.isclose(result.gains[d], gain / p, rtol=1e-12)
    parts = result.parts
    found = {
        int(parts.key[k]): (float(parts.mass[k]), int(parts.size[k]), int(parts.rank[k]))
        for k in range(len(parts))
    }
    assert found.keys() == expected.keys()
    for key, (mass, size, rank) in expected.items():
        assert found[key][1:] == (size, rank)
        assert np.isclose(found[key][0], mass, rtol=1e-14)
    assert parts.rank.tolist() == sorted(parts.rank.tolist())


def some_blocks(rng: np.random.Generator, n: int, n_keys: int) -> Blocks:
    key = rng.integers(1, n_keys + 1, n).astype(np.uint64)
    return Blocks(
        key=key,
        mass=rng.random(n),
        generator=key[:, None].copy(),
        witness=key.astype(np.uint32),
        size=key.astype(np.int32),
        rank=np.zeros(n, dtype=np.int16),
    )


def test_block_set_adds_masses_by_key_while_it_grows() -> None:
    """Thousands of blocks over a few hundred keys into a set that starts with room for four."""
    rng = np.random.default_rng(0)
    found = BlockSet(1, room=4)
    expected: dict[int, float] = {}
    for _ in range(30):
        blocks = some_blocks(rng, 200, 500)
        found.add(blocks)
        for key, mass in zip(blocks.key.tolist(), blocks.mass.tolist(), strict=True):
            expected[key] = expected.get(key, 0.0) + mass
    blocks = found.blocks()
    assert len(blocks) == len(expected)
    assert dict(zip(blocks.key.tolist(), blocks.mass.tolist(), strict=True)) == pytest.approx(
        expected, rel=1e-12
    )
    assert (blocks.generator[:, 0] == blocks.key).all()
    assert (blocks.witness == blocks.key).all()
    assert found.n_bytes > 0


def test_chunks_cover_a_level_in_order_and_depend_on_the_blocks_alone() -> None:
    rng = np.random.default_rng(0)
    blocks = some_blocks(rng, 100, 50)
    chunks = list(cut(blocks, 7, 300))
    assert len(chunks) > 10
    assert np.concatenate([chunk.mass for chunk in chunks]).tolist() == blocks.mass.tolist()
    assert [len(chunk) for chunk in chunks] == [len(chunk) for chunk in cut(blocks, 7, 300)]
    assert [len(chunk) for chunk in cut(blocks, 7, 10**9)] == [100]


def test_levels_hand_out_blocks_by_rank_and_know_what_waits() -> None:
    table = make_table(seed=2)
    levels = Levels(table.n_columns, 1)
    result = split(table, root_blocks(table))
    levels.add(result.parts)
    waiting = float((result.parts.size.astype(float) * (table.n_columns - result.parts.rank)).sum())
    assert levels.waiting_work() == waiting
    rest = levels.rest()
    assert rest is not None
    assert sorted(rest.key.tolist()) == sorted(result.parts.key.tolist())
    taken = [levels.take(rank) for rank in range(table.n_columns)]
    assert sum(len(blocks) for blocks in taken if blocks is not None) == len(result.parts)
    assert levels.rest() is None
    assert all((blocks.rank == rank).all() for rank, blocks in enumerate(taken) if blocks is not None)
