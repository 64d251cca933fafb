"""What a server stores: runs for ever, messages and mail until a run is purged.

The inbox is authoritative: every accepted message, in the order of acceptance. The role's answers are
stored verbatim beside it, so a result is sent again and never computed twice for two readers. Large
messages are files, small ones are in the database.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fedvalue.deployment.audit_trail import AUDIT_TABLE, append_audit, audit_lines
from fedvalue.deployment.network.wire import MAX_MAIL
from fedvalue.deployment.servers.upload_files import FILE_FROM, UploadFiles
from fedvalue.errors import InputError
from fedvalue.protocol import codec
from fedvalue.protocol.messages import Envelope
from fedvalue.storage.database import Database

_SCHEMA = (
    AUDIT_TABLE
    + """
CREATE TABLE IF NOT EXISTS runs (
    run_id BLOB PRIMARY KEY, manifest BLOB NOT NULL, state TEXT NOT NULL, code TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '', processed INTEGER NOT NULL DEFAULT 0, stage TEXT NOT NULL,
    stage_since REAL NOT NULL, ended REAL, purged INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seeds (run_id BLOB PRIMARY KEY, seed BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS inbox (
    run_id BLOB NOT NULL, k INTEGER NOT NULL, sender TEXT NOT NULL, number INTEGER NOT NULL,
    fingerprint BLOB NOT NULL, body BLOB, size INTEGER NOT NULL,
    PRIMARY KEY (run_id, k), UNIQUE (run_id, sender, number)
);
CREATE INDEX IF NOT EXISTS inbox_fingerprint ON inbox (run_id, sender, fingerprint);
CREATE TABLE IF NOT EXISTS outbox (
    run_id BLOB NOT NULL, recipient TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (run_id, recipient, number)
);
CREATE TABLE IF NOT EXISTS lobby (
    invitation BLOB NOT NULL, k INTEGER NOT NULL, seat TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (invitation, k), UNIQUE (invitation, seat, kind)
);
"""
)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as stored."""

    run_id: bytes
    manifest: bytes
    state: str
    code: str
    reason: str
    processed: int
    stage: str
    stage_since: float


@dataclass(frozen=True, slots=True)
class Stored:
    """One accepted message: number `k` of the run, number `number` of its sender.

    `fresh` says that the message never left memory since it was admitted.
    """

    k: int
    sender: str
    number: int
    envelope: Envelope = field(repr=False)
    fresh: bool


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A message that is about to be accepted.

    Args:
        number: Its place among the sender's messages.
        envelope: The message, which stays in memory for a while.
        body: Its bytes; None when they are in a file.
        size: Their number.
    """

    number: int
    envelope: Envelope = field(repr=False)
    body: bytes | None = field(repr=False)
    size: int

    @property
    def sender(self) -> str:
        """Who sent it."""
        return self.envelope.sender

    @property
    def fingerprint(self) -> bytes:
        """Digest of its content."""
        return self.envelope.message.fingerprint


class ServerStore:
    """The database and the uploads of one server."""

    def __init__(self, folder: Path) -> None:
        self._uploads = UploadFiles(folder / "spool")
        self._db = Database(folder / "server.sqlite", _SCHEMA)

    def add_run(self, run_id: bytes, manifest: bytes, *, now: float, audit: Sequence[str]) -> None:
        """Add a run. Its row stays for ever, so that a run id is never used twice."""
        with self._db.transaction() as db:
            db.execute(
                "INSERT INTO runs (run_id, manifest, state, stage, stage_since)"
                " VALUES (?, ?, 'open', 'open', ?)",
                (run_id, manifest, now),
            )
            append_audit(db, run_id, audit)

    def runs(self, *states: str) -> list[RunRow]:
        """The runs in these states; all without arguments."""
        marks = ",".join("?" * len(states))
        where = f"WHERE state IN ({marks})" if states else ""
        return [RunRow(*row) for row in self._db.rows(f"{_RUN} {where}", *states)]

    def run(self, run_id: bytes) -> RunRow | None:
        """One run."""
        row = self._db.one(f"{_RUN} WHERE run_id = ?", run_id)
        return None if row is None else RunRow(*row)

    def newest(self) -> float:
        """When a stage of any run last began, in seconds since 1970; 0 without runs."""
        row = self._db.one("SELECT max(stage_since) FROM runs")
        return float(row[0] or 0.0) if row else 0.0

    def seed(self, run_id: bytes) -> bytes:
        """The secret seed of a run: drawn once, the same after a restart, erased when the run is purged."""
        with self._db.transaction() as db:
            db.execute("INSERT OR IGNORE INTO seeds VALUES (?, ?)", (run_id, secrets.token_bytes(32)))
        row = self._db.one("SELECT seed FROM seeds WHERE run_id = ?", run_id)
        assert row is not None
        return bytes(row[0])

    def fingerprint(self, run_id: bytes, sender: str, number: int) -> bytes | None:
        """The fingerprint of an accepted message; None for a new one."""
        row = self._db.one(
            "SELECT fingerprint FROM inbox WHERE run_id = ? AND sender = ? AND number = ?",
            run_id, sender, number,
        )  # fmt: skip
        return None if row is None else bytes(row[0])

    def accepted(self, run_id: bytes, sender: str) -> int:
        """How many messages of `sender` are stored."""
        row = self._db.one("SELECT count(*) FROM inbox WHERE run_id = ? AND sender = ?", run_id, sender)
        return int(row[0]) if row else 0

    def volume(self, run_id: bytes, sender: str) -> tuple[int, int]:
        """Number and size of all messages that were accepted from `sender`."""
        row = self._db.one(
            "SELECT count(*), coalesce(sum(size), 0) FROM inbox WHERE run_id = ? AND sender = ?",
            run_id,
            sender,
        )
        assert row is not None
        return int(row[0]), int(row[1])

    def has(self, run_id: bytes, sender: str, fingerprint: bytes) -> bool:
        """Whether the same message was accepted from `sender`, under any number."""
        found = self._db.one(
            "SELECT 1 FROM inbox WHERE run_id = ? AND sender = ? AND fingerprint = ?",
            run_id, sender, fingerprint,
        )  # fmt: skip
        return found is not None

    def spool(self, run_id: bytes, sender: str, number: int, body: bytes | memoryview) -> bool:
        """Write a large message to its file before it is accepted; False for a small one."""
        if len(body) < FILE_FROM:
            return False
        self._uploads.write((run_id, sender, number), body)
        return True

    def accept(self, run_id: bytes, k: int, arrivals: Sequence[Arrival], audit: Sequence[str]) -> None:
        """Accept messages of a run, all or none.

        Args:
            run_id: The run.
            k: Place of the first one among all messages of the run.
            arrivals: The messages.
            audit: Lines of the audit log about them.
        """
        with self._db.transaction() as db:
            db.executemany(
                "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (run_id, k + place, one.sender, one.number, one.fingerprint, one.body, one.size)
                    for place, one in enumerate(arrivals)
                ],
            )
            append_audit(db, run_id, audit)
        for one in arrivals:
            self._uploads.keep_recent((run_id, one.sender, one.number), one.envelope, one.size)

    def message(self, run_id: bytes, k: int) -> Stored | None:
        """Accepted message number k of a run.

        Raises:
            EngineError: E_STORAGE: it cannot be read.
            RemoteProtocolError: It has changed on disk and is no message any more.
        """
        row = self._db.one("SELECT sender, number, body FROM inbox WHERE run_id = ? AND k = ?", run_id, k)
        if row is None:
            return None
        sender, number, body = row
        return self._stored(run_id, k, sender, number, body)

    def message_of(self, run_id: bytes, sender: str, number: int) -> Stored:
        """Accepted message `number` of `sender`; raises as `message` does."""
        row = self._db.one(
            "SELECT k, body FROM inbox WHERE run_id = ? AND sender = ? AND number = ?", run_id, sender, number
        )
        assert row is not None
        return self._stored(run_id, row[0], sender, number, row[1])

    def _stored(self, run_id: bytes, k: int, sender: str, number: int, body: bytes | None) -> Stored:
        recent = self._uploads.recent((run_id, sender, number))
        if recent is not None:
            return Stored(k, sender, number, recent, fresh=True)
        data = self._uploads.read((run_id, sender, number)) if body is None else body
        return Stored(k, sender, number, codec.decode(data), fresh=False)

    def unspool(self, run_id: bytes, sender: str, number: int) -> None:
        """Delete the file of a message that is not accepted after all."""
        self._uploads.delete((run_id, sender, number))

    def forget_recent(self, run_id: bytes, sender: str, number: int) -> None:
        """Free the memory of a message that is not needed again soon."""
        self._uploads.forget_recent((run_id, sender, number))

    def volumes(self, run_id: bytes) -> dict[str, tuple[int, int]]:
        """Number and size of all messages that were accepted, by sender."""
        rows = self._db.rows(
            "SELECT sender, count(*), sum(size) FROM inbox WHERE run_id = ? GROUP BY sender", run_id
        )
        return {str(sender): (int(count), int(size)) for sender, count, size in rows}

    def step(
        self,
        run_id: bytes,
        *,
        processed: int,
        outputs: Sequence[tuple[str, bytes]],
        state: str,
        stage: str,
        stage_since: float,
        code: str = "",
        reason: str = "",
        audit: Sequence[str] = (),
    ) -> None:
        """Store that the role handled message number `processed` - 1, with its answers and its new state."""
        with self._db.transaction() as db:
            db.execute(
                "UPDATE runs SET processed = ?, state = ?, stage = ?, stage_since = ?, code = ?, reason = ?,"
                " ended = CASE WHEN ? IN ('done', 'failed') THEN ? ELSE NULL END WHERE run_id = ?",
                (processed, state, stage, stage_since, code, reason, state, stage_since, run_id),
            )
            for recipient, body in outputs:
                db.execute(
                    "INSERT INTO outbox SELECT ?, ?, count(*), ? FROM outbox"
                    " WHERE run_id = ? AND recipient = ?",
                    (run_id, recipient, body, run_id, recipient),
                )
            append_audit(db, run_id, audit)

    def mail(self, run_id: bytes, recipient: str, after: int, limit: int) -> list[bytes]:
        """Mail from number `after` on: about `limit` bytes, and at least one message if there is one."""
        sizes = self._db.rows(
            "SELECT number, length(body) FROM outbox WHERE run_id = ? AND recipient = ? AND number >= ?"
            " ORDER BY number LIMIT ?",
            run_id, recipient, after, MAX_MAIL,
        )  # fmt: skip
        found: list[bytes] = []
        total = 0
        for number, size in sizes:
            total += size
            if found and total > limit:
                break
            row = self._db.one(
                "SELECT body FROM outbox WHERE run_id = ? AND recipient = ? AND number = ?",
                run_id, recipient, number,
            )  # fmt: skip
            if row is None:
                break  # erased meanwhile
            found.append(bytes(row[0]))
        return found

    def mail_size(self, run_id: bytes, recipient: str) -> int:
        """Number of messages for `recipient` so far."""
        row = self._db.one(
            "SELECT count(*) FROM outbox WHERE run_id = ? AND recipient = ?", run_id, recipient
        )
        return int(row[0]) if row else 0

    def mail_sizes(self, run_id: bytes) -> dict[str, int]:
        """Number of messages so far, by recipient."""
        rows = self._db.rows(
            "SELECT recipient, count(*) FROM outbox WHERE run_id = ? GROUP BY recipient", run_id
        )
        return {str(recipient): int(count) for recipient, count in rows}

    def mail_digests(self, run_id: bytes, recipient: str) -> list[bytes]:
        """SHA-256 of each message for `recipient` so far, in order."""
        found = []
        for number in range(self.mail_size(run_id, recipient)):
            row = self._db.one(
                "SELECT body FROM outbox WHERE run_id = ? AND recipient = ? AND number = ?",
                run_id, recipient, number,
            )  # fmt: skip
            assert row is not None
            found.append(sha256(row[0]).digest())
        return found

    def audit(self, run_id: bytes) -> list[str]:
        """The audit log of a run."""
        return audit_lines(self._db, run_id)

    def purge(self, run_id: bytes) -> None:
        """Delete the uploads and the seed. The run, its answers and its audit log stay.

        The files go first: a run is marked as purged only when nothing remains, and tried again otherwise.

        Raises:
            EngineError: E_STORAGE: something remains.
        """
        self._uploads.delete_run(run_id)
        with self._db.transaction() as db:
            db.execute("UPDATE inbox SET body = x'' WHERE run_id = ?", (run_id,))
            db.execute("DELETE FROM seeds WHERE run_id = ?", (run_id,))
            db.execute("UPDATE runs SET purged = 1 WHERE run_id = ?", (run_id,))
        self._db.cut_log()

    def unpurged(self) -> list[bytes]:
        """Ended runs whose uploads are still here, after a crash or a disk failure."""
        rows = self._db.rows("SELECT run_id FROM runs WHERE state IN ('done', 'failed') AND purged = 0")
        return [bytes(row[0]) for row in rows]

    def forget_mail(self, before: float) -> int:
        """Delete the mail of runs that ended before a moment; returns the number of messages."""
        with self._db.transaction() as db:
            done = "SELECT run_id FROM runs WHERE ended IS NOT NULL AND ended < ?"
            cursor = db.execute(f"DELETE FROM outbox WHERE run_id IN ({done})", (before,))  # noqa: S608
            return cursor.rowcount

    def forget_mail_to(self, run_id: bytes, recipient: str) -> None:
        """Delete the mail of one run to one recipient."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM outbox WHERE run_id = ? AND recipient = ?", (run_id, recipient))
        self._db.cut_log()

    def replace_mail_to(self, run_id: bytes, recipient: str, body: bytes) -> None:
        """Replace every message of one run to one recipient with `body`."""
        with self._db.transaction() as db:
            db.execute(
                "UPDATE outbox SET body = ? WHERE run_id = ? AND recipient = ?", (body, run_id, recipient)
            )
        self._db.cut_log()

    def leave(self, invitation: bytes, seat: str, kind: str, body: bytes) -> bytes:
        """Store a message of a lobby, or find the one that is in its place; returns what is there."""
        with self._db.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO lobby SELECT ?, count(*), ?, ?, ? FROM lobby WHERE invitation = ?",
                (invitation, seat, kind, body, invitation),
            )
            (stored,) = db.execute(
                "SELECT body FROM lobby WHERE invitation = ? AND seat = ? AND kind = ?",
                (invitation, seat, kind),
            ).fetchone()
        return bytes(stored)

    def lobby(self, invitation: bytes, after: int) -> list[tuple[str, str, bytes]]:
        """(seat, kind, body) of the messages of a lobby from number `after` on, some at a time."""
        rows = self._db.rows(
            "SELECT seat, kind, body FROM lobby WHERE invitation = ? AND k >= ? ORDER BY k LIMIT ?",
            invitation, after, MAX_MAIL,
        )  # fmt: skip
        return [(str(seat), str(kind), bytes(body)) for seat, kind, body in rows]

    def lobby_message(self, invitation: bytes, seat: str, kind: str) -> bytes | None:
        """One message of a lobby; None if it has not come."""
        row = self._db.one(
            "SELECT body FROM lobby WHERE invitation = ? AND seat = ? AND kind = ?", invitation, seat, kind
        )
        return None if row is None else bytes(row[0])

    def close_lobby(self, invitation: bytes) -> None:
        """Delete the messages of a lobby."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM lobby WHERE invitation = ?", (invitation,))

    def close(self) -> None:
        """Close the database."""
        self._db.close()


_RUN = "SELECT run_id, manifest, state, code, reason, processed, stage, stage_since FROM runs"


def read_audit(folder: Path, run_id: bytes) -> list[str]:
    """The audit log of a run, even while the server runs.

    Raises:
        InputError: Not the state folder of a server, or no such run.
    """
    if not (folder / "server.sqlite").is_file():
        raise InputError(f"{folder} is not the state folder of a server")
    store = ServerStore(folder)
    try:
        if store.run(run_id) is None:
            raise InputError("no such run in this state folder", code="E_RUN")
        return store.audit(run_id)
    finally:
        store.close()
