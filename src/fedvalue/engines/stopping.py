"""Ending long work early: at a person's request, with the best answer so far, or by Ctrl-C."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Stop:
    """A person's request to end long work and take the answer so far.

    Work that can end early looks at `asked` between its steps, and is inside `offered` while it does: at any
    other time a request would have no effect.

    Args:
        asked: Whether somebody wants the work to end.
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
