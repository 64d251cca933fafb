"""One suite over every engine: the same bits wherever the work runs."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
import pytest

from fedvalue.engines import Execution, map_in_order, n_workers, share
from fedvalue.errors import InputError
from fedvalue.valuation.cubes import cube_sum
from fedvalue.valuation.items import ItemTable, item_table
from fedvalue.valuation.permutations.sampling import sampled_values
from fedvalue.valuation.statistics.influence import exact_influence, sampled_influence
from fedvalue.valuation.statistics.joint_table_game import joint_table_game
from tests import naive
from tests.statistics.tables import random_table as informative_table
from tests.support.joint_tables import exact_values, random_table

pytestmark = pytest.mark.network

MANY_REGIONS = 100


@pytest.fixture(scope="module")
def items() -> ItemTable:
    table = random_table(np.random.default_rng(0), n_parties=9, n_items=150, n_codes=3, n_labels=3)
    return item_table(table.counts())


def square(x: int) -> int:
    return x * x


def refuse(x: int) -> int:
    raise InputError(f"no {x}", code="E_TEST")


def test_results_come_in_the_order_of_the_tasks(engine: Executor) -> None:
    done: list[int] = []
    results = list(map_in_order(engine, square, ((k,) for k in range(40)), done=done.append))
    assert results == [k * k for k in range(40)]
    assert done == list(range(1, 41))


def test_no_tasks_no_results(engine: Executor) -> None:
    assert list(map_in_order(engine, square, [])) == []


def test_errors_arrive_with_their_class_and_code(engine: Executor) -> None:
    with pytest.raises(InputError, match="no 0") as caught:
        list(map_in_order(engine, refuse, ((k,) for k in range(5))))
    assert caught.value.code == "E_TEST"


def test_shared_data_reaches_the_tasks(engine: Executor) -> None:
    data = share(engine, np.arange(5))
    assert list(map_in_order(engine, np.sum, [(data,), (data,)])) == [10, 10]
    assert n_workers(engine) >= 1


def test_exact_values_are_bit_equal(engine: Executor, items: ItemTable) -> None:
    here = exact_values(items, region_blocks=MANY_REGIONS)
    there = exact_values(items, region_blocks=MANY_REGIONS, execution=Execution(engine))
    assert there.values.tobytes() == here.values.tobytes()
    assert there.n_blocks == here.n_blocks


def test_sums_over_all_coalitions_are_bit_equal(
    engine: Executor, items: ItemTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine parties, one outside the cube: a task without it and one with it."""
    monkeypatch.setattr(cube_sum, "TASK_SECONDS", 1e-12)
    cubes = cube_sum.CubeSum.of(items)
    assert cubes is not None
    here, there = cubes.run(), cubes.run(Execution(engine))
    assert here is not None
    assert there is not None
    assert there.values.tobytes() == here.values.tobytes()


def test_exact_values_are_those_of_the_definition(engine: Executor) -> None:
    table = random_table(np.random.default_rng(1), n_parties=5, n_items=40, n_codes=3, n_labels=2)
    results = exact_values(item_table(table.counts()), region_blocks=20, execution=Execution(engine))
    np.testing.assert_allclose(
        results.values, naive.shapley_cmi(table.parties, table.label), rtol=0, atol=1e-12
    )


def test_sampled_values_are_bit_equal(engine: Executor, items: ItemTable) -> None:
    here = sampled_values(items, n_permutations=4000, seed=5)
    there = sampled_values(items, n_permutations=4000, seed=5, execution=Execution(engine))
    assert there.values.tobytes() == here.values.tobytes()
    assert there.se.tobytes() == here.se.tobytes()


def test_precision_stops_at_the_same_place(engine: Executor, items: ItemTable) -> None:
    here = sampled_values(items, n_permutations=200_000, precision=0.004)
    there = sampled_values(items, n_permutations=200_000, precision=0.004, execution=Execution(engine))
    assert there.n_permutations == here.n_permutations < 200_000
    assert there.values.tobytes() == here.values.tobytes()


def test_data_errors_are_bit_equal(engine: Executor, items: ItemTable) -> None:
    """Over all coalitions, a subtree per task, and from permutations, some pairs per task."""
    here, there = (exact_influence(items, execution=Execution(executor)) for executor in (None, engine))
    assert here is not None
    assert there is not None
    assert there.error.tobytes() == here.error.tobytes()
    here, there = (
        sampled_influence(items, 1500, 3, execution=Execution(executor)) for executor in (None, engine)
    )
    assert there.error.tobytes() == here.error.tobytes()


def test_joint_table_game_is_bit_equal(engine: Executor) -> None:
    items = item_table(informative_table(5, p=9, n=300, codes=2))
    here, there = (joint_table_game(items, execution=Execution(executor)) for executor in (None, engine))
    assert here.table is not None
    assert there.table is not None
    assert here.total > 0
    assert there.table.tobytes() == here.table.tobytes()


def test_large_data_are_shared_without_a_warning(engine: Executor) -> None:
    """24 MB, of which a cluster's client warns when they come with every task; warnings fail a test."""
    shared = share(engine, np.arange(3_000_000))
    assert list(map_in_order(engine, np.sum, [(shared,)] * 3)) == [4_499_998_500_000] * 3
