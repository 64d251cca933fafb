"""Compiling ahead leaves nothing to compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

AHEAD = "from fedvalue.valuation.compilation import compile_kernels; compile_kernels()"

LATER = """
import sys
import numpy as np
from tests.support.joint_tables import random_table
from fedvalue.valuation.items import item_table
from fedvalue.valuation.permutations.sampling import sampled_values
from fedvalue.valuation.statistics.influence import exact_influence, sampled_influence
from fedvalue.valuation.statistics.joint_table_game import joint_table_game
from fedvalue.valuation.walk.exact import ExactWalk, WalkOptions

for n_parties, n_items in ((9, 150), (22, 60)):
    table = random_table(
        np.random.default_rng(0), n_parties=n_parties, n_items=n_items, n_codes=3, n_labels=3
    )
    items = item_table(table.counts())
    walk = ExactWalk(items, WalkOptions(region_blocks=300))
    walk.predict()
    walk.run()
    sampled_values(items, n_permutations=2000)
    exact_influence(items)
    sampled_influence(items, 100, 0)
    joint_table_game(items, budget=10**6)
compiled = [
    f"{module.__name__}.{name}"
    for module in list(sys.modules.values())
    if module.__name__.startswith("fedvalue.valuation") and module.__name__.endswith("_kernels")
    for name, kernel in vars(module).items()
    if hasattr(kernel, "stats") and sum(kernel.stats.cache_misses.values())
]
print(sorted(compiled))
"""


@pytest.mark.slow
def test_nothing_is_compiled_after_compiling_ahead(tmp_path: Path) -> None:
    """Tables of other sizes, labels and regions find every kernel in the cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for program in (AHEAD, LATER):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
