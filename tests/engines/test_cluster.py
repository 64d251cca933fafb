"""A cluster is refused before work starts when it cannot be reached or would compute something else."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from fedvalue.engines import cluster
from fedvalue.errors import EngineError
from fedvalue.simulation.local_consortium import reserve_port
from tests.support.dask_cluster import DaskCluster
from tests.support.processes import PATIENCE

pytestmark = pytest.mark.network


def enter(address: str, timeout: float = PATIENCE) -> None:
    """Connect; no work may start."""
    with cluster.connect(address, timeout=timeout):
        raise AssertionError("work started")


def test_unreachable_scheduler() -> None:
    port, reservation = reserve_port()  # on which nobody listens, now or soon
    words = f"cannot reach a Dask scheduler at tcp://127.0.0.1:{port} within 1 s"
    with reservation, pytest.raises(EngineError, match=words):
        enter(f"tcp://127.0.0.1:{port}", 1)


def test_not_an_address() -> None:
    with pytest.raises(EngineError, match="cannot reach a Dask scheduler at nonsense://x"):
        enter("nonsense://x", 1)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EngineError, match=r"pip install 'fedvalue\[cluster\]'"):
        enter("tcp://127.0.0.1:1")


def pretend(version: str | None) -> None:
    """Run on a worker: report another NumPy, or the real one again."""
    if version is None:
        importlib.metadata.version = _real_version
    else:
        importlib.metadata.version = lambda name: version if name == "numpy" else _real_version(name)


_real_version = importlib.metadata.version


def test_worker_with_another_version(dask_cluster: DaskCluster) -> None:
    from distributed import Client

    with Client(dask_cluster.address, timeout=PATIENCE, set_as_default=False) as client:
        worker = sorted(client.scheduler_info()["workers"])[0]
        client.run(pretend, "1.0.0", workers=[worker])
        try:
            with pytest.raises(EngineError, match=f"worker {worker} has numpy 1.0.0, expected"):
                enter(dask_cluster.address)
        finally:
            client.run(pretend, None, workers=[worker])
    with cluster.connect(dask_cluster.address, timeout=PATIENCE) as executor:
        assert executor.submit(abs, -3).result() == 3


def test_cluster_without_workers() -> None:
    with DaskCluster(n_workers=0) as empty, pytest.raises(EngineError, match="has no workers"):
        enter(empty.address)


class Unloadable:
    """A client whose workers have no fedvalue."""

    def run(self, function: object, on_error: str) -> dict[str, object]:
        return {"tcp://w": ModuleNotFoundError("No module named 'fedvalue'")}


def test_worker_without_fedvalue() -> None:
    with pytest.raises(EngineError, match="worker tcp://w cannot run fedvalue: No module named 'fedvalue'"):
        cluster.check_workers(Unloadable())
