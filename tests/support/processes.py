"""Real processes for tests, killed with SIGKILL where a test says so.

They are forked from a process that has loaded the programs and their kernels, which takes a second, and
done nothing else. It must not load gRPC, which is not safe to fork: one start in some hundreds hung.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

PATIENCE = 240.0
"""Seconds after which a test gives up waiting: what works is done long before, also on a busy machine."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.preloaded"])


def _redirected(target: Callable[..., None], log: str, arguments: tuple[Any, ...]) -> None:
    handle = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout = sys.stderr = os.fdopen(handle, "w", buffering=1)
    target(*arguments)


class Process:
    """One process, and how it ended."""

    def __init__(self, target: Callable[..., None], *arguments: Any, log: Path) -> None:
        self._process: BaseProcess = _context.Process(
            target=_redirected, args=(target, str(log), arguments), daemon=True
        )
        self.log = log
        self._process.start()

    @property
    def code(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float = PATIENCE) -> int:
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"still running: {self.text()[-2000:]}"
        return self._process.exitcode

    def kill(self) -> None:
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(PATIENCE)

    def terminate(self) -> None:
        if self._process.is_alive():
            self._process.terminate()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""


def log_events(text: str, *kinds: str) -> list[dict[str, str]]:
    """Events of these kinds in what a server has written so far.

    Its last line may be half written, and gRPC writes lines of its own.
    """
    lines = text.rpartition("\n")[0].splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return [event for event in events if event["event"] in kinds]


def files_in(folder: Path) -> list[Path]:
    """Files below a folder in which running servers make and remove others: `rglob` fails there."""
    return [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]


def until(condition: Callable[[], bool], seconds: float = PATIENCE, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)
