"""Progress of long work, and stopping it with Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from fedvalue.compile_notice import on_first_compilation

if TYPE_CHECKING:
    from types import FrameType

    from rich.progress import Task

    from fedvalue.engines import Stop
    from fedvalue.typing import Progress

COMPILING = "compiling kernels, once; later runs start at once"

FIRST_LINE = 30.0
"""Seconds before slow work prints a line to a log."""

ESTIMATE_AFTER = 5.0
"""Seconds after which the speed of a stage allows an estimate."""


@contextmanager
def progress_bar(what: str, *, watch_compiling: bool = False) -> Iterator[Progress]:
    """A bar on stderr with the time left once it can be estimated.

    If stderr is not a terminal, slow work prints a line after half a minute, and then ever more rarely.
    `watch_compiling` announces that numba compiles a kernel.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class Time(ProgressColumn):
        """The time left, or the time so far while no estimate is possible."""

        def render(self, task: Task) -> Text:
            return Text(time_text(task.elapsed, task.time_remaining, task.percentage))

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), Time(),
        TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task(what, total=None, note="")
        lines = SlowLines(what)
        before = 0.0

        def report(done: float, total: float, note: str = "") -> None:
            nonlocal before
            if done < before:  # a new stage has another speed
                bar.reset(row)
            before = done
            bar.update(row, completed=done, total=total, note=note)
            if not console.is_terminal:
                lines.report(done, total, note)

        def compiling() -> None:
            if console.is_terminal:
                bar.update(row, note=COMPILING)
            else:
                sys.stderr.write(f"{COMPILING}\n")

        with on_first_compilation(compiling) if watch_compiling else nullcontext():
            yield report


class SlowLines:
    """Prints a line when work is slow: after half a minute, one minute, two, four, and so on."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._start = self._stage = clock()
        self._next = FIRST_LINE
        self._done = 0.0

    def report(self, done: float, total: float, note: str = "") -> None:
        """Record progress, and write a line when one is due."""
        now = self._clock()
        if done < self._done:
            self._stage = now
        self._done = done
        if now - self._start < self._next:
            return
        while self._next <= now - self._start:
            self._next *= 2
        part = done / total if total > 0 else 0.0
        elapsed = now - self._stage
        left = elapsed * (1 - part) / part if part > 0 and elapsed >= ESTIMATE_AFTER else None
        text = time_text(now - self._start, left, 100 * part)
        sys.stderr.write(f"{self._what}{f': {note}' if note else ''}, {part:.0%}, {text}\n")


def time_text(elapsed: float | None, remaining: float | None, percentage: float) -> str:
    """Time left ("0:42 left") if it can be estimated, otherwise the time so far ("0:27 so far")."""
    if remaining is not None and percentage >= 1:
        return f"{_clock(remaining)} left"
    return f"{_clock(elapsed or 0.0)} so far"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def interruptible() -> Iterator[Stop]:
    """The first Ctrl-C asks for the best answer so far, if the work has one; the second one ends it."""
    from fedvalue.engines import Stop

    stop = Stop()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as behind & in a script
        yield stop
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if stop.asked or not stop.possible:
            signal.default_int_handler(number, frame)
        stop.asked = True
        sys.stderr.write(
            "stopping: the values so far follow, with their error; Ctrl-C again leaves at once\n"
        )

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
