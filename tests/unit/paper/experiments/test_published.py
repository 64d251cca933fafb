"""The published procedures, timed for ratios, do what they are said to do."""

from __future__ import annotations

import numpy as np

from fedvalue.information.contingency import JointCounts
from fedvalue.paper.experiments import published


def test_value_sets_hold_q_ids_of_every_sample_once() -> None:
    codes = np.array([1, 0, 1, 2])
    sets = published.value_sets(codes, q=2)
    assert sets == [[1, 5], [0, 2, 4, 6], [3, 7]]


def test_one_order_keeps_every_id_in_exactly_one_cell() -> None:
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 3, size=(4, 50))
    sets = [published.value_sets(column, 3) for column in columns]
    assert published.intersect_one_order(sets[0], sets[1:]) == 150


def test_an_id_that_one_party_lacks_is_lost() -> None:
    assert published.intersect_one_order([[0, 1], [2]], [[[0], [1]]]) == 2


def test_time_is_that_of_one_order_times_all_orders() -> None:
    """With two parties there are two orders, with three six; a time is positive."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 2, size=(4, 2000))
    assert published.simulation_seconds(columns[0], list(columns[1:]), q=3) > 0
    assert (
        published.recount_seconds(
            JointCounts.from_columns(label=columns[0], parties={"a": columns[1], "b": columns[2]}), 2, seed=0
        )
        > 0
    )
