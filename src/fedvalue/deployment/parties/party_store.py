"""A party's runs, in a database that only it can read.

The seed of a run is kept until the run ends, because a role rebuilt after a crash must be the same
role: with another seed it would mask other data under the same run id. For the same reason the digest
of the input and the fingerprint of every message are on disk before the message leaves. When the run
ends, seed and messages are erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.deployment.audit_trail import AUDIT_TABLE, append_audit, audit_lines
from fedvalue.errors import ConfigError
from fedvalue.storage.database import Database

if TYPE_CHECKING:
    import sqlite3

    from fedvalue.identity.audit_log import Receipt

_SCHEMA = (
    AUDIT_TABLE
    + """
CREATE TABLE IF NOT EXISTS runs (
    run_id BLOB PRIMARY KEY, seed BLOB NOT NULL, input BLOB NOT NULL, state TEXT NOT NULL DEFAULT 'running',
    expires REAL NOT NULL,
    code TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL DEFAULT '', result BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS inbox (
    run_id BLOB NOT NULL, k INTEGER NOT NULL, server TEXT NOT NULL, number INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run_id, k), UNIQUE (run_id, server, number)
);
CREATE TABLE IF NOT EXISTS sent (
    run_id BLOB NOT NULL, server TEXT NOT NULL, number INTEGER NOT NULL, fingerprint BLOB NOT NULL,
    PRIMARY KEY (run_id, server, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS receipts (
    run_id BLOB NOT NULL, server TEXT NOT NULL, seq INTEGER NOT NULL, line TEXT NOT NULL,
    PRIMARY KEY (run_id, server, seq, line)
) WITHOUT ROWID;
"""
)


@dataclass(frozen=True, slots=True)
class PartyRunRow:
    """One run of a party, as it stands on disk."""

    seed: bytes = field(repr=False)
    input: bytes = field(repr=False)
    state: str
    code: str
    reason: str
    kind: str
    result: bytes | None


class PartyStore:
    """The database of one party."""

    def __init__(self, folder: Path) -> None:
        self._db = Database(folder / "party.sqlite", _SCHEMA)

    def begin(self, run_id: bytes, *, seed: bytes, digest: bytes, expires: float) -> PartyRunRow:
        """The run, new or known.

        Raises:
            ConfigError: E_CONFLICT: it was begun with other data.
        """
        with self._db.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO runs (run_id, seed, input, expires) VALUES (?, ?, ?, ?)",
                (run_id, seed, digest, expires),
            )
        row = self._db.one(
            "SELECT seed, input, state, code, reason, kind, result FROM runs WHERE run_id = ?", run_id
        )
        assert row is not None
        run = PartyRunRow(*row)
        if run.state == "running" and run.input != digest:
            raise ConfigError(
                "the table has changed since this run began; a run never continues with other data "
                "(restore the table, or agree on a new manifest)",
                code="E_CONFLICT",
            )
        return run

    def runs(self) -> list[tuple[bytes, str, str, str]]:
        """(run id, state, code, reason) of every run."""
        rows = self._db.rows("SELECT run_id, state, code, reason FROM runs")
        return [(bytes(run_id), state, code, reason) for run_id, state, code, reason in rows]

    def begin_unless_known(self, run_id: bytes, *, expires: float) -> PartyRunRow:
        """The run as it stands; a new one, without seed and input, if it was never begun."""
        with self._db.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO runs (run_id, seed, input, expires) VALUES (?, x'', x'', ?)",
                (run_id, expires),
            )
        row = self._db.one(
            "SELECT seed, input, state, code, reason, kind, result FROM runs WHERE run_id = ?", run_id
        )
        assert row is not None
        return PartyRunRow(*row)

    def erase_expired(self, now: float) -> int:
        """End the runs that cannot continue any more, and erase their seeds; how many they were."""
        rows = self._db.rows("SELECT run_id FROM runs WHERE state = 'running' AND expires < ?", now)
        for (run_id,) in rows:
            self.finish(
                bytes(run_id), state="failed", code="E_DEADLINE", reason="the run has expired",
                kind="TransportError",
            )  # fmt: skip
        return len(rows)

    def inbox(self, run_id: bytes) -> list[tuple[str, int, bytes]]:
        """(server, number, body) of every received message, in the order of receipt."""
        rows = self._db.rows("SELECT server, number, body FROM inbox WHERE run_id = ? ORDER BY k", run_id)
        return [(str(server), int(number), bytes(body)) for server, number, body in rows]

    def add(
        self,
        run_id: bytes,
        *,
        k: int = 0,
        received: Sequence[tuple[str, int, bytes]] = (),
        sending: Sequence[tuple[str, int, bytes]] = (),
        receipts: Sequence[Receipt] = (),
        audit: Sequence[str] = (),
    ) -> None:
        """Store what was received and what is about to leave, all or nothing.

        Args:
            run_id: The run.
            k: Place of the first received message among all of the run.
            received: (server, number, body) of messages.
            sending: (server, number, fingerprint) of messages.
            receipts: Signed heads of the servers' logs; of two that contradict each other, both.
            audit: Lines of our log about all this.
        """
        with self._db.transaction() as db:
            db.executemany(
                "INSERT INTO inbox VALUES (?, ?, ?, ?, ?)",
                [(run_id, k + place, *message) for place, message in enumerate(received)],
            )
            db.executemany(
                "INSERT INTO sent VALUES (?, ?, ?, ?)", [(run_id, *message) for message in sending]
            )
            _keep(db, run_id, receipts, audit)

    def sent(self, run_id: bytes, server: str) -> list[bytes]:
        """Fingerprints of everything that may have left for a server, in order."""
        rows = self._db.rows(
            "SELECT fingerprint FROM sent WHERE run_id = ? AND server = ? ORDER BY number", run_id, server
        )
        return [bytes(row[0]) for row in rows]

    def receipts(self, run_id: bytes) -> list[str]:
        """All kept receipts."""
        rows = self._db.rows("SELECT line FROM receipts WHERE run_id = ? ORDER BY server, seq", run_id)
        return [str(row[0]) for row in rows]

    def audit(self, run_id: bytes) -> list[str]:
        """Our own audit log."""
        return audit_lines(self._db, run_id)

    def finish(
        self,
        run_id: bytes,
        *,
        state: str,
        result: bytes | None = None,
        code: str = "",
        reason: str = "",
        kind: str = "",
        receipts: Sequence[Receipt] = (),
        audit: Sequence[str] = (),
    ) -> None:
        """End a run: the result stays, the seed and all messages are erased."""
        with self._db.transaction() as db:
            db.execute(
                "UPDATE runs SET state = ?, code = ?, reason = ?, kind = ?, result = ?, seed = x''"
                " WHERE run_id = ?",
                (state, code, reason, kind, result, run_id),
            )
            db.execute("DELETE FROM inbox WHERE run_id = ?", (run_id,))
            _keep(db, run_id, receipts, audit)
        self._db.cut_log()

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def _keep(db: sqlite3.Connection, run_id: bytes, receipts: Sequence[Receipt], audit: Sequence[str]) -> None:
    db.executemany(
        "INSERT OR IGNORE INTO receipts VALUES (?, ?, ?, ?)",
        [(run_id, one.actor, one.seq, one.to_line()) for one in receipts],
    )
    append_audit(db, run_id, audit)
