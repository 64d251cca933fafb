"""Regions: how the walk of a large table falls into walks of small ones.

A region are the coalitions that contain all columns of `inside` and none of `outside`, looked at where
the inside columns have certain codes. Its items agree on the inside columns, the other columns are walked.
Splitting a region by a *pivot* column gives one region where the pivot is outside and one per code
where it is inside. Each coalition and each of its blocks lies in exactly one of them, so that regions
are walked apart from each other, by whoever is free, and none needs more memory than its own blocks.

What it costs. A block that is constant on the pivot is visited in two regions when a coalition without the
pivot makes it too, else in one. So the pivot should be a column whose codes the others do not give away:
for the tables that we know, ten pivots make less than a twentieth more visits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.walk import tree_kernel
from fedvalue.valuation.walk.table import BITSET_SHARE, restrict
from fedvalue.valuation.walk.tree import sample_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.valuation.walk.table import BlockTable
    from fedvalue.valuation.walk.tree import TreeSample

# Blocks that a region may have: few enough for their table to stay near the core, many enough to make the
# choice of regions a small part of the work.
REGION_BLOCKS = 200_000
# What it takes to begin a region, in blocks: a pivot with many codes makes many of them.
BLOCKS_PER_REGION = 500
# Nodes per depth of the sample that chooses a pivot.
KEEP = 120


@dataclass(frozen=True, slots=True)
class Region:
    """Coalitions with some columns and without some others, in certain cells of the former.

    Args:
        inside: The cells in which all items of the region lie, one of each inside column.
        outside: Columns that no coalition of the region has.
        n_blocks: Expected number of blocks, 0 where not known.
        path: Where it came from: results are added in the order of the paths.
    """

    inside: tuple[int, ...] = ()
    outside: tuple[int, ...] = ()
    n_blocks: float = 0.0
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """The table of a region: its items, the columns it walks and, after them, those that it only watches.

    Args:
        table: Columns that are constant in the region are left out; `column_of` names the others.
        n_walked: Number of columns that are walked. The others are outside the region: a coalition
            with them belongs to another, but what they explain of the region's blocks is theirs.
        awaited: Number of inside columns.
        exits: Number of outside columns, constant or not.
        items: Its items in the whole table.
    """

    table: BlockTable
    n_walked: int
    awaited: int
    exits: int
    items: NDArray[np.int64]


def region_items(table: BlockTable, region: Region) -> NDArray[np.int64]:
    """The items in all inside cells, rising."""
    inside = np.ones(table.n_items, dtype=np.bool_)
    columns = np.searchsorted(table.first_cell, region.inside, side="right") - 1
    for column, cell in zip(columns, region.inside, strict=True):
        inside &= table.cells[:, column] == cell
    return np.flatnonzero(inside)


def region_table(table: BlockTable, region: Region, bitset_share: int = BITSET_SHARE) -> RegionTable | None:
    """The table of a region, or None when nothing in it can be explained by anyone."""
    items = region_items(table, region)
    task = table.cells[items, -1]
    # Items are sorted by label: a task code whose first and last label agree is pure, and left out.
    first, last = np.zeros((2, int(table.first_cell[-1])), dtype=np.int64)
    first[task[::-1]], last[task] = table.label[items[::-1]], table.label[items]
    items = items[(first != last)[task]]
    codes = table.cells[items, :-1]
    free = np.flatnonzero((codes != codes[:1]).any(axis=0)).tolist()
    if not free:
        return None
    walked = [c for c in free if c not in region.outside]
    watched = [c for c in free if c in region.outside]
    local = restrict(table, items, walked + watched, bitset_share)
    return RegionTable(local, len(walked), len(region.inside), len(region.outside), items)


def split_region(table: BlockTable, region: Region, local: RegionTable, seed: int = 0) -> list[Region]:
    """Split a region by the best pivot; no regions when it has none.

    The pivot is the column that leaves a random block of the region in the smallest region, as a sample of
    its blocks tells, without making too many regions. Columns that stand for several parties are no
    pivots: they may come more than once.
    """
    candidates = np.flatnonzero(local.table.multiplicity[: local.n_walked] == 1)
    if len(candidates) == 0:
        return []
    sample = sample_tree(local.table, local.n_walked, KEEP, np.random.default_rng(seed))
    constant, needed = _needed(local, sample)
    weight = sample.nodes.weight / sample.nodes.weight.sum()
    cells = local.table.cells[sample.nodes.witness]
    best: tuple[float, int, list[float]] | None = None
    for c in candidates.tolist():
        low, high = local.table.first_cell[c : c + 2]
        code = cells[:, c].astype(np.int64) - low
        inside = np.bincount(code, weights=weight * constant[:, c], minlength=high - low)
        shares = [float(weight @ ~(constant[:, c] & needed[:, c])), *inside.tolist()]
        score = float(np.square(shares).sum()) + BLOCKS_PER_REGION * len(shares) / sample.n_blocks
        if best is None or score < best[0]:
            best = (score, c, shares)
    assert best is not None
    pivot, shares = int(local.table.column_of[best[1]]), best[2]
    # Codes of the pivot on which nothing is to be explained have no cell in the region's table.
    cells_inside = np.unique(table.cells[local.items, pivot]).tolist()
    n_blocks = max(sample.n_blocks, region.n_blocks)
    return [
        replace(
            region,
            outside=(*region.outside, pivot),
            n_blocks=shares[0] * n_blocks,
            path=(*region.path, 0),
        ),
        *(
            replace(
                region,
                inside=(*region.inside, cell),
                n_blocks=share * n_blocks,
                path=(*region.path, k),
            )
            for k, (cell, share) in enumerate(zip(cells_inside, shares[1:], strict=True), start=1)
        ),
    ]


def _needed(local: RegionTable, sample: TreeSample) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    table, nodes = local.table, sample.nodes
    constant = np.zeros((len(nodes.witness), local.n_walked), dtype=np.bool_)
    needed = np.zeros_like(constant)
    tree_kernel.needed_columns(
        table.cells, table.members, table.members_start, table.bitset_row, table.bitsets, local.n_walked,
        nodes.generator, nodes.witness, np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.n_items, dtype=np.uint32), constant, needed,
    )  # fmt: skip
    return constant, needed
