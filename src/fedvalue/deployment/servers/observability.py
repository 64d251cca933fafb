"""What the operator of a server sees: structured logs, metrics, and health checks.

Metrics, health and the status page are served over HTTP on loopback only.
"""

from __future__ import annotations

import datetime as dt
import http.server
import ipaddress
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import GaugeMetricFamily

from fedvalue.deployment.health import Finding, Level
from fedvalue.deployment.process import peak_memory
from fedvalue.errors import ConfigError, EngineError
from fedvalue.untrusted_text import printable

FIELDS = (
    "run", "peer", "role", "state", "stage", "code", "reason", "method", "address", "bytes", "version",
    "missing", "repeated",
)  # fmt: skip
"""Fields of a log line. The set is closed on purpose: there is no field that could hold an id, a token, a
label, a count or a key, and free text comes only from our own error messages, which hold names and sizes."""

MAX_TEXT = 1000
"""Longest field, in characters: an error may quote what a peer sent, and a peer may send a megabyte."""

QUIET_SECONDS = 10.0
"""An equal warning or error is written again only after this time: a full disk, or a peer that knocks a
hundred times a second, must not fill the log as well. Metrics count every event."""

MOST_REMEMBERED = 1000
"""Lines remembered for that, of any age."""

TEXT = "text/plain; charset=utf-8"
_LEVELS = {Level.OK: 1.0, Level.WARN: 0.5, Level.FAIL: 0.0}
_HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
     "connect-src 'self'; frame-ancestors 'none'"),
)  # fmt: skip


class Log:
    """Writes one JSON object per line to a stream, usually stderr, for systemd or a container to collect.

    Args:
        actor: Who writes.
        stream: Where to.
        clock: Monotonic seconds.
    """

    def __init__(
        self, actor: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._actor = actor
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._clock = clock
        self._written: dict[tuple[object, ...], _Written] = {}

    def event(self, event: str, *, level: str = "info", **fields: str | int) -> None:
        """Write one line, unless it is a warning or an error that was written in the last `QUIET_SECONDS`.

        The next equal line says in `repeated` how many were left out.

        Raises:
            ValueError: A field that is not in FIELDS.
        """
        unknown = set(fields) - set(FIELDS)
        if unknown:
            raise ValueError(f"log fields {sorted(unknown)} are not allowed")
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        # JSON alone would let C1 controls and line separators of a peer through.
        safe = {
            key: printable(one[:MAX_TEXT]) if isinstance(one, str) else one for key, one in fields.items()
        }
        line = {"time": now, "level": level, "actor": self._actor, "event": event, **safe}
        with self._lock:
            left_out = 0 if level == "info" else self._left_out((event, level, *safe.items()))
            if left_out is None:
                return
            if left_out:
                line["repeated"] = left_out
            try:
                self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                # A log that cannot be written (full disk, closed pipe) must not stop a run. The
                # audit log, which must not be lost, is in the database.
                pass

    def _left_out(self, line: tuple[object, ...]) -> int | None:
        """How many lines like this one were left out since the last was written; None to leave it out too."""
        now = self._clock()
        before = self._written.get(line)
        if before is not None and now - before.time < QUIET_SECONDS:
            before.left_out += 1
            return None
        self._written.pop(line, None)
        while len(self._written) >= MOST_REMEMBERED:
            del self._written[next(iter(self._written))]  # the one written longest ago
        self._written[line] = _Written(now)
        return 0 if before is None else before.left_out


@dataclass(slots=True)
class _Written:
    """When a line was last written, and how many equal ones were left out since."""

    time: float
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class RunGauge:
    """One active run as metrics show it: `peers` maps (role, name) to (messages, bytes)."""

    run: str
    stage: str
    since: float
    deadline: float
    peers: Mapping[tuple[str, str], tuple[int, int]]


class Metrics:
    """The numbers of one server, in a registry of its own: tests run several servers in one process.

    Counters are labelled with roles, codes and pinned names, which are few. What belongs to a run is read
    from the active runs at each scrape, so that it disappears with them.

    Args:
        runs: The active runs.
    """

    def __init__(self, runs: Callable[[], Iterable[RunGauge]] = lambda: ()) -> None:
        registry = self.registry = CollectorRegistry()
        self.messages = Counter("fedvalue_messages", "Messages accepted.", ["role"], registry=registry)
        self.bytes = Counter("fedvalue_bytes", "Bytes of accepted messages.", ["role"], registry=registry)
        self.refused = Counter("fedvalue_refused", "Calls refused.", ["code", "peer"], registry=registry)
        self.runs_ended = Counter(
            "fedvalue_runs_ended", "Runs that ended.", ["state", "code"], registry=registry
        )
        self.health = Gauge("fedvalue_health", "1 ok, 0.5 warning, 0 failed.", ["check"], registry=registry)
        self.card_end = Gauge(
            "fedvalue_card_end_seconds", "When a pinned card expires, Unix time.", ["peer"], registry=registry
        )
        self.server = Info("fedvalue_server", "Name, role and version.", registry=registry)
        resident = Gauge("fedvalue_resident_bytes", "Peak resident memory of the process.", registry=registry)
        resident.set_function(peak_memory)
        self._runs = runs
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What a scrape reads from the active runs (prometheus-client's Collector)."""
        runs = list(self._runs())
        yield GaugeMetricFamily("fedvalue_runs_active", "Runs that have not ended.", value=len(runs))
        stage = GaugeMetricFamily(
            "fedvalue_run_stage_since_seconds", "Start of the stage, Unix time.", labels=["run", "stage"]
        )
        deadline = GaugeMetricFamily(
            "fedvalue_run_deadline_seconds", "End of the stage at the latest, Unix time.", labels=["run"]
        )
        sent = GaugeMetricFamily(
            "fedvalue_run_messages", "Messages of a participant.", labels=["run", "role", "peer"]
        )
        size = GaugeMetricFamily(
            "fedvalue_run_bytes", "Bytes from a participant.", labels=["run", "role", "peer"]
        )
        for one in runs:
            stage.add_metric([one.run, one.stage], one.since)
            deadline.add_metric([one.run], one.deadline)
            for (role, peer), (messages, n_bytes) in one.peers.items():
                sent.add_metric([one.run, role, peer], messages)
                size.add_metric([one.run, role, peer], n_bytes)
        yield from (stage, deadline, sent, size)

    def show(self, findings: Iterable[Finding]) -> None:
        """Take the worst level of every check."""
        for one in sorted(findings, key=lambda finding: _LEVELS[finding.level], reverse=True):
            self.health.labels(one.check).set(_LEVELS[one.level])


Reply = tuple[int, bytes, str]
"""Status, body and content type of an answer over HTTP."""
Routes = Mapping[str, Callable[[], Reply]]


def health_routes(
    metrics: Metrics, findings: Callable[[], Sequence[Finding]], ready: Callable[[], str]
) -> dict[str, Callable[[], Reply]]:
    """/metrics, /healthz and /readyz of a server.

    Args:
        metrics: What /metrics shows.
        findings: The state of disk, clock and cards.
        ready: Why the server takes no new run now; empty when it does.
    """

    def scrape() -> Reply:
        findings()
        return 200, generate_latest(metrics.registry), CONTENT_TYPE_LATEST

    def health() -> Reply:
        checks = findings()
        failed = any(finding.level is Level.FAIL for finding in checks)
        lines = [f"{finding.level.value:<5} {finding}" for finding in checks]
        return (503 if failed else 200), ("\n".join(lines) + "\n").encode(), TEXT

    def readiness() -> Reply:
        status, body, kind = health()
        why = ready()
        return (503, f"fail  {why}\n".encode() + body, kind) if why else (status, body, kind)

    return {"/metrics": scrape, "/healthz": health, "/readyz": readiness}


class LoopbackServer:
    """Serves read-only routes over plain HTTP once started. Refuses any address but loopback.

    Raises:
        ConfigError: The address is not a loopback address.
        EngineError: The port is taken.
    """

    def __init__(self, routes: Routes, listen: str) -> None:
        host, _, port = listen.rpartition(":")
        if not is_loopback(host):
            raise ConfigError(f"metrics.listen must be a loopback address, got {listen!r}")

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 5
            server_version = "fedvalue"
            sys_version = ""

            def do_GET(self) -> None:
                # A page on the internet whose name resolves to 127.0.0.1 must not read ours.
                name = self.headers.get("Host", host).rsplit(":", 1)[0]
                route = routes.get(self.path.partition("?")[0]) if is_loopback(name) else None
                self._reply(*(route() if route is not None else (404, b"not found\n", TEXT)))

            def _reply(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                for name, content in (("Content-Type", kind), ("Content-Length", str(len(body))), *_HEADERS):
                    self.send_header(name, content)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not logged."""

        try:
            self._server = http.server.ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        except OSError as error:
            raise EngineError(f"cannot listen on {listen}: {error.strerror}") from error
        self._server.daemon_threads = True
        self._started = False
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer. Earlier requests wait: a server that does not listen yet is not healthy."""
        self._started = True
        threading.Thread(target=self._server.serve_forever, name="loopback", daemon=True).start()

    def stop(self) -> None:
        """Stop answering."""
        if self._started:  # otherwise it would wait for a loop that never began
            self._server.shutdown()
        self._server.server_close()


def is_loopback(host: str) -> bool:
    """Whether an address literal is on this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
