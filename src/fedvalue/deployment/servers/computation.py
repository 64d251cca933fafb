"""The long work of one run at a server: bounded by a deadline, and stopped on request.

- A valuation that may take long runs in a process of its own (`valuation_process`), which can be killed.
- The sums of `gram` run in the thread that feeds the role, and call `checkpoint` between pieces.
- When it begins, the run's stage is "computing", on disk. A restart therefore knows how long the run has
  been computing and does not repeat what was over its limit.
- The role is a plain state machine that calls a valuer and `checkpoint`. Which run such a call belongs to is
  known to the thread that feeds the role: `Computation.entered` says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from fedvalue.deployment.servers.valuation_process import Job, ValuationProcess, borrowed
from fedvalue.errors import EngineError, FedValueError, TransportError
from fedvalue.information.pair_tables import PairTables

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.outcome import Answer, Valuer
    from fedvalue.protocol.settings import RunTerms

QUICK_WORK = 10_000_000
"""Items times what is done with each, below which a valuation takes about a second and starts no process."""

_current: ContextVar[Computation | None] = ContextVar("computation", default=None)


class InterruptedComputationError(EngineError):
    """This server is stopping. The run is not over; the next start computes again."""


class Computation:
    """What one run computes at this server. Any thread may stop it.

    Args:
        begin: Called before a valuation; returns the seconds that it may take, or raises where none are left.
    """

    def __init__(self, begin: Callable[[], float]) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._process: ValuationProcess | None = None
        self._running = False
        self._reason: FedValueError | None = None
        self._closed: FedValueError | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Work in this block and thread belongs to this run, and can be stopped."""
        token = _current.set(self)
        with self._lock:
            self._running, self._reason = True, self._closed
        try:
            yield
        finally:
            with self._lock:
                self._running = False
            _current.reset(token)

    def stop(self, reason: FedValueError) -> None:
        """End the work that is under way, if there is any: it raises `reason` when it is next checked."""
        with self._lock:
            if not self._running or self._reason is not None:
                return
            self._reason = reason
            if self._process is not None:
                self._process.kill()

    def close(self, reason: FedValueError) -> None:
        """End the work that is under way, and let none begin any more."""
        with self._lock:
            self._closed = reason
        self.stop(reason)

    def value(self, job: Job, here: Valuer) -> Answer:
        """The valuation of these counts.

        Args:
            job: The counts, and what was agreed.
            here: Values a small table in this thread.

        Raises:
            TransportError: E_DEADLINE: it took longer than agreed.
            FedValueError: It failed, or `stop` was called with this.
        """
        seconds = self._begin()
        self.check()
        if is_quick(job):
            return here(job.counts, job.run)
        return self._elsewhere(job, seconds)

    def _elsewhere(self, job: Job, seconds: float) -> Answer:
        with borrowed() as process, self._killing(process):
            self.check()
            try:
                answer = process.value(job, seconds)
            except FedValueError:
                self.check()
                raise
        if answer is None:
            raise too_long(job.manifest)
        return answer

    @contextmanager
    def _killing(self, process: ValuationProcess) -> Iterator[None]:
        """`stop` kills this process, until it is given back: then it may serve another run."""
        with self._lock:
            self._process = process
        try:
            yield
        finally:
            with self._lock:
                self._process = None

    def check(self) -> None:
        """Raise the reason for which this work is to stop, if there is one."""
        with self._lock:
            if self._reason is not None:
                raise self._reason


def checkpoint() -> None:
    """Raise if the work of the run that this thread serves is to stop."""
    computation = _current.get()
    if computation is not None:
        computation.check()


def killable(manifest: Manifest, here: Valuer) -> Valuer:
    """The valuer of a server's role, which runs `here` where it can be stopped."""

    def valuer(counts: JointCounts | PairTables, run: RunTerms) -> Answer:
        computation = _current.get()
        if computation is None:
            return here(counts, run)
        return computation.value(Job(manifest, counts, run), here)

    return valuer


def is_quick(job: Job) -> bool:
    """Whether a valuation is over in about a second, by its sizes."""
    settings, counts = job.manifest.settings, job.counts
    if isinstance(counts, PairTables):
        n_items, n_columns, n_parties = counts.layout.n_cells, 1, len(counts.layout.parties)
    else:
        n_items, n_parties = len(counts.count), len(counts.names)
        n_columns = n_parties + sum(book.n_features for book in counts.codebooks or ())
    n_orders = 0 if settings.method == "exact" else settings.n_permutations
    return n_items * (n_columns**2 + (1 << min(n_parties, 64)) + n_orders) <= QUICK_WORK


def sums_too_long(seconds: float) -> TransportError:
    """The error of a `gram` run whose sums were stopped by the deadline of the uploads."""
    return TransportError(
        f"uploading and adding up took longer than {seconds:.0f} s and was stopped; agree on a longer "
        "deadline (--upload-seconds), or on fewer or coarser columns",
        code="E_DEADLINE",
    )


def too_long(manifest: Manifest) -> TransportError:
    """The error of a run whose computation was stopped by its deadline."""
    return TransportError(
        f"the computation took longer than {manifest.deadlines.compute} s and was stopped; agree on a longer "
        "deadline (--compute-seconds), a smaller --work-limit, or --method sampled",
        code="E_DEADLINE",
    )
