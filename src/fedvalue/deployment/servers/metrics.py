"""Numbers about the server for its operator, in Prometheus' text format, on loopback only."""

from __future__ import annotations

import http.server
import ipaddress
import threading
from collections import Counter
from collections.abc import Callable

from fedvalue.deployment.process import peak_memory
from fedvalue.errors import ConfigError, EngineError

_HELP = {
    "fedvalue_messages_total": "counter messages accepted",
    "fedvalue_bytes_total": "counter bytes of accepted messages",
    "fedvalue_refused_total": "counter calls refused, by code",
    "fedvalue_runs_ended_total": "counter runs ended, by state and code",
    "fedvalue_runs_active": "gauge runs not ended",
    "fedvalue_resident_bytes": "gauge largest resident memory of the process",
}


class Metrics:
    """Counters, and gauges that are asked when somebody looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._gauges: dict[str, Callable[[], float]] = {
            "fedvalue_resident_bytes": lambda: float(peak_memory())
        }

    def add(self, name: str, amount: int = 1, **labels: str) -> None:
        """Count."""
        with self._lock:
            self._counters[name, tuple(sorted(labels.items()))] += amount

    def gauge(self, name: str, ask: Callable[[], float]) -> None:
        """Register a number that is asked on demand."""
        self._gauges[name] = ask

    def text(self) -> str:
        """Everything, in Prometheus' text format."""
        with self._lock:
            counters = sorted(self._counters.items())
        lines: list[str] = []
        for name, described in _HELP.items():
            kind, _, words = described.partition(" ")
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
            for (counted, labels), amount in counters:
                if counted == name:
                    inner = ",".join(f'{key}="{value}"' for key, value in labels)
                    lines.append(f"{name}{{{inner}}} {amount}" if inner else f"{name} {amount}")
            if name in self._gauges:
                lines.append(f"{name} {self._gauges[name]():g}")
        return "\n".join(lines) + "\n"


class MetricsServer:
    """Serves /metrics and /healthz over plain HTTP, once started. Refuses any address but loopback.

    Raises:
        ConfigError: Another address than loopback.
        EngineError: The port is taken.
    """

    def __init__(self, metrics: Metrics, listen: str) -> None:
        host, _, port = listen.rpartition(":")
        if not is_loopback(host):
            raise ConfigError(f"metrics.listen must be a loopback address, got {listen!r}")

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                body = {"/metrics": metrics.text().encode(), "/healthz": b"ok\n"}.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body or b"not found\n")

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not worth a line."""

        try:
            self._server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        except OSError as error:
            raise EngineError(f"cannot listen on {listen}: {error.strerror}") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer. Who asks before that waits: a server that does not listen yet is not healthy."""
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
