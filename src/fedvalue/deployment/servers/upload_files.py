"""Messages of all runs: a file for each large one, and the most recent ones decoded in memory.

Parties upload in step, so a chunk is usually counted while it is still in memory (`docs/decisions/0407`).
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TypeAlias

from fedvalue.protocol.messages import Envelope
from fedvalue.storage.durable_files import storage_errors, write_unread

FILE_FROM = 64 << 10
"""Messages of this size and more become files: a chunk has 1.75 MiB, everything else is small."""

RECENT_BYTES = 13 << 20
"""Size of the messages kept in memory until the other parties' arrive: a chunk of each of seven parties."""

OVERHEAD = 1024
"""Bytes that a decoded message takes beside its content, at most."""

Place: TypeAlias = tuple[bytes, str, int]
"""Run, sender, number."""


class UploadFiles:
    """Message bodies by run, sender and number, in a folder of the server's state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recent = RecentMessages(RECENT_BYTES)

    def write(self, place: Place, body: bytes | memoryview) -> None:
        """Store a body durably. It counts once the database has its place.

        Raises:
            EngineError: E_STORAGE; nothing was stored.
        """
        write_unread(self._path(place), body)

    def keep_recent(self, place: Place, envelope: Envelope, n_bytes: int) -> None:
        """Keep a message of `n_bytes` bytes in memory for a while, decoded."""
        self._recent.put(place, envelope, n_bytes)

    def recent(self, place: Place) -> Envelope | None:
        """The message if it never left memory."""
        return self._recent.get(place)

    def read(self, place: Place) -> bytes:
        """The body, from its file.

        Raises:
            EngineError: E_STORAGE.
        """
        path = self._path(place)
        with storage_errors(path):
            return path.read_bytes()

    def forget_recent(self, place: Place) -> None:
        """Free the memory of a message; its bytes stay on disk."""
        self._recent.drop(place)

    def delete(self, place: Place) -> None:
        """Delete a body that was not accepted after all."""
        self._recent.drop(place)
        path = self._path(place)
        with storage_errors(path):
            path.unlink(missing_ok=True)

    def delete_run(self, run_id: bytes) -> None:
        """Delete all bodies of a run.

        Raises:
            EngineError: E_STORAGE: some remain.
        """
        self._recent.drop_run(run_id)
        folder = self._folder / run_id.hex()
        with storage_errors(folder):
            if folder.exists():
                shutil.rmtree(folder)

    def _path(self, place: Place) -> Path:
        run_id, sender, number = place
        # Sender names come from the verified manifest: lower-case letters, digits, hyphens.
        return self._folder / run_id.hex() / sender / f"{number}.msg"


class RecentMessages:
    """Decoded messages by place, up to a total size. The oldest are dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._messages: OrderedDict[Place, tuple[Envelope, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def put(self, place: Place, envelope: Envelope, n_bytes: int) -> None:
        """Keep a message that was decoded from `n_bytes` bytes, if it fits at all."""
        size = n_bytes + OVERHEAD
        with self._lock:
            self._drop(place)
            if size > self._max_bytes:
                return
            self._messages[place] = (envelope, size)
            self._size += size
            while self._size > self._max_bytes:
                self._drop(next(iter(self._messages)))

    def get(self, place: Place) -> Envelope | None:
        """The message, or None if it has been dropped."""
        with self._lock:
            kept = self._messages.get(place)
        return None if kept is None else kept[0]

    def drop(self, place: Place) -> None:
        """Drop one message; a missing one is ignored."""
        with self._lock:
            self._drop(place)

    def drop_run(self, run_id: bytes) -> None:
        """Drop all messages of a run."""
        with self._lock:
            for place in [place for place in self._messages if place[0] == run_id]:
                self._drop(place)

    def _drop(self, place: Place) -> None:
        _, size = self._messages.pop(place, (None, 0))
        self._size -= size
