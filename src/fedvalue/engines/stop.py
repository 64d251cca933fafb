"""Ending long work early, with the best answer so far."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Stop:
    """A person's wish to end long work and take what there is.

    Work that can end early looks at `asked` between its steps, and tells by `offered` while it does: at any
    other time nobody would listen.

    Args:
        asked: Whether somebody wants an end.
        possible: Whether anything would come of asking now.
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
