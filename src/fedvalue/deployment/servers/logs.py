"""Structured logs: one JSON object per line, with a fixed set of fields.

The set is closed on purpose: there is no field in which an id, a token, a label, a count or a key
could end up, and free text comes only from our own error messages, which hold names and sizes.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
from typing import TextIO

FIELDS = (
    "run",
    "peer",
    "role",
    "state",
    "stage",
    "code",
    "reason",
    "method",
    "address",
    "bytes",
    "version",
    "missing",
)

MAX_TEXT = 1000
"""Letters of one field: an error may quote what a peer sent, and a peer may send a megabyte."""


class Log:
    """Writes events to a stream, usually stderr, where systemd or a container engine collects them."""

    def __init__(self, actor: str, stream: TextIO | None = None) -> None:
        self._actor = actor
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()

    def event(self, event: str, *, level: str = "info", **fields: str | int) -> None:
        """Write one line. Unknown fields are a mistake of ours and raise."""
        unknown = set(fields) - set(FIELDS)
        if unknown:
            raise ValueError(f"log fields {sorted(unknown)} are not allowed")
        time = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        said = {key: one[:MAX_TEXT] if isinstance(one, str) else one for key, one in fields.items()}
        line = {"time": time, "level": level, "actor": self._actor, "event": event, **said}
        with self._lock:
            try:
                self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                # A log that cannot be written (full disk, closed pipe) must not stop a run; the
                # audit log, which may not be lost, lives in the database.
                pass
