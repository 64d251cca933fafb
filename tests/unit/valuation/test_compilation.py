"""Compiling ahead leaves nothing to compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

AHEAD = "import sys; from fedvalue.cli import main; sys.argv = ['fedvalue', 'warm-up']; main()"

LATER = """
import sys
import numpy as np
from tests.support.joint_tables import random_table
from fedvalue.valuation.items import item_table
from fedvalue.valuation.permutations.sampling import sampled_values
from fedvalue.valuation.statistics.influence import exact_influence, sampled_influence
from fedvalue.valuation.statistics.joint_table_game import joint_table_game
from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from fedvalue.valuation.cubes.cube_sum import CubeSum
from fedvalue.valuation.walk.exact import ExactWalk

for n_parties, n_items in ((9, 150), (22, 60)):
    table = random_table(
        np.random.default_rng(0), n_parties=n_parties, n_items=n_items, n_codes=3, n_labels=3
    )
    items = item_table(table.counts())
    walk = ExactWalk(items, region_blocks=300)
    walk.predict()
    walk.run()
    CubeSum.of(items).run()
    sampled_values(items, n_permutations=2000)
    exact_influence(items)
    sampled_influence(items, 100, 0)
    joint_table_game(items, budget=10**6)
rng = np.random.default_rng(1)
wide = rng.integers(0, 4, (2, 30, 20_000))
evidence_values(
    FeatureTable.from_columns(label=wide[0, 0] % 2, parties={"a": list(wide[0]), "b": list(wide[1])})
)
compiled = [
    f"{module.__name__}.{name}"
    for module in list(sys.modules.values())
    if module.__name__.startswith("fedvalue.") and "kernel" in module.__name__.rsplit(".", 1)[-1]
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
    assert len(list(tmp_path.glob("fedvalue-*.compiled"))) == 1, "servers see that nothing is left to compile"
