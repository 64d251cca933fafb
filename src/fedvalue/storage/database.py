"""SQLite with full synchronisation, and files that are either whole or absent.

Everything that a process promised to others (an accepted message, a sent digest, a result) is on
disk before the promise leaves. A disk that is full or read-only ends in EngineError E_STORAGE and
leaves the last committed state.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedvalue.errors import ConfigError, EngineError
from fedvalue.storage.direct_write import write_all

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # FULL: a commit survives a power cut, not only a killed process.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    # Purged rows are overwritten, not just unlinked.
    "PRAGMA secure_delete = ON",
)


FORMAT = 1
"""Number of the tables' form. Who changes a schema raises it; the ledger of epsilon, which outlives state
folders, has its own."""


class Database:
    """One writer at a time, and readers that do not wait for it. Threads of this process share it.

    A commit takes as long as the disk needs to keep it. Whoever reads meanwhile has a connection of its
    own, and finds what was committed before.

    Args:
        path: The file; made where there is none.
        schema: Its tables.
        form: Number of their form.

    Raises:
        EngineError: E_STORAGE: it cannot be written.
        ConfigError: E_VERSION: another version of FedValue made it. It is left as it is.
    """

    def __init__(self, path: Path, schema: str, form: int = FORMAT) -> None:
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._connection = _connect(path)
            try:
                self._claim_format(path, form)
            except ConfigError:
                self._connection.close()
                raise
            for pragma in _PRAGMAS:
                self._connection.execute(pragma)
            self._connection.executescript(schema)
            self._reader = _connect(path)
            self._reader.execute("PRAGMA query_only = ON")
        self._path = path

    def _claim_format(self, path: Path, form: int) -> None:
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found == form:
            return
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables:
            raise ConfigError(
                f"{path} has format {found}, this version of FedValue needs {form}: go on with the version "
                "that made it, or let its runs end there and begin with a new state folder, into which a "
                "party's ledger.sqlite must be copied: it says what was spent",
                code="E_VERSION",
            )
        # Before the tables: who is killed in between leaves a file that the next start completes.
        self._connection.execute(f"PRAGMA user_version = {form}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, on disk when the block ends.

        Raises:
            EngineError: E_STORAGE; nothing of the block has happened.
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
            found: tuple[Any, ...] | None = self._reader.execute(statement, values).fetchone()
            return found

    def cut_log(self) -> None:
        """Fold the write-ahead log in and cut it: it still holds the old pages of what was erased."""
        with self._lock, self._reading, storage_errors(self._path):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Give the file back."""
        with self._lock, self._reading:
            self._reader.close()
            self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock file `path` during the block; a process that dies gives it back. The file stays.

    Raises:
        EngineError: E_LOCKED: another process holds it. E_STORAGE: it cannot be made.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        with storage_errors(path):  # a file system without locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EngineError(f"another process is at work in {path.parent}", code="E_LOCKED") from None
        yield
    finally:
        os.close(handle)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns failures of the disk into EngineError E_STORAGE, naming the folder and the reason."""
    try:
        yield
    except sqlite3.Error as error:
        raise EngineError(f"cannot write to {path}: {error}", code="E_STORAGE") from error
    except OSError as error:
        raise EngineError(f"cannot write to {path}: {error.strerror}", code="E_STORAGE") from error


def write_whole(
    path: Path,
    data: bytes | memoryview,
    *,
    mode: int = 0o600,
    write: Callable[[int, bytes | memoryview], None] = write_all,
) -> None:
    """Write a file so that it is either absent, old or whole, also after a power cut.

    Args:
        path: The file.
        data: Its content.
        mode: Its permissions.
        write: How to fill an open file.

    Raises:
        EngineError: E_STORAGE; a half-written file is removed.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A name that nobody can foresee, made anew (O_EXCL, O_NOFOLLOW): nobody can put a link there first.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            try:
                os.fchmod(handle, mode)
                write(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
            temporary.replace(path)
            sync_folder(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
