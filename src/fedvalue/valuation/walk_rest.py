"""The rest of a stopped walk: an unbiased estimate with its standard error.

What a stopped walk lacks is Σ_B q(B)·φ(B) over the blocks B not yet split. Draw a block with
probability q(B)·c(B) / Z, Z = Σ q(B)·c(B), and a random order of the parties; walk the block in this
order. The marginals of the walk, times Z / c(B), have the missing sum as their mean. Each lies
between 0 and Z, since a block cannot lose more than its cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation import sampling_kernel, walk_count_kernel
from fedvalue.valuation.sampling_prefixes import scratch_arrays
from fedvalue.valuation.sampling_table import sampling_table

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.walk_blocks import Blocks
    from fedvalue.valuation.walk_table import BlockTable


def sample_rest(table: BlockTable, blocks: Blocks, n_draws: int, seed: int) -> tuple[Floats, Floats]:
    """Σ q(B)·φ(B) per column, times the number of samples, and its standard error.

    Args:
        table: The table of the walk.
        blocks: What the walk has not split.
        n_draws: Walks to draw, at least 2.
        seed: Of the draws.
    """
    rng = np.random.default_rng(seed)
    costs = _costs(table, blocks)
    weight = blocks.mass * costs
    z = float(weight.sum())
    if z == 0.0:
        return np.zeros(table.n_columns), np.zeros(table.n_columns)
    drawn = np.searchsorted(np.cumsum(weight), rng.random(n_draws) * z, side="right")
    layout = sampling_table(table)
    samples = np.zeros((n_draws, table.n_columns))
    # Columns stand for several parties: an order of the parties, of which only the first of each counts.
    parties = table.column_of
    item, block, *scratch = scratch_arrays(layout)
    words = np.zeros(table.bitsets.shape[1], dtype=np.uint64)
    for k, b in enumerate(np.minimum(drawn, len(blocks) - 1)):
        live = walk_count_kernel.block_items(
            table.cells, table.members, table.members_start, table.bitset_row, table.bitsets,
            blocks.generator[b], blocks.witness[b], words, item,
        )  # fmt: skip
        block[:live] = 0
        order = parties[rng.permutation(len(parties))]
        # One call for all arguments by position: the starred ones hide their number from a type checker.
        sampling_kernel.walk_block(  # type: ignore[call-arg]
            layout.codes, layout.widths, layout.label, layout.weight, layout.add, layout.bits, layout.xi,
            order, costs[b], live, item, block, *scratch, samples[k],
        )  # fmt: skip
        samples[k] *= z / costs[b]
    samples /= table.multiplicity
    return samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(n_draws)


def _costs(table: BlockTable, blocks: Blocks) -> Floats:
    costs: Floats = walk_count_kernel.block_costs(
        table.cells, table.members, table.members_start, table.bitset_row, table.bitsets, table.label,
        table.weight,
        table.xi, blocks.generator, blocks.witness, np.zeros(table.bitsets.shape[1], dtype=np.uint64),
        np.zeros(table.n_items, dtype=np.uint32), np.zeros(int(table.label.max()) + 1, dtype=np.int64),
    )  # fmt: skip
    return costs
