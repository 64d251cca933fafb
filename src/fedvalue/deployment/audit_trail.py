"""Our own audit log of a run: makes the signed lines, and the table that keeps them."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedvalue.identity.audit_log import GENESIS, ChainWriter, Receipt, last_receipt

if TYPE_CHECKING:
    import sqlite3

    from fedvalue.identity.cards import Identity
    from fedvalue.storage.database import Database

AUDIT_TABLE = """
CREATE TABLE IF NOT EXISTS audit (
    run_id BLOB NOT NULL, seq INTEGER NOT NULL, line TEXT NOT NULL, PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
"""


class AuditTrail:
    """The log of one run, continued where the stored lines end.

    Args:
        identity: Whose log it is.
        run_id: Of which run.
        lines: What is stored of it.
        clock: Seconds since 1970.
    """

    def __init__(
        self, identity: Identity, run_id: bytes, lines: Sequence[str], clock: Callable[[], float] = time.time
    ) -> None:
        self._identity = identity
        self._run_id = run_id.hex()
        self._clock = clock
        self.receipt: Receipt | None = last_receipt(lines)

    @contextmanager
    def entries(self, events: Sequence[tuple[str, str]]) -> Iterator[list[str]]:
        """The next lines, of (event, digest). The log advances if the block, which stores them, succeeds."""
        last = self.receipt
        seq, prev = (0, GENESIS) if last is None else (last.seq + 1, last.head)
        writer = ChainWriter(self._identity, self._run_id, seq=seq, prev=prev)
        moment = dt.datetime.fromtimestamp(self._clock(), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield [writer.append(event, digest, moment) for event, digest in events]
        self.receipt = writer.receipt or last


def append_audit(db: sqlite3.Connection, run_id: bytes, lines: Sequence[str]) -> None:
    """Store lines at the end of a run's log, inside the caller's transaction."""
    for line in lines:
        db.execute(
            "INSERT INTO audit SELECT ?, count(*), ? FROM audit WHERE run_id = ?", (run_id, line, run_id)
        )


def audit_lines(database: Database, run_id: bytes) -> list[str]:
    """The stored log of a run."""
    rows = database.rows("SELECT line FROM audit WHERE run_id = ? ORDER BY seq", run_id)
    return [str(row[0]) for row in rows]
