"""The large messages that came last, in memory beside their files, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeAlias

Place: TypeAlias = tuple[bytes, str, int]
"""Run, sender, number."""


class RecentBodies:
    """Bodies by place. The ones that came first are dropped first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bodies: OrderedDict[Place, memoryview] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def put(self, place: Place, body: bytes | memoryview) -> None:
        """Keep a body, if it fits at all."""
        with self._lock:
            self._drop(place)
            if len(body) > self._most:
                return
            self._bodies[place] = memoryview(body)
            self._size += len(body)
            while self._size > self._most:
                self._drop(next(iter(self._bodies)))

    def get(self, place: Place) -> memoryview | None:
        """The body, or None if it has been dropped."""
        with self._lock:
            return self._bodies.get(place)

    def drop(self, place: Place) -> None:
        """Forget one."""
        with self._lock:
            self._drop(place)

    def drop_run(self, run_id: bytes) -> None:
        """Forget all of a run."""
        with self._lock:
            for place in [place for place in self._bodies if place[0] == run_id]:
                self._drop(place)

    def _drop(self, place: Place) -> None:
        self._size -= len(self._bodies.pop(place, b""))
