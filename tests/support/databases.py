"""State databases of servers and parties, opened from outside."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction, then close: `with sqlite3.connect` alone leaves the connection open."""
    with closing(sqlite3.connect(path)) as db, db:
        yield db
