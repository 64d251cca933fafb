"""Executors of this machine."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def n_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


def thread_engine(max_workers: int | None = None) -> ThreadPoolExecutor:
    """Threads, one per core: the default, since the kernels release the interpreter lock."""
    return ThreadPoolExecutor(max_workers or n_cores(), thread_name_prefix="fedvalue")


class ProcessEngine(Executor):
    """Worker processes that are replaced when one dies.

    A `ProcessPoolExecutor` stays broken once a worker is killed. This one can be renewed; `map_in_order` then
    repeats the lost tasks.

    Args:
        max_workers: Number of processes, one per core when None.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        self.max_workers = max_workers or n_cores()
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        # Spawned: forking a process that has running threads can deadlock the child.
        return ProcessPoolExecutor(self.max_workers, mp_context=multiprocessing.get_context("spawn"))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` in a worker."""
        return self._pool.submit(fn, *args, **kwargs)

    def renew(self) -> None:
        """Replace a broken pool."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new_pool()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers."""
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def worker_pids(self) -> list[int]:
        """Process ids of the workers that have started."""
        return sorted(self._pool._processes or {})
