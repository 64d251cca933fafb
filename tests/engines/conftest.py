"""Engines to run one suite on: threads, processes, and a real Dask cluster on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor

import pytest

from fedvalue.engines import ProcessEngine, thread_engine
from fedvalue.engines.cluster import connect
from tests.support.dask_cluster import DaskCluster
from tests.support.processes import PATIENCE

ENGINES = ["one thread", "three threads", "two processes", "dask"]


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[DaskCluster]:
    """A scheduler and two workers, each its own process."""
    with DaskCluster(n_workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def two_processes() -> Iterator[Executor]:
    """Started once: each process has to load the compiled kernels."""
    with ProcessEngine(2) as executor:
        yield executor


@pytest.fixture(scope="session")
def dask_executor(dask_cluster: DaskCluster) -> Iterator[Executor]:
    """A connection to the cluster."""
    with connect(dask_cluster.address, timeout=PATIENCE) as executor:
        yield executor


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Each engine in turn."""
    if request.param == "dask":
        yield request.getfixturevalue("dask_executor")
    elif request.param == "two processes":
        yield request.getfixturevalue("two_processes")
    else:
        with thread_engine(1 if request.param == "one thread" else 3) as executor:
            yield executor
