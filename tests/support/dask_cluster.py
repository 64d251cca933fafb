"""A Dask scheduler and its workers as real processes on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from fedvalue.simulation.local_consortium import reserve_port

ROOT = Path(__file__).resolve().parents[2]


class DaskCluster:
    """Started with `dask scheduler` and `dask worker`, as a user would; without nannies, so that a
    killed worker stays dead."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.workers: list[subprocess.Popen[str]] = []
        self.scheduler: subprocess.Popen[str] | None = None
        self.address = ""

    def __enter__(self) -> DaskCluster:
        port, self.reservation = reserve_port()
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = _start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        _wait_for(port, self.scheduler)
        for _ in range(self.n_workers):
            self.start_worker()
        if self.n_workers:
            self.wait_for_workers(self.n_workers)
        return self

    def start_worker(self) -> subprocess.Popen[str]:
        worker = _start(
            "worker", self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard"
        )
        self.workers.append(worker)
        return worker

    def wait_for_workers(self, n: int) -> None:
        from distributed import Client

        with Client(self.address, timeout=600, set_as_default=False) as client:
            client.wait_for_workers(n, timeout=600)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*self.workers, self.scheduler]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.reservation.close()


def _start(role: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        # The code under test, also where another checkout is installed.
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "DASK_DISTRIBUTED__ADMIN__LOG_LENGTH": "0",
        # The scheduler soon drops all copies of data but one: who is killed may hold the last.
        "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__INTERVAL": "50ms",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "dask", role, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise RuntimeError(f"the scheduler ended with code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the scheduler did not start within two minutes")
