"""A server whose disk changes or loses what it stored, or is slow: runs end, and nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import Counter

import numpy as np
import pytest

from fedvalue.agreement.manifest_rules import Terms
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.rpc_server import Peer
from fedvalue.deployment.parties.party_run import party_role
from fedvalue.deployment.servers import upload_files
from fedvalue.deployment.servers.relay_server import RelayServer
from fedvalue.deployment.servers.server_store import Arrival, ServerStore
from fedvalue.deployment.servers.spool import SpooledChunks
from fedvalue.errors import EngineError, FedValueError, TransportError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.support.consortium import NOW, identity, signed
from tests.support.processes import PATIENCE
from tests.support.roles import party_input

N = 12_000
AGREED = signed(n_samples=N, protocol="single", policy="counts", research=True, chunk_bytes=1 << 20)
NAMES = ("bank", "telco", "shop")


class Run:
    """A run of `single` at one server without sockets, whose workers and clock stand still until told."""

    def __init__(self, folder, monkeypatch) -> None:
        self.folder, self.now = folder, NOW.timestamp()
        self.work: list = []
        monkeypatch.setattr(RelayServer, "_schedule", lambda _, work: self.work.append(work))
        monkeypatch.setattr(RelayServer, "_tick", lambda _: None)
        rng = np.random.default_rng(0)
        label, nothing = rng.integers(0, 2, N), np.zeros(N, dtype=int)
        self.parties = {
            name: party_role(identity(name), AGREED.manifest, given.samples, bytes([k]) * 32)
            for k, (name, given) in enumerate(
                {
                    "bank": party_input(nothing, label),
                    "telco": party_input(rng.integers(0, 2, N)),
                    "shop": party_input(rng.integers(0, 2, N)),
                }.items()
            )
        }
        self.numbers: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.start()
        self.relay.submit(self.peer("bank"), wire.Submit(1, AGREED.to_json().encode()))
        for name, party in self.parties.items():
            self.send(name, party.start())

    def start(self) -> None:
        self.work.clear()
        cards = {name: identity(name).card for name in ("compute", "validate", *NAMES)}
        terms = Terms(protocols=("single",), policies=("counts",), research=True)
        self.relay = RelayServer(
            identity("compute"), cards, self.folder,
            clock=lambda: self.now, terms=terms,
        )  # fmt: skip

    @property
    def host(self):
        return self.relay._host(AGREED.run_id)

    @property
    def standing(self) -> wire.Standing:
        return self.relay.status(self.peer("bank"), wire.Status(1, AGREED.run_id))

    def peer(self, name: str) -> Peer:
        one = AGREED.manifest.participant(name)
        return Peer(one.spki, one.certificate)

    def send(self, name: str, envelopes) -> None:
        for envelope in envelopes:
            body = memoryview(codec.encode(envelope))
            self.relay.post(self.peer(name), wire.Post(1, AGREED.run_id, self.numbers[name], body))
            self.numbers[name] += 1

    def handle(self) -> None:
        while self.work:
            self.work.pop(0)()

    def files(self) -> list:
        return sorted(self.folder.rglob("*.msg"))

    def until_uploaded(self) -> None:
        """Carry messages until large ones are stored; none of those is handled yet."""
        while not self.files():
            self.handle()
            self.carry()

    def carry(self) -> None:
        """Give the parties their mail, and the server their answers."""
        for name, party in self.parties.items():
            mail = self.relay.poll(self.peer(name), wire.Poll(1, AGREED.run_id, self.read[name], 0))
            for body in mail.bodies:
                self.read[name] += 1
                self.send(name, party.receive(codec.decode(body)))


@pytest.fixture
def run(tmp_path, monkeypatch):
    found = Run(tmp_path, monkeypatch)
    yield found
    found.relay.stop()


def flip(path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_an_upload_that_comes_back_changed_ends_the_run(run, monkeypatch):
    """Dropped from memory before it was handled: the digest is compared with what the disk gave."""
    monkeypatch.setattr(upload_files.RecentMessages, "get", lambda recent, place: None)
    run.until_uploaded()
    flip(run.files()[0])
    run.handle()
    assert (run.standing.state, run.standing.code) == ("failed", "E_DIGEST")
    assert not run.files()


def test_a_changed_journal_ends_the_run_after_a_restart(run):
    """Uploads were handled, then the server was started again over a damaged file."""
    run.until_uploaded()
    run.handle()
    assert run.host.journal.stage == "agreeing"
    run.relay.stop()
    flip(run.files()[0])
    run.start()
    run.carry()
    run.handle()
    assert (run.standing.state, run.standing.code) == ("failed", "E_DIGEST")


@pytest.mark.parametrize("changed", [False, True])
def test_another_answer_than_the_one_given_ends_the_run_after_a_restart(run, changed):
    """As many answers are not the same answers: a second one in the place of the first must not leave."""
    run.until_uploaded()
    run.handle()
    run.relay.stop()
    if changed:
        with contextlib.closing(sqlite3.connect(run.folder / "server.sqlite")) as db, db:
            (body,) = db.execute(
                "SELECT body FROM outbox WHERE recipient = 'telco' AND number = 0"
            ).fetchone()
            other = body[:-1] + bytes([body[-1] ^ 1])
            db.execute("UPDATE outbox SET body = ? WHERE recipient = 'telco' AND number = 0", (other,))
    run.start()
    run.host._worker.catch_up()
    run.handle()
    assert run.host._worker.missing() == (None if changed else NAMES)
    ended = ("failed", "E_ENGINE") if changed else ("running", "")
    assert (run.standing.state, run.standing.code) == ended


@pytest.mark.parametrize("restart", [False, True])
def test_a_lost_upload_ends_the_run_at_its_deadline(run, restart, monkeypatch):
    """The disk may come back: until then the run waits, and then it ends and says why."""
    monkeypatch.setattr(upload_files.RecentMessages, "get", lambda recent, place: None)
    run.until_uploaded()
    if restart:
        run.relay.stop()
        run.start()
    run.files()[0].unlink()
    for _ in range(3):
        run.handle()
        run.host.tick(run.now)
    assert run.standing.state == "running"
    run.now += 10 * 86_400
    run.handle()
    run.host.tick(run.now)
    assert (run.standing.state, run.standing.code) == ("failed", "E_STORAGE")
    assert not run.files()


def test_a_lost_upload_is_noticed_where_no_message_waits(run):
    """Started again over a lost file, with everything handled: the deadline still ends the run."""
    run.until_uploaded()
    run.handle()
    run.relay.stop()
    run.files()[0].unlink()
    run.start()
    run.now += 10 * 86_400
    run.host.tick(run.now)
    run.handle()
    run.host.tick(run.now)
    assert (run.standing.state, run.standing.code) == ("failed", "E_STORAGE")
    assert not run.files()


def test_a_changed_journal_is_purged_where_no_message_waits(run):
    run.until_uploaded()
    run.handle()
    run.relay.stop()
    flip(run.files()[0])
    run.start()
    run.now += 10 * 86_400
    run.host.tick(run.now)
    run.handle()
    assert (run.standing.state, run.standing.code) == ("failed", "E_DIGEST")
    assert not run.files()


def test_a_deadline_after_a_restart_waits_for_a_worker_thread_and_names_who_is_missing(run):
    """The old rule: the thread that watches all runs' deadlines handled the messages of one of them again."""
    run.until_uploaded()
    run.handle()
    run.relay.stop()
    run.start()
    run.now += 10 * 86_400
    for _ in range(3):  # it asks once, and then waits
        run.host.tick(run.now)
        assert len(run.work) == 1
    assert run.standing.state == "running"
    run.handle()
    run.host.tick(run.now)
    assert (run.standing.state, run.standing.code) == ("failed", "E_DEADLINE")
    assert "missing: bank, telco, shop" in run.standing.reason


def test_an_upload_that_is_written_while_its_run_ends_is_not_kept(run, monkeypatch):
    """A slow disk: by the time the file is there, the run has failed and was purged."""
    writing, go_on, ends = threading.Event(), threading.Event(), []
    write_unread = upload_files.write_unread

    def slow(*arguments, **named):
        writing.set()
        go_on.wait(PATIENCE)
        write_unread(*arguments, **named)

    monkeypatch.setattr(upload_files, "write_unread", slow)

    def upload() -> None:
        try:
            run.until_uploaded()
        except FedValueError as error:
            ends.append(error.code)

    thread = threading.Thread(target=upload)
    thread.start()
    assert writing.wait(PATIENCE)
    run.host.fail(TransportError("too late", code="E_DEADLINE"))
    go_on.set()
    thread.join(PATIENCE)
    assert ends == ["E_DEADLINE"]
    assert not run.files()
    assert not run.relay._store._uploads._recent._messages


@pytest.mark.parametrize("room", [0, 1 << 20])
def test_a_chunk_is_compared_with_its_digest_when_it_comes_from_disk(tmp_path, monkeypatch, room):
    monkeypatch.setattr(upload_files, "RECENT_BYTES", room)
    store, run_id, data = ServerStore(tmp_path), bytes(32), os.urandom(100_000)
    chunk = m.Chunk(0, 1, b"", bytes(16), memoryview(data)).with_digest()
    envelope = m.Envelope(run_id, "telco", "compute", chunk)
    body = codec.encode(envelope)
    store.add_run(run_id, b"{}", now=0.0, audit=())
    store.spool(run_id, "telco", 0, body)
    store.accept(run_id, 0, [Arrival(0, envelope, None, len(body))], ())
    chunks = SpooledChunks(store, run_id)
    chunks.arriving("telco", 0)
    chunks.put("telco", 0, memoryview(b""))
    assert bytes(chunks.get("telco", 0)) == data
    (path,) = tmp_path.rglob("*.msg")
    flip(path)
    if room:
        assert bytes(chunks.get("telco", 0)) == data  # what was admitted is still in memory
        store.forget_recent(run_id, "telco", 0)
    for spoil in (lambda: None, lambda: path.write_bytes(body[:1000]), lambda: path.write_bytes(b"")):
        spoil()
        with pytest.raises(EngineError, match="changed on this server's disk") as refused:
            chunks.get("telco", 0)
        assert refused.value.code == "E_DIGEST"
    path.unlink()
    with pytest.raises(EngineError) as lost:
        chunks.get("telco", 0)
    assert lost.value.code == "E_STORAGE"
    store.close()
