"""SQLite with full synchronisation.

Everything that a process promises to others (an accepted message, a sent digest, a result) is on
disk before the promise leaves. A disk that is full or read-only raises EngineError E_STORAGE and
leaves the last committed state.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from fedvalue.errors import ConfigError
from fedvalue.storage.durable_files import PRIVATE, make_private_folder, storage_errors

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # FULL: a commit survives a power cut, not only a killed process.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    # Purged rows are overwritten, not just unlinked.
    "PRAGMA secure_delete = ON",
)


FORMAT = 1
"""Version of the tables. Raise it with every change of a schema; the ledger of epsilon, which outlives
state folders, has a separate version."""


class Database:
    """A database shared by the threads of this process: one writer, and readers that never wait for it.

    A commit returns when the disk has it. Readers use a separate connection and see the last commit. The
    file is created if missing; `form` is the version of its tables.

    Raises:
        EngineError: E_STORAGE: the file cannot be written.
        ConfigError: E_VERSION: another version of FedValue created it. The file is left unchanged.
    """

    def __init__(self, path: Path, schema: str, form: int = FORMAT) -> None:
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        with storage_errors(path):
            make_private_folder(path.parent)
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, PRIVATE))
            with ExitStack() as opened:
                self._connection = opened.enter_context(closing(_connect(path)))
                self._claim_format(path, form)
                for pragma in _PRAGMAS:
                    self._connection.execute(pragma)
                self._connection.executescript(schema)
                self._reader = opened.enter_context(closing(_connect(path)))
                self._reader.execute("PRAGMA query_only = ON")
                opened.pop_all()
        self._path = path

    def _claim_format(self, path: Path, form: int) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == form:
            return
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables:
            raise ConfigError(
                f"{path} has format {version}, this version of FedValue needs {form}: let its runs end "
                "with the version that created it, then start with a new state folder. A party copies its "
                "ledger.sqlite there, which records what was spent",
                code="E_VERSION",
            )
        # Before the tables: if the process is killed in between, the next start completes the file.
        self._connection.execute(f"PRAGMA user_version = {form}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; durable when the block ends.

        Raises:
            EngineError: E_STORAGE; no part of the block took effect.
        """
        with self._lock, storage_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._reading, storage_errors(self._path):
            return self._reader.execute(statement, values).fetchall()

    def one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query."""
        with self._reading, storage_errors(self._path):
            row: tuple[Any, ...] | None = self._reader.execute(statement, values).fetchone()
            return row

    def cut_log(self) -> None:
        """Checkpoint and truncate the write-ahead log, which still holds old pages of erased rows."""
        with self._lock, self._reading, storage_errors(self._path):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close both connections."""
        with self._lock, self._reading:
            self._reader.close()
            self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
