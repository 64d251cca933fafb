"""What the operator of a server sees: structured logs, metrics, and a health check.

Metrics and health are served over HTTP on loopback only.
"""

from __future__ import annotations

import datetime as dt
import http.server
import ipaddress
import json
import sys
import threading
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from fedvalue.deployment.process import peak_memory
from fedvalue.errors import ConfigError, EngineError
from fedvalue.untrusted_text import printable

FIELDS = (
    "run", "peer", "role", "state", "stage", "code", "reason", "method", "address", "bytes", "version",
    "missing",
)  # fmt: skip
"""Fields of a log line. The set is closed on purpose: there is no field that could hold an id, a token, a
label, a count or a key, and free text comes only from our own error messages, which hold names and sizes."""

MAX_TEXT = 1000
"""Longest field, in characters: an error may quote what a peer sent, and a peer may send a megabyte."""


class Log:
    """Writes one JSON object per line to a stream, usually stderr, for systemd or a container to collect."""

    def __init__(self, actor: str, stream: TextIO | None = None) -> None:
        self._actor = actor
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()

    def event(self, event: str, *, level: str = "info", **fields: str | int) -> None:
        """Write one line.

        Raises:
            ValueError: A field that is not in FIELDS.
        """
        unknown = set(fields) - set(FIELDS)
        if unknown:
            raise ValueError(f"log fields {sorted(unknown)} are not allowed")
        time = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        # JSON alone would let C1 controls and line separators of a peer through.
        safe = {
            key: printable(one[:MAX_TEXT]) if isinstance(one, str) else one for key, one in fields.items()
        }
        line = {"time": time, "level": level, "actor": self._actor, "event": event, **safe}
        with self._lock:
            try:
                self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                # A log that cannot be written (full disk, closed pipe) must not stop a run. The
                # audit log, which must not be lost, is in the database.
                pass


class Metrics:
    """The numbers of one server, in a registry of its own: tests run several servers in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.messages = Counter("fedvalue_messages", "Messages accepted.", registry=self.registry)
        self.bytes = Counter("fedvalue_bytes", "Bytes of accepted messages.", registry=self.registry)
        self.refused = Counter("fedvalue_refused", "Calls refused.", ["code"], registry=self.registry)
        self.runs_ended = Counter(
            "fedvalue_runs_ended", "Runs that ended.", ["state", "code"], registry=self.registry
        )
        self.runs_active = Gauge("fedvalue_runs_active", "Runs that have not ended.", registry=self.registry)
        resident = Gauge(
            "fedvalue_resident_bytes", "Peak resident memory of the process.", registry=self.registry
        )
        resident.set_function(peak_memory)


class MetricsServer:
    """Serves /metrics and /healthz over plain HTTP once started. Refuses any address but loopback.

    Raises:
        ConfigError: The address is not a loopback address.
        EngineError: The port is taken.
    """

    def __init__(self, metrics: Metrics, listen: str) -> None:
        host, _, port = listen.rpartition(":")
        if not is_loopback(host):
            raise ConfigError(f"metrics.listen must be a loopback address, got {listen!r}")

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._reply(200, generate_latest(metrics.registry), CONTENT_TYPE_LATEST)
                elif self.path == "/healthz":
                    self._reply(200, b"ok\n")
                else:
                    self._reply(404, b"not found\n")

            def _reply(self, status: int, body: bytes, kind: str = "text/plain") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not logged."""

        try:
            self._server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        except OSError as error:
            raise EngineError(f"cannot listen on {listen}: {error.strerror}") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer. Earlier requests wait: a server that does not listen yet is not healthy."""
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def is_loopback(host: str) -> bool:
    """Whether an address literal is on this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
