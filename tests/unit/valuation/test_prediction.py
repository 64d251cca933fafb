"""What a walk will cost: counted where small, estimated without bias where large."""

from __future__ import annotations

import numpy as np

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.walk.exact import exact_values
from fedvalue.valuation.walk.prediction import expected_work, predict_walk
from fedvalue.valuation.walk.table import block_table
from tests.support.joint_tables import random_table


def test_small_trees_are_counted() -> None:
    """Where nothing is left out, the number of blocks and the work are those of the walk."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        counts = random_table(
            rng, n_parties=int(rng.integers(1, 6)), n_items=int(rng.integers(1, 40)), n_codes=3, n_labels=3
        ).counts()
        predicted, walked = predict_walk(counts), exact_values(counts)
        assert predicted.exact
        assert predicted.n_blocks == walked.n_nodes
        assert predicted.work == walked.work
        assert predicted.seconds_se == 0.0
        assert expected_work(block_table(counts)) == walked.work


def test_estimates_are_unbiased() -> None:
    """The mean of 40 rough estimates lies within 4 of its standard errors of the walk's count."""
    counts = random_table(np.random.default_rng(1), n_parties=9, n_items=120, n_codes=3, n_labels=2).counts()
    walked = exact_values(counts)
    found = [predict_walk(counts, seed=seed, keep=25, rounds=2) for seed in range(40)]
    assert not any(prediction.exact for prediction in found)
    for name, truth in (("n_blocks", walked.n_nodes), ("work", walked.work)):
        numbers = np.array([getattr(prediction, name) for prediction in found])
        assert abs(numbers.mean() - truth) < 4 * numbers.std(ddof=1) / np.sqrt(len(numbers))


def test_more_workers_need_less_time_and_the_seed_decides() -> None:
    counts = random_table(np.random.default_rng(2), n_parties=9, n_items=120, n_codes=3, n_labels=2).counts()
    one, two = predict_walk(counts, n_workers=1, keep=50), predict_walk(counts, n_workers=2, keep=50)
    assert two.seconds < one.seconds
    assert two.n_blocks == one.n_blocks
    assert predict_walk(counts, seed=1, keep=50).n_blocks != one.n_blocks
    assert one.memory_bytes > 0


def test_nothing_to_walk_costs_nothing() -> None:
    counts = JointCounts.from_columns(label=np.array([0, 0]), parties={"a": np.array([0, 1])})
    predicted = predict_walk(counts)
    assert (predicted.n_blocks, predicted.seconds, predicted.exact) == (0.0, 0.0, True)
