"""Scratch space on disk for what a party must not keep in memory and nobody else may read.

A scratch file has no name: it is unlinked as it is made, so that it is gone when the process ends,
however that happens. Its content is encrypted (AES-128, counter mode) under a key that is drawn
anew and never leaves the process, so that what stays on the disk's blocks is worth nothing. It is not
authenticated: who can write into our files can change our table just as well.
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
    """Our own disk is full or broken (E_STORAGE). No peer's message can become this error."""


class Scratch:
    """An encrypted file that grows, and can be read anywhere.

    Args:
        folder: On the disk that has room for it.

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
        """Put an array's bytes at the end; where they begin."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        start = self._end
        # Whatever comes next begins at a block of its own, also after a write that failed: no two
        # arrays share a block of the key stream.
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
        """The `size` bytes from `start`, where `append` said that an array begins."""
        data = b""
        with _disk_errors(self._folder):
            while len(data) < size:
                more = os.pread(self._file.fileno(), size - len(data), start + len(data))
                if not more:
                    raise OSError(0, "the scratch file has been cut")
                data = data + more if data else more
        out = np.empty(size + _BLOCK, dtype=np.uint8)
        self._cipher(start).update_into(data, out.data)
        return out[:size]

    def _cipher(self, start: int) -> CipherContext:
        """The key stream from a block on: encrypts and decrypts."""
        counter = (start // _BLOCK).to_bytes(_BLOCK, "big")
        return Cipher(algorithms.AES128(self._key), modes.CTR(counter)).encryptor()


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ScratchError(f"cannot use {folder}: {error.strerror}", code="E_STORAGE") from error
