"""Logs, metrics, database and process settings of a server."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from fedvalue.deployment.health import Finding, Level
from fedvalue.deployment.servers.observability import (
    FIELDS,
    MOST_REMEMBERED,
    QUIET_SECONDS,
    Log,
    LoopbackServer,
    Metrics,
    RunGauge,
    health_routes,
)
from fedvalue.deployment.servers.server_store import ServerStore, Stored
from fedvalue.deployment.servers.upload_files import FILE_FROM
from fedvalue.errors import ConfigError, EngineError
from fedvalue.storage.durable_files import write_durably
from tests.cli.runner import fedvalue
from tests.support.processes import PATIENCE


def test_a_log_line_is_json_with_known_fields_only():
    stream = io.StringIO()
    Log("compute", stream).event("stage", run="abc", stage="keying")
    line = json.loads(stream.getvalue())
    assert {
        "actor": "compute",
        "event": "stage",
        "run": "abc",
        "stage": "keying",
        "level": "info",
    }.items() <= line.items()
    for forbidden in ("id", "ids", "token", "label", "count", "counts", "key", "value", "seed"):
        assert forbidden not in FIELDS
        with pytest.raises(ValueError, match="not allowed"):
            Log("compute", stream).event("x", **{forbidden: "y"})


def test_a_peer_cannot_fill_the_log_with_its_own_words():
    """An error quotes what is wrong with a manifest of a megabyte."""
    stream = io.StringIO()
    Log("compute", stream).event("refused", reason="x" * 900_000)
    assert json.loads(stream.getvalue())["reason"] == "x" * 1000


def test_a_peer_cannot_write_control_characters_into_the_log():
    """C0, C1, line and paragraph separators and bidirectional overrides stay readable as escapes."""
    stream = io.StringIO()
    Log("compute", stream).event("refused", reason="a\x1b[31mb\x9bc\u2028d\u2029e\u202ef\n")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()
    shown = json.loads(text)["reason"]
    assert shown == r"a\x1b[31mb\x9bc\u2028d\u2029e\u202ef\n"


def test_equal_lines_are_written_once_in_a_while_with_their_number() -> None:
    """A full disk, or a peer that calls a hundred times a second, must not fill the log as well."""
    stream, now = io.StringIO(), [0.0]
    log = Log("compute", stream, clock=lambda: now[0])
    for _ in range(500):
        log.event("refused", level="warning", peer="telco", code="E_BUSY")
        log.event("refused", level="warning", peer="shop", code="E_BUSY")
        now[0] += 0.01
    now[0] = QUIET_SECONDS
    log.event("refused", level="warning", peer="telco", code="E_BUSY")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["peer"], line.get("repeated")) for line in lines] == [
        ("telco", None),
        ("shop", None),
        ("telco", 499),
    ]


def test_a_log_remembers_a_bounded_number_of_lines() -> None:
    log = Log("compute", io.StringIO())
    for k in range(3 * MOST_REMEMBERED):
        log.event("refused", level="warning", reason=f"reason {k}")
    assert len(log._written) == MOST_REMEMBERED


def test_no_stored_message_prints_its_body():
    assert "keys" not in repr(Stored(1, "bank", 0, b"share keys", fresh=False))


def test_a_log_that_cannot_be_written_stops_nobody():
    stream = io.StringIO()
    stream.close()
    Log("compute", stream).event("stage")


def get(server: LoopbackServer, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_and_health_over_http():
    run = RunGauge("abc", "uploading", 5.0, 9.0, {("data", "telco"): (3, 4096)})
    metrics = Metrics(lambda: [run])
    metrics.messages.labels("data").inc(3)
    metrics.refused.labels("E_RUN", "telco").inc(2)
    disk, clock = Finding("disk", Level.OK, "much free"), Finding("clock", Level.WARN, "late", "set it")
    findings, full = [disk, clock], []
    metrics.show(findings)
    server = LoopbackServer(health_routes(metrics, lambda: findings, lambda: "".join(full)), "127.0.0.1:0")
    with contextlib.suppress(TimeoutError):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=0.2)
        pytest.fail("healthy before its start")
    server.start()
    try:
        lines = get(server, "/metrics")[1].splitlines()
        assert get(server, "/healthz") == (200, "ok    disk: much free\nwarn  clock: late; set it\n")
        assert get(server, "/readyz")[0] == 200
        full.append("64 runs are active, which is the limit")
        assert get(server, "/readyz") == (503, f"fail  {full[0]}\n" + get(server, "/healthz")[1])
        full.clear()
        findings[0] = Finding("disk", Level.FAIL, "the disk is full", "free some space")
        for path in ("/healthz", "/readyz"):
            status, text = get(server, path)
            assert (status, text.splitlines()[0]) == (503, "fail  disk: the disk is full; free some space")
        assert get(server, "/elsewhere")[0] == 404
        # A web page whose name an attacker points at 127.0.0.1 gets no answer.
        assert get(server, "/metrics", Host="attacker.example")[0] == 404
    finally:
        server.stop()
    assert 'fedvalue_messages_total{role="data"} 3.0' in lines
    assert 'fedvalue_refused_total{code="E_RUN",peer="telco"} 2.0' in lines
    assert "fedvalue_runs_active 1.0" in lines
    assert 'fedvalue_run_bytes{peer="telco",role="data",run="abc"} 4096.0' in lines
    assert 'fedvalue_run_stage_since_seconds{run="abc",stage="uploading"} 5.0' in lines
    assert 'fedvalue_run_deadline_seconds{run="abc"} 9.0' in lines
    assert 'fedvalue_health{check="clock"} 0.5' in lines
    assert any(line.startswith("fedvalue_resident_bytes ") for line in lines)
    assert "# TYPE fedvalue_messages_total counter" in lines


@pytest.mark.parametrize("listen", ["0.0.0.0:9101", "192.168.1.1:9101", "example.org:9101"])
def test_metrics_are_served_on_loopback_only(listen):
    with pytest.raises(ConfigError, match="loopback"):
        LoopbackServer({}, listen)


def test_processes_make_no_core_dumps_and_private_files():
    """Item 37: measured in a process of its own, because the limits cannot be taken back."""
    program = (
        "import ctypes, os, resource, sys\n"
        "from fedvalue.deployment.process import harden\n"
        "harden()\n"
        "dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == 'linux' else 0\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), oct(os.umask(0)), dumpable)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(0, 0) 0o77 0"


def test_a_private_key_of_another_user_is_refused(tmp_path, monkeypatch):
    import os

    from fedvalue.identity.identity_files import read_private

    path = tmp_path / "sign.key"
    write_durably(path, b"secret")
    assert read_private(path) == b"secret"
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(ConfigError, match="belongs to user") as caught:
        read_private(path)
    assert caught.value.code == "E_IDENTITY"


def test_a_run_is_purged_only_when_its_files_are_gone(tmp_path, monkeypatch):
    import shutil

    run = bytes(32)
    store = ServerStore(tmp_path)
    try:
        store.add_run(run, b"{}", now=0.0, audit=())
        store.spool(run, "telco", 0, bytes(FILE_FROM))
        store.step(run, processed=0, outputs=(), state="failed", stage="failed", stage_since=0.0)

        def broken(path: object) -> None:
            raise PermissionError(13, "no")

        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", broken)
            with pytest.raises(EngineError) as caught:
                store.purge(run)
        assert caught.value.code == "E_STORAGE"
        assert store.unpurged() == [run]
        store.purge(run)
        assert store.unpurged() == []
        assert not list((tmp_path / "spool").rglob("*.msg"))
    finally:
        store.close()


def test_a_server_does_not_start_beside_a_card_that_it_cannot_read(tmp_path):
    from fedvalue.identity.identity_files import read_pinned
    from tests.support.consortium import identity

    (tmp_path / "telco.json").write_text("{")
    with pytest.raises(ConfigError, match=r"telco\.json") as caught:
        read_pinned(tmp_path, identity("compute").card)
    assert caught.value.code == "E_IDENTITY"


@pytest.mark.parametrize("found", [0, 2])
def test_a_state_folder_of_another_version_is_refused_and_left_alone(tmp_path, found):
    """Also one from before formats had a number."""
    path = tmp_path / "server.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (id)")
        other.execute(f"PRAGMA user_version = {found}")
    other.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=f"format {found}, this version of FedValue needs 1") as refused:
        ServerStore(tmp_path)
    assert refused.value.code == "E_VERSION"
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["server.sqlite"]


def test_a_state_folder_of_this_version_is_opened_again_and_not_written_to(tmp_path):
    ServerStore(tmp_path).close()
    before = (tmp_path / "server.sqlite").read_bytes()
    ServerStore(tmp_path).close()
    assert (tmp_path / "server.sqlite").read_bytes() == before


def test_a_server_that_has_pinned_nobody_does_not_start(tmp_path):
    (tmp_path / "peers").mkdir()
    (tmp_path / "server.toml").write_text(
        'identity = "identity"\npeers = "peers"\nstate = "state"\nlisten = "127.0.0.1:0"\n'
    )
    whose = ("--consortium", "c", "--role", "compute", "--name", "compute")
    assert fedvalue("init", tmp_path / "identity", *whose).code == 0
    refused = fedvalue("serve", "compute", "--config", tmp_path / "server.toml")
    assert refused.code == 4
    assert f"no card is pinned in {tmp_path / 'peers'}, so nobody could connect [E_IDENTITY]" in refused.err


_STOPPED = {
    "a signal that interrupts another thread": (
        "def interrupted():\n"
        "    time.sleep(0.5)\n"
        "    signal.pthread_kill(threading.get_ident(), SIGTERM)\n"
        "threading.Thread(target=interrupted).start()\n"
        "stop.wait()\n"
    ),
    "a signal while the event's lock is held": "with stop._cond: signal.raise_signal(SIGTERM)\nstop.wait()\n",
}


@pytest.mark.parametrize("program", _STOPPED.values(), ids=_STOPPED)
def test_every_stop_signal_reaches_a_thread_that_waits(program):
    """Python would run the handler in the main thread, when that next runs; here it waits."""
    start = (
        "import signal, threading, time\n"
        "from signal import SIGTERM\n"
        "from fedvalue.deployment.process import stop_on_signals\n"
        "stop = stop_on_signals()\n"
    )
    subprocess.run([sys.executable, "-c", start + program], check=True, timeout=PATIENCE)
