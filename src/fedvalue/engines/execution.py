"""How long-running work is executed: where it runs, its progress callback, and how a user ends it early."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from fedvalue.typing import Progress


@dataclass(slots=True)
class Stop:
    """A user's request to end long work and take the answer so far.

    Work that can end early looks at `asked` between its steps, and is inside `offered` while it does: at any
    other time a request would have no effect.

    Args:
        asked: Whether the user has asked for the work to end.
        possible: Whether a request would have an effect now.
    """

    asked: bool = False
    possible: bool = False

    @contextmanager
    def offered(self) -> Iterator[None]:
        """Within it, work ends early when asked."""
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
        """The same without progress, for short parts of the work."""
        return replace(self, progress=None)

    def report(self, done: float, total: float, note: str = "") -> None:
        """Pass on how much of the work is done."""
        if self.progress is not None:
            self.progress(float(done), float(total), note)


HERE = Execution()
"""On threads of this machine, without progress."""


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Let an interrupt end as KeyboardInterrupt, also in the middle of compiled code.

    Python notices it when a compiled kernel returns to the main thread, and then reports that the
    kernel "returned a result with an exception set": a SystemError, caused by the interrupt or by
    another SystemError that is.
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
