"""A worker that dies in the middle does not change the result."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedvalue.engines import Execution, ProcessEngine, map_in_order
from fedvalue.engines.cluster import connect
from fedvalue.errors import EngineError
from fedvalue.valuation.items import item_table
from fedvalue.valuation.permutations.sampling import sampled_values
from tests.support.dask_cluster import DaskCluster
from tests.support.joint_tables import exact_values, random_table
from tests.support.processes import PATIENCE
from tests.support.streamed_counts import count_files

pytestmark = pytest.mark.network


def die_once(k: int, marker: str) -> int:
    """Task 3 kills its worker the first time."""
    if k == 3 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return k


def die_always(k: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return k


def test_process_engine_repeats_what_a_killed_worker_lost(tmp_path: Path) -> None:
    with ProcessEngine(2) as engine:
        results = list(map_in_order(engine, die_once, ((k, str(tmp_path / "died")) for k in range(12))))
    assert results == list(range(12))
    assert (tmp_path / "died").exists()


def test_a_task_that_always_kills_its_worker_is_reported() -> None:
    with ProcessEngine(1) as engine, pytest.raises(EngineError, match="worker process died after 3 repair"):
        list(map_in_order(engine, die_always, [(0,)]))


def test_a_foreign_pool_that_breaks_is_reported() -> None:
    """Somebody else's pool is not replaced behind their back."""
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(EngineError, match="died after 0 repair"),
    ):
        list(map_in_order(pool, die_always, [(0,)]))


class BrokenAtOnce(Executor):
    """Refuses every task."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise BrokenExecutor("gone")


def test_a_pool_that_is_broken_from_the_start_is_reported() -> None:
    with pytest.raises(EngineError, match="gone"):
        list(map_in_order(BrokenAtOnce(), abs, [(1,)]))


def test_files_are_counted_by_the_same_rules(tmp_path: Path) -> None:
    for k in range(2):
        pq.write_table(pa.table({"x": [0, 1], "y": [k, 1]}), tmp_path / f"{k}.parquet")
    with pytest.raises(EngineError, match="gone"):
        count_files(tmp_path, label="y", parties={"a": ["x"]}, execution=Execution(BrokenAtOnce()))


class Cancelling(Executor):
    """Cancels every task, as Dask does when the last worker that held its data is gone."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        return future


def test_tasks_that_were_cancelled_are_reported() -> None:
    with pytest.raises(EngineError, match="workers were lost while they computed: CancelledError"):
        list(map_in_order(Cancelling(), abs, [(1,)]))


class Recording(Executor):
    """Never finishes; knows what was asked of it."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        if len(self.futures) == 1:
            self.futures[0].set_result("first")
        return self.futures[-1]


def test_stopping_early_cancels_what_has_not_started() -> None:
    """After a `break` (an error, an interrupt) nothing is left in the queue."""
    engine = Recording()
    results = map_in_order(engine, abs, ((k,) for k in range(100)))
    assert next(results) == "first"
    results.close()  # type: ignore[attr-defined]
    assert 1 < len(engine.futures) < 10
    assert all(future.cancelled() for future in engine.futures[1:])


@pytest.fixture
def doomed_cluster() -> Iterator[DaskCluster]:
    """A cluster of its own, since one of its workers will be killed."""
    with DaskCluster(n_workers=2) as cluster:
        yield cluster


def test_a_dask_worker_killed_in_the_middle_does_not_change_the_values(doomed_cluster: DaskCluster) -> None:
    """SIGKILL to one of two workers while the walk runs: the same bits as on this machine."""
    table = random_table(np.random.default_rng(0), n_parties=9, n_items=150, n_codes=3, n_labels=3)
    items = item_table(table.counts())
    expected = exact_values(items, region_blocks=100)
    victim = doomed_cluster.workers[0]
    calls = 0

    def kill(done: float, total: float, note: str = "") -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            victim.kill()
            victim.wait()

    with connect(doomed_cluster.address, timeout=PATIENCE) as executor:
        results = exact_values(items, region_blocks=100, execution=Execution(executor, kill))
        sampled = sampled_values(items, n_permutations=4000, execution=Execution(executor))
    assert calls > 10
    assert victim.returncode == -signal.SIGKILL
    assert results.values.tobytes() == expected.values.tobytes()
    assert sampled.values.tobytes() == sampled_values(items, n_permutations=4000).values.tobytes()
