"""Ctrl-C in the middle of compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Let an interrupt end as KeyboardInterrupt, wherever it came.

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
