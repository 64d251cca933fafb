"""Disks that are really full or really read-only: a small file system of their own, mounted by the test.

Root passes over permissions, so a read-only folder proves nothing; a mount does, for everybody.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A tmpfs of a fixed size in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, *, leave: int = 0) -> None:
        """Take all the space but `leave` bytes, while others may be writing too."""
        with self._ballast.open("wb") as file:
            while True:
                free = os.statvfs(self.folder)
                room = free.f_bavail * free.f_frsize - leave
                try:
                    os.posix_fallocate(file.fileno(), 0, max(1, room))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    if room > 1:
                        continue  # somebody else took some of it
                return

    def clear(self) -> None:
        """Give the space back."""
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Disk]:
    """A file system of `size` bytes, gone afterwards. Skips the test where mounting is not allowed."""
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """`folder` cannot be written inside the block, not even by root."""
    folder.mkdir(parents=True, exist_ok=True)
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,bind,ro", str(folder))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(
            f"needs a file system of its own, and mounting is not allowed here: {done.stderr.strip()}"
        )
