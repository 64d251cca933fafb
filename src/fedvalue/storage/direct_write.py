"""Writing large files past the system's page cache.

A file that is synchronised at once gains nothing from lying in that cache first: the copy, and the
pages it must find, cost several times as much as the write. Where a file system cannot do it, files
are written as usual.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading

import numpy as np

_BLOCK = 4096
"""What such writes must be aligned to, in memory and in the file."""

_DIRECT = getattr(os, "O_DIRECT", 0)


class DirectWriter:
    """Writes one file at a time, through a buffer that is aligned as the system wants it."""

    def __init__(self, buffer_bytes: int) -> None:
        self._buffer = np.frombuffer(mmap.mmap(-1, -(-buffer_bytes // _BLOCK) * _BLOCK), dtype=np.uint8)
        self._lock = threading.Lock()

    def write(self, handle: int, data: bytes | memoryview) -> None:
        """Fill an empty file.

        Raises:
            OSError: The disk is full or broken.
        """
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        try:
            fcntl.fcntl(handle, fcntl.F_SETFL, flags | _DIRECT)
            with self._lock:
                self._aligned(handle, memoryview(data))
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
            # Not on this file system, or not in blocks of this size.
            fcntl.fcntl(handle, fcntl.F_SETFL, flags)
            write_all(handle, data)
        os.ftruncate(handle, len(data))

    def _aligned(self, handle: int, data: memoryview) -> None:
        for start in range(0, len(data), len(self._buffer)):
            piece = data[start : start + len(self._buffer)]
            end = -(-len(piece) // _BLOCK) * _BLOCK
            self._buffer[: len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            try:
                done = 0
                while done < end:
                    done += os.pwrite(handle, self._buffer[done:end].data, start + done)
            finally:
                # Nothing of one message is written behind the end of the next, or stays when its run is over.
                self._buffer[:end] = 0


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write a file from its beginning, through the page cache."""
    view, place = memoryview(data), 0
    while place < len(view):
        place += os.pwrite(handle, view[place:], place)
