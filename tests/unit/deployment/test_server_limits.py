"""What one sender may store at a server, without a network."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedvalue.deployment.config import Limits
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.rpc_server import Peer
from fedvalue.deployment.servers.admission import SLACK_BYTES
from fedvalue.deployment.servers.relay_server import RelayServer
from fedvalue.deployment.servers.run_journal import waiting_for
from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.errors import EngineError, RemoteProtocolError, TransportError
from fedvalue.identity.audit_log import read_log
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.support.consortium import NOW, identity, signed
from tests.support.processes import PATIENCE, until
from tests.support.roles import ready_body

AGREED = signed(n_samples=1000, max_bytes=200_000)


class Server:
    """A server without sockets; `post` numbers the messages of every sender."""

    def __init__(self, folder, agreed=AGREED) -> None:
        cards = {name: identity(name).card for name in ("compute", "validate", "bank", "telco", "shop")}
        self.agreed = agreed
        self.relay = RelayServer(identity("validate"), cards, folder, clock=NOW.timestamp)
        self.numbers = dict.fromkeys(cards, 0)
        self.relay.submit(self.peer("bank"), wire.Submit(1, agreed.to_json().encode()))

    def peer(self, name: str) -> Peer:
        one = self.agreed.manifest.participant(name)
        return Peer(one.spki, one.certificate)

    def post(self, name: str, body: bytes) -> wire.Standing:
        standing = self.relay.post(
            self.peer(name), wire.Post(1, self.agreed.run_id, self.numbers[name], memoryview(body))
        )
        self.numbers[name] += 1
        return standing

    def flood(self, size: int) -> None:
        for index in range(10_000):
            self.post("telco", chunk(index, 10_000, os.urandom(size)))


@pytest.fixture
def server(tmp_path, monkeypatch):
    """One whose worker never comes to handle anything: what is refused is refused at the door."""
    monkeypatch.setattr(RelayServer, "_schedule", lambda self, work: None)
    found = Server(tmp_path / "state")
    yield found
    found.relay.stop()


def ready(name: str, agreed=AGREED) -> bytes:
    return ready_body(name, agreed, "validate")


def chunk(index: int, total: int, data: bytes, agreed=AGREED) -> bytes:
    message = m.Chunk(index, total, b"", bytes(16), memoryview(data)).with_digest()
    return codec.encode(m.Envelope(agreed.run_id, "telco", "validate", message))


def test_a_message_under_a_second_number_is_refused_and_not_stored(server):
    server.post("telco", ready("telco"))
    body = chunk(0, 2, b"x" * 8000)
    stored = server.post("telco", body).next
    with pytest.raises(RemoteProtocolError) as caught:
        server.post("telco", body)
    assert caught.value.code == "E_CONFLICT"
    assert server.relay.status(server.peer("telco"), wire.Status(1, AGREED.run_id)).next == stored


def test_a_sender_cannot_store_more_than_the_manifest_allows(server, tmp_path):
    """200 kB agreed: different chunks without end stop at the agreed size and the fixed slack."""
    with pytest.raises(RemoteProtocolError) as caught:
        server.flood(100_000)
    assert caught.value.code == "E_SIZE"
    assert server.numbers["telco"] * 100_000 <= 200_000 * 17 // 16 + SLACK_BYTES
    on_disk = sum(path.stat().st_size for path in (tmp_path / "state" / "spool").rglob("*.msg"))
    assert on_disk <= 200_000 * 17 // 16 + SLACK_BYTES


def test_many_small_messages_are_counted_too(server):
    with pytest.raises(RemoteProtocolError) as caught:
        server.flood(1)
    assert caught.value.code == "E_SIZE"
    assert server.numbers["telco"] < 100


def test_the_allowance_survives_a_restart(tmp_path):
    first = Server(tmp_path / "state")
    body = ready("telco")
    first.post("telco", body)
    first.relay.stop()
    again = Server(tmp_path / "state")
    try:
        assert again.relay._store.volume(AGREED.run_id, "telco") == (1, len(body))
    finally:
        again.relay.stop()


@pytest.mark.parametrize("disk_fails", [False, True])
def test_messages_that_wait_for_the_disk_are_stored_together(server, monkeypatch, disk_fails):
    """Two arrive while the disk is busy with the first; each is acknowledged once it is stored."""
    store, journal = server.relay._store, server.relay._host(AGREED.run_id).journal
    accept, groups, free = store.accept, [], threading.Event()

    def slow(run_id, k, arrivals, audit):
        groups.append([arrival.sender for arrival in arrivals])
        assert free.wait(PATIENCE)
        if disk_fails and len(arrivals) > 1:
            raise EngineError("the disk is full", code="E_STORAGE")
        accept(run_id, k, arrivals, audit)

    monkeypatch.setattr(store, "accept", slow)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(server.post, "bank", ready("bank"))]
        until(lambda: groups, what="the first write")
        calls += [pool.submit(server.post, name, ready(name)) for name in ("telco", "shop")]
        until(lambda: len(journal._arrivals) == 2, what="two waiting messages")
        assert not any(call.done() for call in calls)
        free.set()
        failures = [type(call.exception()) for call in calls]
    assert [sorted(group) for group in groups] == [["bank"], ["shop", "telco"]]
    assert failures == [type(None), *([EngineError if disk_fails else type(None)] * 2)]
    stored = 1 if disk_fails else 3
    assert journal.accepted == stored
    assert sum(count for count, _ in store.volumes(AGREED.run_id).values()) == stored
    assert len(read_log(store.audit(AGREED.run_id), identity("validate").card.sign_key)) == stored
    assert not journal._outcomes


def test_parallel_submits_do_not_exceed_the_limit_of_active_runs(tmp_path, monkeypatch):
    """Eight threads submit eight runs at once to a server that takes three.

    All of them pass the checks of the manifest before the first one creates its run: the old rule counted
    there, and let all of them in.
    """
    runs = [signed(n_samples=1000, purpose=f"run {k}") for k in range(8)]
    cards = {name: identity(name).card for name in ("compute", "validate", "bank", "telco", "shop")}
    relay = RelayServer(
        identity("validate"), cards, tmp_path / "state", clock=NOW.timestamp, limits=Limits(runs=3)
    )
    gate, create = threading.Barrier(len(runs)), RelayServer._create

    def together(self, agreed, by):
        gate.wait(PATIENCE)
        create(self, agreed, by)

    monkeypatch.setattr(RelayServer, "_create", together)
    bank = runs[0].manifest.participant("bank")

    def submit(agreed) -> str:
        try:
            request = wire.Submit(1, agreed.to_json().encode())
            return relay.submit(Peer(bank.spki, bank.certificate), request).state
        except TransportError as error:
            return error.code

    try:
        with ThreadPoolExecutor(len(runs)) as pool:
            ends = list(pool.map(submit, runs))
        assert sorted(ends) == ["E_BUSY"] * 5 + ["open"] * 3
        assert relay.unready() == "3 runs are active, which is the limit"
    finally:
        relay.stop()


@pytest.mark.parametrize("own", ["compute", "validate"])
@pytest.mark.parametrize("state", ["done", "failed"])
def test_a_restart_erases_what_either_server_told_and_leaves_the_notice(own, state, tmp_path):
    """Killed right after the end. Who does not know yet that the run has failed still reads it."""
    agreed, folder = signed(n_samples=1000, epsilon="1"), tmp_path / "state"
    other = {"compute": "validate", "validate": "compute"}[own]
    abort = codec.encode(m.Envelope(agreed.run_id, own, other, m.Abort("E_DEADLINE")))
    store = ServerStore(folder)
    store.add_run(agreed.run_id, agreed.to_json().encode(), now=0.0, audit=())
    outputs = [(other, b"a commitment"), (other, b"a contribution")]
    outputs += [(other, abort)] if state == "failed" else []
    store.step(agreed.run_id, processed=0, outputs=outputs, state=state, stage=state, stage_since=0.0)
    store.close()
    RelayServer(identity(own), {}, folder, clock=NOW.timestamp).stop()
    store = ServerStore(folder)
    left = store.mail(agreed.run_id, other, 0, 1 << 20)
    assert left == ([abort] * 3 if state == "failed" else [])
    store.close()


@pytest.mark.parametrize("epsilon", ["1", None])
def test_a_restart_erases_what_tells_the_noise_of_an_ended_run(epsilon, tmp_path):
    """Killed right after the end, before its courier could: nothing for the other server stays."""
    agreed = signed(n_samples=1000, epsilon=epsilon)
    folder = tmp_path / "state"
    store = ServerStore(folder)
    store.add_run(agreed.run_id, agreed.to_json().encode(), now=0.0, audit=())
    outputs = [("validate", b"an opening"), ("telco", b"a notice")]
    store.step(agreed.run_id, processed=0, outputs=outputs, state="failed", stage="failed", stage_since=0.0)
    store.close()
    RelayServer(identity("compute"), {}, folder, clock=NOW.timestamp).stop()
    store = ServerStore(folder)
    assert store.mail_size(agreed.run_id, "validate") == (0 if epsilon else 1)
    assert store.mail_size(agreed.run_id, "telco") == 1
    store.close()


def test_a_run_that_has_not_begun_tells_for_whom_it_waits(tmp_path):
    server = Server(tmp_path / "state")
    try:
        assert server.post("telco", ready("telco")).reason == "for bank, shop"
        asked = wire.Status(1, AGREED.run_id)
        assert "bank" not in server.relay.status(server.peer("bank"), asked).reason
    finally:
        server.relay.stop()
    assert waiting_for([f"p{k}" for k in range(12)]).endswith("p9 and 2 more")
