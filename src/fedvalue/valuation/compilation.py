"""Compile every kernel of the walks ahead of time, by valuing a table of forty rows.

Kernels are compiled on first use and kept on disk. Small tables use none of them, so a machine may meet its
first large table with an empty cache; an operator or an image builder runs this before.
"""

from __future__ import annotations

import numpy as np

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table


def compile_kernels() -> None:
    """Use every kernel of walk, permutations and statistics once."""
    from fedvalue.valuation.permutations.sampling import walk_chunk
    from fedvalue.valuation.statistics.influence import exact_influence, sampled_influence
    from fedvalue.valuation.statistics.joint_table_game import joint_table_game
    from fedvalue.valuation.walk.exact import WalkOptions, exact_values

    rows = np.arange(40)
    label = rows % 3
    # Too many parties for a table of all coalitions, and enough blocks for more than one region.
    parties = {f"p{k}": (rows * (k + 2) // 7 + label * (k % 2)) % 4 for k in range(21)}
    items = item_table(JointCounts.from_columns(label=label, parties=parties, task=rows // 20))
    exact_values(items, options=WalkOptions(region_blocks=200))
    walk_chunk(items, 2, "compilation", 4, 0, 0)
    exact_influence(items, budget=10**9)
    sampled_influence(items, 8, 0)
    joint_table_game(items, budget=10**5)
