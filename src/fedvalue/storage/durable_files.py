"""Files that are whole or absent, and the lock that keeps two processes apart.

- `atomic_write` is the one place in the package that replaces a file.
- `write_durably` adds parent folders, and EngineError E_STORAGE when the disk is full or read-only.
- `write_unread` is for files that are read only after a database has recorded that they are complete.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedvalue.errors import EngineError

PRIVATE = 0o600
"""Permissions of files that only their owner may read."""
PUBLIC = 0o644
_IN_PLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


def atomic_write(path: Path, data: bytes | memoryview, *, mode: int | None = None) -> None:
    """Replace a file: readers, and a machine after a power cut, see the old content or all of the new.

    Args:
        path: The file. A symbolic link is replaced, not followed.
        data: Its content.
        mode: Its permissions; None leaves them to the umask, as for any new file.

    Raises:
        OSError: The folder is missing, read-only or full. The old file is untouched.
    """
    # O_EXCL with an unpredictable name: nobody can plant a link there first.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else PRIVATE)
    try:
        try:
            if mode is not None:
                os.fchmod(handle, mode)
            _write_all(handle, data)
        finally:
            os.close(handle)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_durably(path: Path, data: bytes | memoryview, *, mode: int = PRIVATE) -> None:
    """Write a file atomically, with its parent folders, which are private.

    Raises:
        EngineError: E_STORAGE; the old file, if any, is untouched.
    """
    with storage_errors(path):
        make_private_folder(path.parent)
        atomic_write(path, data, mode=mode)


def write_unread(path: Path, data: bytes | memoryview) -> None:
    """Write a private file in place, with its parent folders: one synchronisation instead of two.

    It may be read only after its writer has recorded, elsewhere, that it is complete. The remains of an
    interrupted write are overwritten. Linux file systems store the name of a new file with its content.

    Raises:
        EngineError: E_STORAGE; there is no such file.
    """
    with storage_errors(path):
        try:
            handle = os.open(path, _IN_PLACE, PRIVATE)
        except FileNotFoundError:
            make_private_folder(path.parent)
            handle = os.open(path, _IN_PLACE, PRIVATE)
        try:
            try:
                _write_all(handle, data)
            finally:
                os.close(handle)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _write_all(handle: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.fsync(handle)


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for the owner only. Existing ones stay as they are.

    Raises:
        OSError: It cannot be created.
    """
    # Path.mkdir applies `mode` to the last folder alone.
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold the lock file `path` during the block. A process that dies releases it; the file stays.

    Raises:
        EngineError: E_LOCKED: another process holds the lock. E_STORAGE: the file cannot be created.
    """
    with storage_errors(path):
        make_private_folder(path.parent)
        handle = os.open(path, os.O_CREAT | os.O_WRONLY, PRIVATE)
    try:
        with storage_errors(path):  # some file systems have no locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EngineError(f"another process is using {path.parent}", code="E_LOCKED") from None
        yield
    finally:
        os.close(handle)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn disk and database failures into EngineError E_STORAGE with the path and the reason."""
    try:
        yield
    except sqlite3.Error as error:
        raise EngineError(f"cannot write to {path}: {error}", code="E_STORAGE") from error
    except OSError as error:
        raise EngineError(f"cannot write to {path}: {error.strerror}", code="E_STORAGE") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
