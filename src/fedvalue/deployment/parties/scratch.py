"""Encrypted scratch space on disk, for rows that do not fit into memory.

A scratch file is unlinked when it is created, so it is gone when the process ends, however that happens.
Its content is encrypted (AES-128, counter mode) under a fresh key that never leaves the process, so blocks
that remain on the disk are useless. It is not authenticated: somebody who can write to our files can change
our table just as well.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from fedvalue.errors import EngineError
from fedvalue.storage.durable_files import make_private_folder

_BLOCK = 16


class ScratchError(EngineError):
    """Our own disk is full or broken (E_STORAGE). No message of a peer becomes this error."""


class Scratch:
    """An encrypted file to append to and read from anywhere.

    Args:
        folder: A folder on a disk with enough space.

    Raises:
        ScratchError: Here and below: the disk is full, or cannot be written or read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _disk_errors(folder):
            make_private_folder(folder)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  closed below
        self.close = weakref.finalize(self, self._file.close)
        self._key = secrets.token_bytes(_BLOCK)
        self._end = 0

    def append(self, array: NDArray[np.generic]) -> int:
        """Append an array's bytes; returns where they begin."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        start = self._end
        # The next array begins at a new block, even if this write fails: no two arrays share a block of the
        # key stream.
        self._end = start + -(-len(data) // _BLOCK) * _BLOCK
        out = np.empty(len(data) + _BLOCK, dtype=np.uint8)
        self._cipher(start).update_into(data.data, out.data)
        rest, place = out[: len(data)].data, start
        with _disk_errors(self._folder):
            while rest:
                written = os.pwrite(self._file.fileno(), rest, place)
                rest, place = rest[written:], place + written
        return start

    def read(self, start: int, size: int) -> NDArray[np.uint8]:
        """The `size` bytes from `start`, which `append` returned."""
        data = b""
        with _disk_errors(self._folder):
            while len(data) < size:
                more = os.pread(self._file.fileno(), size - len(data), start + len(data))
                if not more:
                    raise OSError(0, "the scratch file is truncated")
                data = data + more if data else more
        out = np.empty(size + _BLOCK, dtype=np.uint8)
        self._cipher(start).update_into(data, out.data)
        return out[:size]

    def _cipher(self, start: int) -> CipherContext:
        """The key stream from block `start` on; encrypts and decrypts."""
        counter = (start // _BLOCK).to_bytes(_BLOCK, "big")
        return Cipher(algorithms.AES128(self._key), modes.CTR(counter)).encryptor()


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ScratchError(f"cannot use {folder}: {error.strerror}", code="E_STORAGE") from error
