"""How far long work has come, and how a person ends it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from rich.progress import Task

    from fedvalue.engines import Stop
    from fedvalue.typing import Progress

COMPILING = "compiling kernels, once; later runs start at once"


@contextmanager
def progress_bar(what: str, *, watch_compiling: bool = False) -> Iterator[Progress]:
    """A bar on stderr with the time left once it can be estimated; silent when stderr is no terminal.

    Args:
        what: The work, in a word.
        watch_compiling: Whether to say when numba compiles a kernel that its cache does not hold.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class Time(ProgressColumn):
        """The time left, or the time so far while nothing is known about the rest."""

        def render(self, task: Task) -> Text:
            return Text(time_text(task.elapsed, task.time_remaining, task.percentage))

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), Time(),
        TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task(what, total=None, note="")

        def tell(done: float, total: float, note: str = "") -> None:
            bar.update(row, completed=done, total=total, note=note)

        def compiling() -> None:
            if console.is_terminal:
                bar.update(row, note=COMPILING)
            else:
                sys.stderr.write(f"{COMPILING}\n")

        if not watch_compiling:
            yield tell
            return
        with on_first_compilation(compiling):
            yield tell


def time_text(elapsed: float | None, remaining: float | None, percentage: float) -> str:
    """Time left ("0:42 left") where it can be estimated, else the time so far ("0:27 so far")."""
    if remaining is not None and percentage >= 1:
        return f"{_clock(remaining)} left"
    return f"{_clock(elapsed or 0.0)} so far"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def on_first_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` once if numba compiles anything meanwhile; loading from its cache does not count."""
    from numba.core import event

    class FirstCompilation(event.Listener):
        announced = False

        def on_start(self, event: Any) -> None:
            if not self.announced:
                self.announced = True
                tell()

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", FirstCompilation()):
        yield


@contextmanager
def interruptible() -> Iterator[Stop]:
    """The first Ctrl-C asks work that can for its best answer so far; otherwise, and next time, it ends."""
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
