"""The compiled kernels of the cube against plain NumPy twins."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.compiled import njit
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.cubes.coalition_kernels import count_path
from fedvalue.valuation.cubes.cube_kernels import CLOSED, PAIRS, ROWS, SMALL, SPLIT, agreement, superset_sums
from fedvalue.valuation.cubes.cube_table import SMALL_BLOCK, CubeTable, cube_scratch, cube_table
from fedvalue.valuation.items import item_table
from tests.support.joint_tables import random_table


def laid_out(counts: JointCounts) -> CubeTable:
    found = cube_table(item_table(counts))
    assert found is not None
    return found[0]


@njit
def all_agreements(rows, lane_bits):  # type: ignore[no-untyped-def]
    n = len(rows)
    found = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        for j in range(n):
            found[i, j] = agreement(rows, i, j, lane_bits)
    return found


@pytest.mark.parametrize(("n_codes", "lane_bits"), [(3, 8), (256, 8), (257, 16), (65_536, 16), (65_537, 32)])
def test_agreement_names_the_columns_on_which_two_items_agree(n_codes: int, lane_bits: int) -> None:
    """Codes that differ in one bit, by one, and by the top bit of their lane, among random ones."""
    rng = np.random.default_rng(n_codes)
    codes = rng.integers(0, n_codes, (11, 60))
    codes[:, 30:] = np.where(rng.random((11, 30)) < 0.6, codes[:, :30], codes[:, 30:])
    codes[0, :4] = [0, 1, n_codes - 1, n_codes // 2]
    table = laid_out(
        JointCounts.from_columns(
            label=np.arange(n_codes + 60) % 2,
            parties={
                f"p{d}": np.concatenate([row, np.arange(n_codes) if d == 0 else np.zeros(n_codes, dtype=int)])
                for d, row in enumerate(codes)
            },
        )
    )
    assert table.lane_bits == lane_bits
    few = table._replace(rows=table.rows[:80], codes=table.codes[:, :80])
    same = few.codes[:, :, None] == few.codes[:, None, :]
    expected = (same * (1 << np.arange(few.n_columns))[:, None, None]).sum(axis=0)
    found = all_agreements(few.rows, lane_bits) & ((1 << few.n_columns) - 1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("length", [1, 16])
def test_superset_sums_add_every_superset(length: int) -> None:
    cells = np.random.default_rng(0).integers(0, 100, (32, length)).astype(np.float64)
    expected = [
        sum(cells[other] for other in range(32) if other & coalition == coalition) for coalition in range(32)
    ]
    found = cells.reshape(-1).copy()
    superset_sums(found, 5, length)
    np.testing.assert_array_equal(found.reshape(32, length), expected)


def blocks_of(table: CubeTable, columns: list[int], items: np.ndarray) -> list[np.ndarray]:
    """Items with equal codes in these columns, of several labels."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for item in items:
        groups.setdefault(tuple(table.codes[columns, item]), []).append(item)
    return [np.array(group) for group in groups.values() if len(set(table.label[group])) > 1]


@pytest.mark.parametrize("path", [0b00, 0b01, 0b10, 0b11])
def test_the_work_on_a_path_is_counted(path: int) -> None:
    """Two decided columns: what is split and closed on the way, and what waits at the leaf."""
    counts = random_table(np.random.default_rng(1), n_parties=10, n_items=80, n_codes=3, n_labels=2).counts()
    table = laid_out(counts)
    k = table.n_cube
    blocks, split, closed = [np.arange(table.n_items)], 0.0, 0.0
    for column, sharing in ((k + 1, 2), (k, 1)):
        if path >> (column - k) & 1:
            split += sum(map(len, blocks)) / sharing
            parts = [part for block in blocks for part in blocks_of(table, [column], block)]
            closed += sum(len(part) <= SMALL_BLOCK for part in parts) / sharing
            blocks = [part for part in parts if len(part) > SMALL_BLOCK]
    small = rows = pairs = 0
    for block in blocks:
        major = np.bincount(table.label[block]).argmax()
        merged: dict[tuple[int, ...], bool] = {}
        for item in block:
            key = tuple(table.codes[:k, item])
            merged[key] = merged.get(key, False) or table.label[item] != major
        if len(merged) <= SMALL_BLOCK:
            small += 1
        else:
            rows += sum(merged.values())
            pairs += sum(merged.values()) * len(merged)
    totals = np.zeros(5)
    count_path(table, cube_scratch(table), path << k, totals)
    expected = {SMALL: small, CLOSED: closed, ROWS: rows, PAIRS: pairs, SPLIT: split}
    assert dict(enumerate(totals.tolist())) == expected
