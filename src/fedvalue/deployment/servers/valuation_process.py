"""Processes that value counts for a server and can be killed while they do.

A process takes one job at a time over a socket and stays for the next one. It holds no key and no name of a
participant: it is given what the server has counted. It ends when its server does, however that ends.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING

from fedvalue import errors
from fedvalue.errors import EngineError, FedValueError

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.information.contingency import JointCounts
    from fedvalue.information.pair_tables import PairTables
    from fedvalue.protocol.outcome import Answer
    from fedvalue.protocol.settings import RunTerms

MOST_IDLE = 2
"""Idle processes that are kept for the next job: each has some 200 MB, mostly compiled code."""
_PROGRAM = "fedvalue.deployment.servers.valuation_worker"


@dataclass(frozen=True, slots=True)
class Job:
    """What a process values: the counts, by the manifest's terms."""

    manifest: Manifest
    counts: JointCounts | PairTables
    run: RunTerms


class ValuationProcess:
    """One process, seen from the server."""

    def __init__(self) -> None:
        near, far = Pipe()
        self._connection: Connection = near
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-m", _PROGRAM, str(far.fileno())],
            pass_fds=[far.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the server, which ends it
        )
        far.close()
        self._killed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it can take a job."""
        return not self._killed and self._process.poll() is None

    def value(self, job: Job, seconds: float) -> Answer | None:
        """The answer to a job; None, and the process is killed, if it takes longer than `seconds`.

        Raises:
            FedValueError: What the valuation raised.
            EngineError: E_ENGINE: the process ended, killed by us or by the system.
        """
        end = time.monotonic() + seconds
        try:
            self._connection.send(job)
            while not self._connection.poll(min(1.0, max(0.0, end - time.monotonic()))):
                if time.monotonic() >= end:
                    self.kill()
                    return None
            reply = self._connection.recv()
        except (EOFError, OSError):
            self.kill()
            raise EngineError(
                "the operating system ended the valuation, probably because memory ran out", code="E_ENGINE"
            ) from None
        if isinstance(reply, Failure):
            raise reply.error()
        answer: Answer = reply
        return answer

    def kill(self) -> None:
        """End it at once. Any thread may do so."""
        self._killed = True
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it, and free the socket."""
        self.kill()
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it travels."""

    kind: str
    message: str
    code: str

    def error(self) -> FedValueError:
        """The error again."""
        kind = getattr(errors, self.kind, EngineError)
        found = kind(self.message, code=self.code)
        assert isinstance(found, FedValueError)
        return found


_idle: list[ValuationProcess] = []
_lock = threading.Lock()


@contextmanager
def borrowed() -> Iterator[ValuationProcess]:
    """A process for one job: an idle one, or a new one."""
    process = _taken() or ValuationProcess()
    try:
        yield process
    finally:
        with _lock:
            keep = process.usable and len(_idle) < MOST_IDLE
            if keep:
                _idle.append(process)
        if not keep:
            process.close()


def prepare() -> None:
    """Compile all kernels in the background, if this machine has not yet, before a job needs them."""
    from fedvalue.federated.warm_up import is_compiled

    if is_compiled():
        return
    program = [sys.executable, "-m", _PROGRAM, "compile"]
    threading.Thread(
        target=subprocess.run,
        args=(program,),
        kwargs={"check": False, "start_new_session": True},
        daemon=True,
    ).start()


def close_idle() -> None:
    """End the processes that wait for a job."""
    while (process := _taken()) is not None:
        process.close()


def _taken() -> ValuationProcess | None:
    while True:
        with _lock:
            if not _idle:
                return None
            process = _idle.pop()
        if process.usable:
            return process
        process.close()
