"""Compile every kernel of a valuation ahead of time, by using each of them once.

Kernels are compiled on first use and kept on disk. Small tables use none of them, so a machine may meet its
first large table with an empty cache, unless an operator or an image builder has run this.
"""

from __future__ import annotations

import numpy as np

from fedvalue.information.cells import CellCounter
from fedvalue.information.contingency import JointCounts
from fedvalue.typing import Progress
from fedvalue.valuation.items import item_table


def compile_kernels(progress: Progress | None = None) -> None:
    """Use every kernel of exact and sampled values, statistics, pooled evidence and counting once.

    Args:
        progress: Called before each of the three parts.
    """
    parts = (
        ("exact and sampled values", _shapley_cmi_kernels),
        ("pooled evidence", _evidence_kernels),
        ("counting", _counting_kernels),
    )
    for done, (name, compile_part) in enumerate(parts):
        if progress is not None:
            progress(float(done), float(len(parts)), name)
        compile_part()


def _shapley_cmi_kernels() -> None:
    from fedvalue.valuation.cubes.cube_sum import CubeSum
    from fedvalue.valuation.permutations.sampling import walk_chunk
    from fedvalue.valuation.statistics.influence import exact_influence, sampled_influence
    from fedvalue.valuation.statistics.joint_table_game import joint_table_game, subtree_entropies
    from fedvalue.valuation.walk.exact import ExactWalk

    rows = np.arange(40)
    label = rows % 3
    # Too many parties for a table of all coalitions, and enough blocks for more than one region.
    parties = {f"p{k}": (rows * (k + 2) // 7 + label * (k % 2)) % 4 for k in range(21)}
    items = item_table(JointCounts.from_columns(label=label, parties=parties, task=rows // 20))
    ExactWalk(items, region_blocks=200).run()
    if (cubes := CubeSum.of(items)) is not None:
        cubes.run()
    walk_chunk(items, 2, "compilation", 0, 4, 0, 0)
    exact_influence(items, budget=10**9)
    sampled_influence(items, 8, 0)
    joint_table_game(items, budget=10**5)
    subtree_entropies(items, 2)


def _evidence_kernels() -> None:
    from fedvalue.valuation.evidence.evidence_values import evidence_values
    from fedvalue.valuation.evidence.feature_table import FeatureTable

    # Enough rows and columns that compiled code pays, in the search for pairs and in the fits.
    n_rows, n_parties, n_columns = 32_000, 3, 16
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (n_parties, n_columns, n_rows))
    label = (codes[:, 0].sum(axis=0) + rng.integers(0, 4, n_rows)) // 4
    table = FeatureTable.from_columns(
        label=label, parties={f"p{k}": list(codes[k]) for k in range(n_parties)}
    )
    evidence_values(table)


def _counting_kernels() -> None:
    CellCounter(n_words=1).add(np.arange(100).reshape(-1, 1) % 7)
