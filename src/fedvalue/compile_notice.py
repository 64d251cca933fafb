"""Notices that a kernel is compiled rather than loaded from the cache on disk.

Separate from `compiled`, so that registering here does not load the compiler: a small table never needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[], None]] = []


@contextmanager
def on_first_compilation(listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` once if a kernel is compiled inside the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        if listener in _listeners:
            _listeners.remove(listener)


def announce() -> None:
    """A kernel is being compiled."""
    while _listeners:
        _listeners.pop()()
