"""Small tables: every coalition counted in NumPy, with the numbers of the compiled walks."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from fedvalue.valuation import shapley_cmi as choice
from fedvalue.valuation.entropies import (
    MAX_VISITS,
    alone_and_last,
    alone_and_last_of,
    coalition_counts,
    is_small,
)
from fedvalue.valuation.items import item_table
from fedvalue.valuation.permutations import sampling
from fedvalue.valuation.permutations.sampling import sampled_values
from fedvalue.valuation.settings import ValuationSettings
from fedvalue.valuation.shapley_cmi import shapley_cmi, small_values
from fedvalue.valuation.statistics import joint_table_game
from tests.support.joint_tables import Table, exact_walk, random_table, tables


@given(tables(most_parties=4, most_items=25))
@settings(max_examples=60)
def test_counts_of_every_coalition_are_those_of_a_dictionary(table: Table) -> None:
    items = item_table(table.counts())
    seen = []
    for counts in coalition_counts(items):
        members = [d for d in range(items.n_parties) if counts.mask >> d & 1]
        blocks = list(zip(*(items.codes[row].tolist() for row in [*members, -1]), strict=True))
        cells = list(zip(blocks, items.label.tolist(), strict=True))
        in_block: Counter[object] = Counter()
        with_label: Counter[object] = Counter()
        for block, cell, weight in zip(blocks, cells, items.weight.tolist(), strict=True):
            in_block[block] += weight
            with_label[cell] += weight
        assert counts.in_block.tolist() == [in_block[block] for block in blocks]
        assert counts.with_label.tolist() == [with_label[cell] for cell in cells]
        assert (counts.n_blocks, counts.n_cells) == (len(in_block), len(with_label))
        seen.append(counts.mask)
    assert sorted(seen) == list(range(1 << items.n_parties))


@given(tables(most_parties=6, most_items=30))
@settings(max_examples=60)
def test_values_are_those_of_the_walk(table: Table) -> None:
    values, walked = small_values(item_table(table.counts())), exact_walk(table.counts())
    np.testing.assert_allclose(values.values, walked.values, rtol=0, atol=1e-12)
    assert values.total == walked.total
    assert values.label_entropy == walked.label_entropy


def test_few_parties_of_a_large_table_are_counted_with_the_values_of_the_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By sizes alone: one visit more than allowed, or a time limit, and the walk is taken."""
    table = random_table(np.random.default_rng(5), n_parties=5, n_items=300, n_codes=4, n_labels=3)
    items = item_table(table.counts())
    visits = items.n_items << 5
    for module in (choice, joint_table_game):
        monkeypatch.setattr(module, "is_small", lambda items: False)
    counted, reason = shapley_cmi(items, ValuationSettings(), reproducible=True, work_limit=visits)
    assert reason == "few parties: every coalition was counted"
    walks = [
        shapley_cmi(items, ValuationSettings(time_limit=600)),
        shapley_cmi(items, ValuationSettings(method="exact"), reproducible=True, work_limit=visits - 1),
    ]
    for walked, _ in walks:
        assert walked.game is None
        np.testing.assert_allclose(counted.values, walked.values, rtol=0, atol=1e-12)
        assert counted.total == pytest.approx(walked.total, abs=1e-12)
        assert counted.label_entropy == walked.label_entropy
    assert counted.game is not None
    for found, expected in zip(alone_and_last_of(counted.game), alone_and_last(items), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_sampled_values_are_those_of_the_compiled_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same orders, looked up in a table of coalitions or walked item by item."""
    table = random_table(np.random.default_rng(3), n_parties=6, n_items=80, n_codes=3, n_labels=3)
    items = item_table(table.counts())
    looked_up = sampled_values(items, n_permutations=3000, seed=4)
    monkeypatch.setattr(sampling, "is_small", lambda items: False)
    walked = sampled_values(items, n_permutations=3000, seed=4)
    assert looked_up.n_permutations == walked.n_permutations
    np.testing.assert_allclose(looked_up.values, walked.values, rtol=0, atol=1e-13)
    np.testing.assert_allclose(looked_up.se, walked.se, rtol=1e-9)


@pytest.mark.parametrize(("n_parties", "n_items", "small"), [(8, 500, True), (9, 10, False), (3, 10, True)])
def test_few_parties_and_few_items_are_small(n_parties: int, n_items: int, small: bool) -> None:
    table = random_table(
        np.random.default_rng(0), n_parties=n_parties, n_items=n_items, n_codes=9, n_labels=2
    )
    items = item_table(table.counts())
    assert is_small(items) == small
    assert items.n_items << n_parties < MAX_VISITS or not small


PROGRAM = """
import sys
import numpy as np
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 150)
parties = {f"p{k}": (y + rng.integers(0, 3, 150)) % 4 for k in range(3)}
counts = JointCounts.from_columns(label=y, parties=parties)
for method in ("auto", "sampled"):
    value_counts(counts, ValuationSettings(method=method))
print("numba" in sys.modules)
"""


def test_small_valuation_compiles_nothing() -> None:
    """Values, errors, learnable values, uplift and coalitions, without loading the compiler."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.strip() == "False", done.stderr
