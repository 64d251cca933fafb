"""How long a run waits for late parties: as long as everybody who waits agrees, and the agreement lasts."""

from __future__ import annotations

import pytest

from fedvalue.agreement.manifest import Deadlines
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.rpc_server import Peer
from fedvalue.deployment.servers.relay_server import RelayServer
from fedvalue.errors import FedValueError
from tests.support.consortium import NOW, identity, signed

AGREED = signed(deadlines=Deadlines(keying=100, upload=100, compute=100))
START = NOW.timestamp()
NAMES = ("compute", "validate", "bank", "telco", "shop")


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Server:
    """The computation server without sockets and without a timer of its own."""

    def __init__(self, folder, clock: Clock) -> None:
        cards = {name: identity(name).card for name in NAMES}
        self.relay = RelayServer(identity("compute"), cards, folder, clock=clock)
        self.clock = clock

    def peer(self, name: str) -> Peer:
        one = AGREED.manifest.participant(name)
        return Peer(one.spki, one.certificate)

    def submit(self, name: str, number: int = 1) -> wire.Standing:
        text = AGREED.repeated(number).to_json().encode()
        return self.relay.submit(self.peer(name), wire.Submit(1, text))

    def wait(self, name: str, patience: float) -> wire.Mail:
        return self.relay.poll(self.peer(name), wire.Poll(1, AGREED.run_id, 0, 1, patience))

    def state(self) -> str:
        return self.relay.status(self.peer("bank"), wire.Status(1, AGREED.run_id)).state

    def deadline(self) -> float:
        return self.relay.status(self.peer("bank"), wire.Status(1, AGREED.run_id)).deadline - START

    def tick(self) -> None:
        self.relay._host(AGREED.run_id).tick(self.clock())


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(RelayServer, "_tick", lambda self: None)
    monkeypatch.setattr("fedvalue.deployment.servers.relay_server.Courier", Quiet)
    made = Server(tmp_path / "state", Clock())
    made.submit("bank")
    yield made
    made.relay.stop()


class Quiet:
    """A courier that carries nothing."""

    def __init__(self, *arguments: object) -> None:
        pass

    def stop(self) -> None:
        pass


def test_without_patience_the_deadline_is_the_one_of_the_terms(server):
    server.wait("bank", 0.0)
    assert server.deadline() == 100
    server.clock.now += 101
    server.tick()
    assert server.state() == "failed"


def test_the_least_patient_of_those_who_wait_decides(server):
    server.wait("bank", START + 5000)
    assert server.deadline() == 5000
    server.submit("telco")
    server.wait("telco", START + 700)
    assert server.deadline() == 700
    server.clock.now += 101
    server.wait("bank", START + 5000)
    server.wait("telco", START + 700)
    server.tick()
    assert server.state() == "open"
    server.clock.now += 600
    server.wait("bank", START + 5000)
    server.wait("telco", START + 700)
    server.tick()
    assert server.state() == "failed"


def test_a_poll_without_mail_says_whom_the_run_waits_for_at_any_stage(server, monkeypatch):
    host = server.relay._host(AGREED.run_id)
    assert server.wait("bank", 0.0).standing.reason == "for telco, shop"
    monkeypatch.setattr(host._worker, "awaited", lambda: ())
    monkeypatch.setattr(host._worker, "awaited_now", lambda: ("bank", "shop"))
    monkeypatch.setattr(host.journal, "state", "running")
    assert server.wait("bank", 0.0).standing.reason == "for shop"


def test_one_who_does_not_agree_to_wait_keeps_the_deadline_of_the_terms(server):
    server.wait("bank", START + 5000)
    server.wait("telco", 0.0)
    assert server.deadline() == 100


def test_the_last_to_come_ends_no_run_however_little_patience_it_has(server):
    """The timer looks at the deadline right when the last one has said that it does not wait."""

    class Watched(dict):
        def __setitem__(self, name, said):
            super().__setitem__(name, said)
            server.tick()

    server.relay._host(AGREED.run_id)._waiting = Watched()
    for name in ("bank", "telco"):
        server.wait(name, START + 5000)
    server.clock.now += 101
    for name in ("bank", "telco"):
        server.wait(name, START + 5000)
    server.wait("shop", 0.0)
    assert server.state() == "open"


def test_one_who_has_left_does_not_extend_anything(server):
    server.wait("bank", START + 5000)
    server.clock.now += 101  # and no poll for as long
    server.tick()
    assert server.state() == "failed"


def test_nobody_waits_longer_than_the_agreement_lasts(server):
    server.wait("bank", START + 1e9)
    assert server.deadline() == AGREED.manifest.expires.timestamp() - START


def test_a_restarted_server_gives_those_who_waited_time_to_say_so_again(server, tmp_path):
    server.wait("bank", START + 5000)
    server.relay.stop()
    server.clock.now += 300
    again = Server(tmp_path / "state", server.clock)
    try:
        again.tick()
        assert again.state() == "open"
        again.wait("bank", START + 5000)
        again.clock.now += 20
        again.tick()
        assert again.state() == "open"
        again.clock.now += 100
        again.tick()
        assert again.state() == "failed"
    finally:
        again.relay.stop()
        server.relay = Quiet()


def test_a_repeated_run_ends_the_one_before_and_a_wrong_number_is_refused(server):
    assert server.submit("telco", 2).state == "open"
    assert server.state() == "failed"
    with pytest.raises(FedValueError):
        AGREED.repeated(0)
    with pytest.raises(FedValueError):
        AGREED.repeated(1001)


def test_one_agreement_has_one_active_run_whatever_numbers_a_participant_submits(server):
    """Counting down from the highest number would fill the server with runs that nobody joins."""
    server.submit("telco", 9)
    for number in (8, 7, 2):
        with pytest.raises(FedValueError) as caught:
            server.submit("telco", number)
        assert caught.value.code == "E_SUPERSEDED"
    assert len(server.relay._active()) == 1
    assert server.submit("shop", 9).state == "open"
    assert server.submit("shop", 1).state == "failed"  # known, and over
