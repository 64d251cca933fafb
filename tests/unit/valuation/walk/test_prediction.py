"""What a walk will cost: counted where small, estimated without bias where large."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table
from fedvalue.valuation.walk import exact, prediction
from fedvalue.valuation.walk.block_table import BlockTable, block_table
from fedvalue.valuation.walk.exact import ExactWalk
from fedvalue.valuation.walk.prediction import sample_walk
from tests.support.joint_tables import exact_values, random_table


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a prediction makes fewer rounds, and gives other numbers."""
    monkeypatch.setattr(prediction, "monotonic", lambda: 0.0)


def laid_out(counts: JointCounts) -> BlockTable:
    return block_table(item_table(counts))[0]


def test_small_trees_are_counted() -> None:
    """Where nothing is left out, the number of blocks and the work are those of the walk."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        counts = random_table(
            rng, n_parties=int(rng.integers(1, 6)), n_items=int(rng.integers(1, 40)), n_codes=3, n_labels=3
        ).counts()
        walked = exact_values(item_table(counts))
        if walked.n_blocks == 0:
            continue
        table = laid_out(counts)
        for predicted in (sample_walk(table), ExactWalk(item_table(counts)).predict()):
            assert predicted.exact
            assert predicted.n_blocks == walked.n_blocks
            assert predicted.work == walked.work


def test_estimates_are_unbiased() -> None:
    """The mean of 40 rough estimates lies within 4 of its standard errors of the walk's count."""
    counts = random_table(np.random.default_rng(1), n_parties=9, n_items=120, n_codes=3, n_labels=2).counts()
    walked = exact_values(item_table(counts))
    found = [sample_walk(laid_out(counts), seed=seed, keep=25, rounds=2) for seed in range(40)]
    assert not any(one.exact for one in found)
    for name, truth in (("n_blocks", walked.n_blocks), ("work", walked.work)):
        numbers = np.array([getattr(one, name) for one in found])
        assert abs(numbers.mean() - truth) < 4 * numbers.std(ddof=1) / np.sqrt(len(numbers))


def test_more_workers_need_less_time_and_the_seed_decides() -> None:
    counts = random_table(np.random.default_rng(2), n_parties=9, n_items=120, n_codes=3, n_labels=2).counts()
    one, two = (
        sample_walk(laid_out(counts), n_workers=1, keep=50),
        sample_walk(laid_out(counts), n_workers=2, keep=50),
    )
    assert two.seconds < one.seconds
    assert two.n_blocks == one.n_blocks
    assert sample_walk(laid_out(counts), seed=1, keep=50).n_blocks != one.n_blocks


def test_table_of_many_blocks_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that has too many blocks to be tried is predicted from a sample, and gives the same values."""
    counts = random_table(np.random.default_rng(2), n_parties=9, n_items=120, n_codes=3, n_labels=2).counts()
    expected = exact_values(item_table(counts))
    monkeypatch.setattr(exact, "FIRST_BLOCKS", 100)
    walk = ExactWalk(item_table(counts))
    predicted = walk.predict()
    assert not predicted.exact
    assert 0.8 < predicted.n_blocks / expected.n_blocks < 1.25
    found = walk.run()
    assert found is not None
    assert found.values == pytest.approx(expected.values, abs=1e-13)


def test_nothing_to_walk_costs_nothing() -> None:
    counts = JointCounts.from_columns(label=np.array([0, 0]), parties={"a": np.array([0, 1])})
    predicted = ExactWalk(item_table(counts)).predict()
    assert (predicted.n_blocks, predicted.seconds, predicted.exact) == (0.0, 0.0, True)
