"""Executors of this machine, tasks mapped over any executor in order, and the `Execution` of long work."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fedvalue.errors import EngineError, FedValueError

if TYPE_CHECKING:
    from fedvalue.typing import Progress


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
        return ProcessPoolExecutor(
            self.max_workers, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_with_parent
        )

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


def _leave_with_parent() -> None:
    """End this worker when the main process is gone: a killed run must not leave workers behind."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


Result = TypeVar("Result")

RENEWALS = 3
"""A lost worker's tasks are repeated this many times; a task that kills its workers is then reported."""


@contextmanager
def using(executor: Executor | None) -> Iterator[Executor]:
    """The executor, which stays open for its owner; when None, threads of this machine for the block."""
    if executor is not None:
        yield executor
        return
    pool = thread_engine()
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def n_workers(executor: Executor | None) -> int:
    """Number of tasks that the executor runs at a time; 1 if unknown."""
    if executor is None:
        return n_cores()
    client = _client(executor)
    if client is not None:
        return max(1, int(sum(client.ncores().values())))
    for name in ("max_workers", "_max_workers"):
        if isinstance(number := getattr(executor, name, None), int):
            return max(1, number)
    return 1


def share(executor: Executor, data: Any) -> Any:
    """A handle on data that many tasks of this executor need, to be passed as a task's argument.

    A cluster gets the data once and copies it from worker to worker; elsewhere the handle is the data itself.
    On a cluster the data is the result of a task rather than scattered: a scheduler drops copies that it
    considers superfluous, and only the result of a task can be computed again when the last worker that held
    it is lost.
    """
    client = _client(executor)
    if client is None:
        return data
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # once for all tasks
            return client.submit(_same, data, pure=False)
    except (OSError, TimeoutError) as error:
        raise EngineError(f"cannot send data to the cluster's workers: {error}") from error


def _same(data: Any) -> Any:
    return data


def map_in_order(
    executor: Executor,
    work: Callable[..., Result],
    tasks: Iterable[tuple[Any, ...]],
    *,
    done: Callable[[int], None] | None = None,
    ahead: int = 2,
) -> Iterator[Result]:
    """Results of `work(*task)` for every task, in the order of the tasks.

    At most `ahead` tasks per worker are under way, so that tasks may be made lazily and no result is kept
    longer than needed. When the caller stops early, by an error, an interrupt or a `break`, tasks that have
    not started are cancelled.

    Args:
        executor: Where the tasks run.
        work: A module-level function, so that it can travel.
        tasks: Argument tuples.
        done: Called with the number of finished tasks after each one.
        ahead: Tasks per worker. Where some take much longer than others, more of them keep all workers busy
            while the oldest is awaited.

    Raises:
        EngineError: Workers were lost more often than can be repaired.
    """
    window = ahead * n_workers(executor) + 1
    waiting = _Waiting(executor, work)
    todo = iter(tasks)
    finished = 0
    try:
        while True:
            while len(waiting.tasks) < window and (task := next(todo, None)) is not None:
                waiting.submit(task)
            if not waiting.tasks:
                return
            try:
                result = waiting.tasks[0][1].result()
            except FedValueError:
                raise
            except BrokenExecutor as error:
                waiting.renew(error)
                continue
            except Exception as error:
                if _is_lost_worker(error):
                    reason = str(error) or type(error).__name__
                    raise EngineError(f"workers were lost while they computed: {reason}") from error
                raise
            waiting.tasks.popleft()
            finished += 1
            if done is not None:
                done(finished)
            yield result
    finally:
        for _, future in waiting.tasks:
            future.cancel()


class _Waiting(Generic[Result]):
    """Submitted tasks in order; those that a broken pool loses are submitted again."""

    def __init__(self, executor: Executor, work: Callable[..., Result]) -> None:
        self.tasks: deque[tuple[tuple[Any, ...], Future[Result]]] = deque()
        self._executor = executor
        self._work = work
        self._renewals = 0

    def submit(self, task: tuple[Any, ...]) -> None:
        try:
            future = self._executor.submit(self._work, *task)
        except BrokenExecutor as error:
            self.renew(error)
            future = self._executor.submit(self._work, *task)
        self.tasks.append((task, future))

    def renew(self, error: BrokenExecutor) -> None:
        """Replace a broken pool and resubmit the tasks that it had not finished."""
        renew = getattr(self._executor, "renew", None)
        if renew is None or self._renewals == RENEWALS:
            raise EngineError(f"a worker process died after {self._renewals} repair(s): {error}") from error
        renew()
        self._renewals += 1
        for k, (task, future) in enumerate(self.tasks):
            if not future.done() or future.cancelled() or future.exception() is not None:
                self.tasks[k] = (task, self._executor.submit(self._work, *task))


def _client(executor: Executor) -> Any:
    """The Dask client behind an executor, or None."""
    return getattr(executor, "_client", None)


def _is_lost_worker(error: Exception) -> bool:
    # By name: this module does not load distributed. KilledWorker: a task's workers died repeatedly;
    # CommClosedError: the scheduler is gone; the others: data that a task needs was lost with the last worker
    # that held it.
    lost = {"KilledWorker", "CommClosedError", "FutureCancelledError", "CancelledError"}
    return type(error).__name__ in lost


@dataclass(slots=True)
class Stop:
    """A user's request to end long work and take the answer so far.

    Work that can end early looks at `asked` between its steps, inside `offered`; at any other time a request
    has no effect, and `possible` is False.
    """

    asked: bool = False
    possible: bool = False

    @contextmanager
    def offered(self) -> Iterator[None]:
        """The block in which work ends early when asked."""
        self.possible = True
        try:
            yield
        finally:
            self.possible = False


@dataclass(frozen=True, slots=True)
class Execution:
    """Where work runs, its progress callback, and the way to end it. Results do not depend on the first two.

    Args:
        executor: Where tasks run; threads of this machine when None.
        progress: Called with progress updates.
        stop: Lets a user end the work early, with the best answer so far.
    """

    executor: Executor | None = None
    progress: Progress | None = None
    stop: Stop = field(default_factory=Stop)

    @property
    def quiet(self) -> Execution:
        """The same without progress updates, for short parts of the work."""
        return replace(self, progress=None)

    def report(self, done: float, total: float, note: str = "") -> None:
        """Call the progress callback."""
        if self.progress is not None:
            self.progress(float(done), float(total), note)


HERE = Execution()
"""On threads of this machine, without progress."""


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Let an interrupt end as KeyboardInterrupt, also in the middle of compiled code.

    Python notices it when a compiled kernel returns to the main thread, and then reports that the
    kernel "returned a result with an exception set": a SystemError whose chain of causes ends in the
    interrupt.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
