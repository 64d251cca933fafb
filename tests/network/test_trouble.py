"""Trouble is named at once, by whoever notices it, on both sides: clocks, cards, disks.

Problems 19 to 22 of the first review by new users. Real sockets; where a log of gRPC matters, real processes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import errno
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedvalue.agreement.manifest import Deadlines, Participant
from fedvalue.deployment import health
from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.network import tls_probe
from fedvalue.deployment.network.retry import Backoff
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.network.tls_probe import probe
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.deployment.servers import relay_server
from fedvalue.errors import EngineError, FedValueError, TransportError
from fedvalue.identity.cards import Identity, create_identity
from fedvalue.identity.identity_files import write_card
from fedvalue.simulation.local_consortium import reserve_port
from tests.support.disks import small_disk
from tests.support.processes import PATIENCE, log_events, until
from tests.support.town import TASK, Town, ended_well

pytestmark = pytest.mark.network


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on a busy machine greets late; here is no line that says nothing."""
    monkeypatch.setattr(tls_probe, "SECONDS", PATIENCE)


@dataclass
class Served:
    """`fedvalue serve compute` as an operator starts it, with a small disk of its own."""

    town: Town
    metrics: str
    log: Path
    expired: Identity

    def events(self, event: str) -> list[dict[str, str]]:
        return log_events(self.log.read_text(), event)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.metrics}{path}", timeout=PATIENCE) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def call(self, identity: Identity) -> FedValueError:
        manifest = self.town.consortium.signed.manifest
        with pytest.raises(FedValueError) as caught:
            ServerClient(identity, manifest.compute, manifest, patience=0.0, backoff=Backoff()).health()
        return caught.value


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("trouble")
    town = Town(root)
    port, reservation = reserve_port()
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=30)
    expired = create_identity("demo", "data", "old", valid_days=1, now=past)
    folder = town.member("compute").folder
    write_card(expired.card, folder / "peers" / "old.json")
    with (folder / "server.toml").open("a") as config:
        config.write(f'\n[metrics]\nlisten = "127.0.0.1:{port}"\n')
    log = root / "compute.log"
    with log.open("w") as stream:
        command = [sys.executable, "-m", "fedvalue", "serve", "compute", "--config", "server.toml"]
        process = subprocess.Popen(command, cwd=folder, stderr=stream)
    try:
        until(lambda: "listening" in log.read_text(), what="the server's start")
        yield Served(town, f"127.0.0.1:{port}", log, expired)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        reservation.close()


def test_an_unpinned_peer_is_named_to_both_sides(served: Served) -> None:
    """Problem 20: the party knows what to do, and the operator has a log line and a metric."""
    error = served.call(create_identity("demo", "data", "telco"))
    assert error.code == "E_UNREACHABLE"
    assert "has not pinned the card of 'telco'" in str(error)
    until(lambda: any("not pinned" in one["reason"] for one in served.events("refused")), what="the log line")
    (line,) = [one for one in served.events("refused") if "not pinned" in one["reason"]]
    assert (line["method"], line["peer"], line["code"]) == ("Handshake", "unknown", "E_IDENTITY")
    assert 'fedvalue_refused_total{code="E_IDENTITY",peer="unknown"}' in served.get("/metrics")[1]


def test_an_expired_card_is_named_by_everybody_who_has_it(served: Served) -> None:
    """Problem 22: its owner before the call, the operator at the start, in the log, health and metrics."""
    assert "our own card expired at" in str(served.call(served.expired))
    until(
        lambda: any("the card of 'old' expired at" in one["reason"] for one in served.events("health")),
        what="the look at the cards",
    )
    status, text = served.get("/healthz")
    assert status == 200, "a peer's expired card does not stop the server"
    assert "warn  card: the card of 'old' expired at" in text
    assert 'fedvalue_card_end_seconds{peer="old"}' in served.get("/metrics")[1]


def test_the_health_of_a_good_server_names_disk_clock_and_card(served: Served) -> None:
    for path in ("/healthz", "/readyz"):
        status, text = served.get(path)
        assert status == 200
        assert [line.split()[1] for line in text.splitlines()][:3] == ["disk:", "clock:", "card:"]


def test_everything_else_on_stderr_is_json(served: Served) -> None:
    """What gRPC writes about handshakes is read, and never reaches the log as it is."""
    whole, _, _ = served.log.read_text().rpartition("\n")
    assert whole
    for line in whole.splitlines():
        json.loads(line)


def test_a_clock_two_hours_slow_is_named(served: Served) -> None:
    """Problem 19: with fresh certificates TLS itself fails; gRPC said "cannot be reached (OK)"."""
    town, now = served.town, dt.datetime.now(dt.UTC)
    compute = town.consortium.signed.manifest.compute
    words = probe(town.member("telco").identity, compute, now=now - dt.timedelta(hours=2))
    assert words is not None
    assert words.startswith("the clock of this machine is wrong")
    assert probe(town.member("telco").identity, compute) is None


def test_a_server_from_the_future_is_blamed_on_the_clock(tmp_path: Path) -> None:
    """The same through gRPC: a server whose card begins in two hours, as seen by a slow clock."""
    town = Town(tmp_path)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=3)
    future = create_identity("demo", "compute", "compute", now=later)
    member = town.member("compute")
    town.consortium.members["compute"] = dataclasses.replace(member, identity=future)
    town.start("compute")
    try:
        manifest = town.consortium.signed.manifest
        server = Participant.from_card(future.card, manifest.compute.endpoint)
        client = ServerClient(town.member("telco").identity, server, manifest, patience=0.0)
        with pytest.raises(TransportError, match="the clock of this machine is wrong") as caught:
            client.health()
        assert caught.value.code == "E_UNREACHABLE"
    finally:
        town.stop()


def test_clocks_that_differ_are_named_on_both_sides_and_the_run_goes_on(tmp_path: Path) -> None:
    """Problem 19 with older certificates: nothing fails, and everybody sees a warning.

    The difference is between 2:00 and 2:01 h also where a message takes half a minute.
    """
    town = Town(tmp_path, parties=("telco",))
    town.start(clock=lambda: time.time() + 7230)
    said: list[str] = []
    try:
        config = read_party_config(town.member("telco").folder / "party.toml")
        thread = threading.Thread(
            target=take_part, args=(config, "data", lambda stage, words: said.append(f"{stage}: {words}"))
        )
        thread.start()
        assert ended_well(town.join(TASK))
        thread.join(PATIENCE)
    finally:
        town.stop()
    ahead = "is 2 h 0 min ahead of this machine's: one of the two is wrong"
    assert f"warning: the clock of server 'compute' {ahead}" in said
    assert f"warning: the clock of server 'validate' {ahead}" in said
    behind = {one["peer"]: one["reason"] for one in town.log("compute") if one["event"] == "clock"}
    assert set(behind) == {TASK, "telco"}
    assert behind["telco"].startswith("the clock of 'telco' is 2 h 0 min behind this machine's")


def test_a_full_disk_is_the_servers_fault_and_shows_no_path(tmp_path: Path, monkeypatch) -> None:
    """Problem 21: the last error blamed the parties, and named folders of the server."""
    limits = Deadlines(keying=600, upload=600, compute=600)
    town = Town(tmp_path, parties=("telco",), deadlines=limits)
    ahead = [0.0]
    town.start(clock=lambda: time.time() + ahead[0])
    relay = town.servers["validate"][0]
    real = relay._store.accept

    def full(*arguments: object, **options: object) -> None:
        cause = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise EngineError(f"cannot write to {tmp_path}: {cause.strerror}", code="E_STORAGE") from cause

    monkeypatch.setattr(relay._store, "accept", full)
    said: dict[str, list[str]] = {TASK: [], "telco": []}
    try:
        ends: dict[str, FedValueError] = {}

        def take(name: str, role: str) -> None:
            config = read_party_config(town.member(name).folder / "party.toml")
            try:
                take_part(config, role, lambda stage, words: said[name].append(words))
            except FedValueError as error:
                ends[name] = error

        threads = [threading.Thread(target=take, args=one) for one in ((TASK, "task"), ("telco", "data"))]
        for thread in threads:
            thread.start()
        until(
            lambda: all(any("No space left on device" in one for one in words) for words in said.values()),
            what="the warning at both",
        )
        ahead[0] = 3600.0  # the deadline passes
        for thread in threads:
            thread.join(PATIENCE)
        monkeypatch.setattr(relay._store, "accept", real)
    finally:
        town.stop()
    assert set(ends) == {TASK, "telco"}
    for end in ends.values():
        assert "server 'validate'" in str(end)
        assert "its disk" in str(end)
    for words in (*said[TASK], *said["telco"], *map(str, ends.values())):
        assert str(tmp_path) not in words
    refused = [one for one in town.log("validate") if one["event"] == "refused"]
    assert str(tmp_path) in refused[0]["reason"], "the operator's own log names the folder"


def test_a_lasting_problem_is_logged_once_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line about an unsynchronised clock holds the time, and came every ten seconds."""
    now = [time.time()]
    monkeypatch.setattr(health, "_synchronised", lambda: False)
    monkeypatch.setattr(relay_server, "_HEALTH_SECONDS", -1.0)
    town = Town(tmp_path / "town").start("compute", clock=lambda: now[0])
    relay = town.servers["compute"][0]
    try:
        until(lambda: bool(events(town, "health")), what="the first line")
        for _ in range(3):
            now[0] += 10
            relay._note_health()
        assert len([one for one in events(town, "health") if "clock" in one["reason"]]) == 1
        now[0] += 3600
        until(lambda: len(events(town, "health")) == 2, what="the line of the next hour")
    finally:
        town.stop()


def test_health_fails_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Problem 21: /healthz said ok. Peers see the reason too, without a path."""
    monkeypatch.setattr(relay_server, "_HEALTH_SECONDS", -1.0)  # every question is a new look
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        town = Town(tmp_path)
        config = town.member("compute").folder / "server.toml"
        state = disk.folder / "state"
        config.write_text(config.read_text().replace('state = "state"', f'state = "{state}"'))
        town.start("compute")
        try:
            relay = town.servers["compute"][0]
            assert all(one.level != "fail" for one in relay.findings())
            disk.fill()
            (trouble,) = town.client("telco").health().trouble
            assert "cannot be written (No space left on device)" in trouble
            assert str(disk.folder) not in trouble
        finally:
            disk.clear()
            town.stop()


def test_deadlines_are_watched_while_the_database_cannot_be_read(tmp_path: Path, monkeypatch) -> None:
    """The look at disk, clock and cards never ends the timer that ends runs."""
    town = Town(tmp_path).start("compute")
    try:
        relay = town.servers["compute"][0]

        def broken() -> float:
            raise EngineError("cannot write to the database: disk I/O error", code="E_STORAGE")

        monkeypatch.setattr(relay._store, "newest", broken)
        relay._findings = (float("-inf"), [])
        until(
            lambda: any("disk I/O error" in one["reason"] for one in events(town, "health")), what="the line"
        )
        assert relay.alive
    finally:
        town.stop()


def events(town: Town, event: str) -> list[dict[str, str]]:
    return [one for one in town.log("compute") if one["event"] == event]


def test_logs_name_who_joins_and_how_it_ends(tmp_path: Path) -> None:
    """Problem 22: one line per participant that joins, and one per end."""
    town = Town(tmp_path)
    town.start()
    try:
        assert ended_well(town.join())
        until(lambda: any(one["event"] == "ended" for one in town.log("validate")), what="the end")
    finally:
        town.stop()
    for server in ("compute", "validate"):
        joined = [one["peer"] for one in town.log(server) if one["event"] == "joined"]
        assert set(joined) >= {TASK, "telco", "shop"}
        assert len(joined) == len(set(joined))
        assert [one["state"] for one in town.log(server) if one["event"] == "ended"] == ["done"]


def test_the_oldest_row_of_the_store_does_not_hide_a_clock_that_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose clock falls behind its own records says so."""
    monkeypatch.setattr(relay_server, "_HEALTH_SECONDS", -1.0)  # every question is a new look
    town = Town(tmp_path)
    now = [time.time()]
    town.start("compute", clock=lambda: now[0])
    try:
        town.client(TASK, "compute").submit(town.consortium.signed.to_json().encode())
        now[0] -= 7200.0
        relay = town.servers["compute"][0]
        clock = next(one for one in relay.findings() if one.check == "clock")
        assert clock.level == "fail"
        assert "2 h 0 min before the last entry" in clock.words
    finally:
        town.stop()
