"""Regions: the parts into which the walk of a large table is split, and the walk of one.

- A region is the set of coalitions that contain all columns of `inside` and none of `outside`, restricted to
  the items on which the inside columns have certain codes. Its items agree on the inside columns; the other
  columns are walked.
- Splitting a region by a *pivot* column gives one region where the pivot is outside and one per code where it
  is inside. Each coalition and each of its blocks lies in exactly one of them, so regions are walked
  independently, by any worker, and none needs more memory than its own blocks take.
- A block that is constant on the pivot is visited in two regions when a coalition without the pivot makes it
  too. So the pivot should be a column whose codes the other columns do not determine: for the tables that we
  know, ten pivots add less than a twentieth to the visits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.valuation.items import splittable_items
from fedvalue.valuation.walk import walk_kernels as kernels
from fedvalue.valuation.walk.block_kernels import block_scratch
from fedvalue.valuation.walk.block_table import BlockTable, restrict
from fedvalue.valuation.walk.block_tree import find_roots, sample_tree
from fedvalue.valuation.walk.tree_kernels import needed_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.walk.block_tree import Roots, TreeSample
    from fedvalue.valuation.walk.walk_kernels import BlockSet

REGION_BLOCKS = 200_000
"""Blocks that a region may have: few enough for their hash table to stay in the cache, many enough to make
the choice of regions a small part of the work."""

BLOCKS_PER_REGION = 500
"""Cost of starting a region, in blocks: a pivot with many codes makes many of them."""

PIVOT_SEED = 3
"""Seed of the sample that chooses a pivot. Any would do; this one splits Spect and Breast well."""

KEEP = 120
"""Nodes per depth of the sample that chooses a pivot."""


@dataclass(frozen=True, slots=True)
class Region:
    """Coalitions with some columns and without some others, in certain cells of the former.

    Args:
        inside: The cells in which all items of the region lie, one of each inside column.
        outside: Columns that no coalition of the region has.
        n_blocks: Expected number of blocks, 0 where not known.
        path: How it was split off: results are added in the order of the paths.
    """

    inside: tuple[int, ...] = ()
    outside: tuple[int, ...] = ()
    n_blocks: float = 0.0
    path: tuple[int, ...] = ()


class RegionTable(NamedTuple):
    """The table of a region: its items, the walked columns and, after them, those that are only watched.

    Args:
        table: Its items and its columns; those that are constant in the region are left out.
        n_walked: Number of columns that are walked. The others are outside the region: a coalition
            with them belongs to another region, but their gains in this region's blocks count.
        awaited: Number of inside columns.
        exits: Number of outside columns, constant or not.
        columns: Each column's number in the whole table.
        items: Each item's number in the whole table.
    """

    table: BlockTable
    n_walked: int
    awaited: int
    exits: int
    columns: NDArray[np.int64]
    items: NDArray[np.int64]


def whole_region(table: BlockTable) -> RegionTable:
    """The region of all coalitions."""
    p = table.n_columns
    return RegionTable(table, p, 0, 0, np.arange(p), np.arange(table.n_items))


def region_items(table: BlockTable, region: Region) -> NDArray[np.int64]:
    """The items in all inside cells, rising."""
    inside = np.ones(table.n_items, dtype=np.bool_)
    columns = np.searchsorted(table.first_cell, region.inside, side="right") - 1
    for column, cell in zip(columns, region.inside, strict=True):
        inside &= table.cells[:, column] == cell
    return np.flatnonzero(inside)


def region_table(table: BlockTable, region: Region) -> RegionTable | None:
    """The table of a region, or None when no party can explain anything in it."""
    items = region_items(table, region)
    items = items[splittable_items(table.cells[items, -1], table.label[items])]
    codes = table.cells[items, :-1]
    free = np.flatnonzero((codes != codes[:1]).any(axis=0)).tolist()
    if not free:
        return None
    walked = [c for c in free if c not in region.outside]
    watched = [c for c in free if c in region.outside]
    return RegionTable(
        table=restrict(table, items, walked + watched),
        n_walked=len(walked),
        awaited=len(region.inside),
        exits=len(region.outside),
        columns=np.array(walked + watched, dtype=np.int64),
        items=items,
    )


def split_region(table: BlockTable, region: Region, local: RegionTable) -> list[Region]:
    """Split a region by the best pivot; no regions when it has none.

    The pivot is the column that leaves a random block of the region in the smallest region, judging by a
    sample of its blocks, without making too many regions. Columns that stand for several parties are no
    pivots: they may come more than once.
    """
    candidates = np.flatnonzero(local.table.multiplicity[: local.n_walked] == 1)
    if len(candidates) == 0:
        return []
    sample = sample_tree(local.table, local.n_walked, KEEP, seed=PIVOT_SEED)
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
    pivot, shares = int(local.columns[best[1]]), best[2]
    n_blocks = max(sample.n_blocks, region.n_blocks)
    outside = replace(region, outside=(*region.outside, pivot), n_blocks=shares[0] * n_blocks)
    smaller = [replace(outside, path=(*region.path, 0))]
    # Codes of the pivot on which nothing is to be explained have no cell in the region's table.
    for k, cell in enumerate(np.unique(table.cells[local.items, pivot]).tolist(), start=1):
        inside_region = replace(region, inside=(*region.inside, cell), n_blocks=shares[k] * n_blocks)
        smaller.append(replace(inside_region, path=(*region.path, k)))
    return smaller


def _needed(local: RegionTable, sample: TreeSample) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    constant = np.zeros((len(sample.nodes.witness), local.n_walked), dtype=np.bool_)
    needed = np.zeros_like(constant)
    needed_columns(local.table, block_scratch(local.table), local.n_walked, sample.nodes, constant, needed)
    return constant, needed


FIRST_CAPACITY = 1000
"""Blocks, besides the roots and the parts of one block, for which a walk allocates memory at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """A region after its walk.

    Args:
        gains: Gain of each column of the region's table, times the number of samples.
        n_blocks: Blocks that were split.
        work: Items times free columns, summed over these blocks.
    """

    gains: Floats
    n_blocks: int
    work: int


def walk_region(region: RegionTable, most_blocks: float) -> Walked | None:
    """Split every block of a region by every column; None when it has more than `most_blocks`."""
    scratch = block_scratch(region.table)
    roots = find_roots(region.table)
    n_roots = len(roots.key)
    blocks = _empty(region, len(scratch.part_key) + n_roots + int(min(most_blocks, FIRST_CAPACITY)))
    _enter(roots, region.n_walked, blocks)
    while not kernels.walk_blocks(region, scratch, blocks):
        if blocks.counters[kernels.COUNT] >= most_blocks:
            return None
        blocks = _enlarged(blocks)
    return Walked(blocks.gains, int(blocks.counters[kernels.DONE]), int(blocks.counters[kernels.WORK]))


def _empty(region: RegionTable, capacity: int) -> BlockSet:
    p, stride = region.table.n_columns, region.awaited + 2
    # At most 0.6 full.
    slots = np.zeros((1 << int(capacity * 5 // 3).bit_length()) * stride, dtype=np.uint64)
    return kernels.BlockSet(
        slots=slots,
        masses=slots.view(np.float64),
        entries=np.empty((capacity, kernels.GENERATOR + p // 64 + 1), dtype=np.uint64),
        heads=np.zeros(region.n_walked + 1, dtype=np.int64),
        counters=np.zeros(4, dtype=np.int64),
        gains=np.zeros(p),
        carry=np.zeros(p),
        shares=np.zeros(region.awaited + 1),
    )


def _enter(roots: Roots, n_walked: int, blocks: BlockSet) -> None:
    """Enter the roots with mass 1 for the case that no party has arrived yet.

    They are spread over the slots: their keys are never looked up, since no part is a whole root.
    """
    n_roots, stride = len(roots.key), len(blocks.shares) + 1
    if n_roots == 0:
        return
    at = np.arange(n_roots) * (len(blocks.slots) // stride // n_roots) * stride
    blocks.slots[at] = roots.key
    blocks.masses[at + 1] = 1.0
    entries = blocks.entries[:n_roots]
    entries[:, kernels.WITNESS] = roots.nodes.witness
    entries[:, kernels.SLOT] = at
    entries[:, kernels.GENERATOR :] = roots.nodes.generator
    rank = n_walked - roots.free[:, :n_walked].sum(axis=1)
    for r in np.unique(rank):
        chain = np.flatnonzero(rank == r) + 1
        entries[chain - 1, kernels.NEXT] = np.concatenate([[0], chain[:-1]])
        blocks.heads[r] = chain[-1]
    blocks.counters[kernels.COUNT] = n_roots


def _enlarged(blocks: BlockSet) -> BlockSet:
    """The same blocks, with twice the capacity."""
    count, stride = int(blocks.counters[kernels.COUNT]), len(blocks.shares) + 1
    entries = np.empty((2 * len(blocks.entries), blocks.entries.shape[1]), dtype=np.uint64)
    entries[:count] = blocks.entries[:count]
    slots = np.zeros((1 << int(len(entries) * 5 // 3).bit_length()) * stride, dtype=np.uint64)
    kernels.rehash(blocks.slots, entries, count, stride, slots)
    return blocks._replace(slots=slots, masses=slots.view(np.float64), entries=entries)
