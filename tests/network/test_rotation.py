"""New keys, new cards and revoked ones while servers run."""

from __future__ import annotations

import threading
from dataclasses import replace
from io import StringIO

import pytest

from fedvalue.deployment.config import read_server_config
from fedvalue.deployment.network.retry import Backoff
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.network.rpc_server import NetworkServer
from fedvalue.deployment.servers import door
from fedvalue.deployment.servers.observability import Log
from fedvalue.deployment.servers.relay_server import RelayServer
from fedvalue.errors import FedValueError
from fedvalue.identity.cards import Identity, create_identity
from fedvalue.identity.identity_files import read_pinned, save_identity, write_card
from fedvalue.simulation.local_consortium import agree
from tests.support.processes import PATIENCE, Process, until
from tests.support.programs import server_program
from tests.support.town import TASK, Town, ended_well, values_of

pytestmark = pytest.mark.network


def calling_as(
    town: Town, identity: Identity, server: str = "compute", patience: float = 0.0
) -> ServerClient:
    manifest = town.consortium.signed.manifest
    return ServerClient(
        identity, manifest.participant(server), manifest, patience=patience, backoff=Backoff()
    )


def refusal(town: Town, identity: Identity) -> str:
    with pytest.raises(FedValueError) as caught:
        calling_as(town, identity).status(town.run_id)
    return caught.value.code


def test_cards_are_added_and_revoked_while_a_server_runs(tmp_path):
    """Real process, never restarted. Many parties connect meanwhile; the run from before is still there.

    The old rule was a restart for every card; here a new card counts within seconds, a second card of
    a participant counts beside its first, a file that is no card changes nothing, and a removed card is out.
    """
    town = Town(tmp_path, n=100)
    folder = town.member("compute").folder
    peers = folder / "peers"
    late, renewed = (
        create_identity("demo", "data", "late"),
        create_identity("demo", "data", "telco", valid_days=30),
    )
    server = Process(server_program, str(folder / "server.toml"), "compute", log=tmp_path / "compute.log")

    def reopened(times: int) -> None:
        until(lambda: server.text().count('"reopened"') == times, what="the new port")

    try:
        until(lambda: '"listening"' in server.text(), what="the server's start")
        town.client(TASK).submit(town.consortium.signed.to_json().encode())
        assert refusal(town, late) == "E_UNREACHABLE"  # refused in the handshake
        states: list[str] = []

        def connect(name: str) -> None:
            for _ in range(10):
                client = town.client(name, patience=PATIENCE)
                states.append(client.status(town.run_id).state)
                client.close()

        threads = [
            threading.Thread(target=connect, args=(name,)) for name in (TASK, *town.parties) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        write_card(late.card, peers / "late.json")
        reopened(1)
        for thread in threads:
            thread.join()
        assert states == ["open"] * 120
        assert calling_as(town, late).health().name == "compute"
        assert refusal(town, late) == "E_IDENTITY"  # known now, and still no participant of this run

        write_card(renewed.card, peers / "telco-new.json")
        reopened(2)
        assert town.client("telco").status(town.run_id).state == "open"  # the old key still counts
        assert calling_as(town, renewed).health().name == "compute"  # beside the new one

        (peers / "notes.json").write_text("{}")
        until(lambda: '"cards"' in server.text(), what="the refusal of the file")
        (peers / "notes.json").unlink()
        (peers / "telco.json").unlink()
        reopened(3)
        assert refusal(town, town.member("telco").identity) == "E_UNREACHABLE"
        assert calling_as(town, renewed).health().name == "compute"
        assert town.client(TASK).status(town.run_id).state == "open"
        assert server.alive
    finally:
        server.kill()


def test_a_connection_from_before_is_no_way_around_a_revocation(tmp_path):
    """The key is compared on every call, not only in the handshake."""
    town = Town(tmp_path, n=100).start("compute")
    try:
        client = town.client("telco")
        assert client.submit(town.consortium.signed.to_json().encode()).state == "open"
        relay, _ = town.servers["compute"]
        relay.cards = {name: card for name, card in relay.cards.items() if name != "telco"}
        with pytest.raises(FedValueError, match="not trusted here any more") as caught:
            client.status(town.run_id)
        assert caught.value.code == "E_IDENTITY"
    finally:
        town.stop()


def test_a_party_with_a_new_key_needs_a_new_agreement(tmp_path):
    """The old key is refused in the handshake, the new one by the old agreement; a new one gives a run."""
    town = Town(tmp_path, n=100).start()
    try:
        town.client(TASK).submit(town.consortium.signed.to_json().encode())
        member = town.member("telco")
        old, new = member.identity, create_identity("demo", "data", "telco", valid_days=30)
        for other in town.consortium.members.values():
            if other is not member:
                write_card(new.card, other.folder / "peers" / "telco.json")
        for path in (member.folder / "identity").iterdir():
            path.unlink()
        save_identity(new, member.folder / "identity")
        assert town.client("telco").status(town.run_id).state == "open"  # the server has not been restarted
        town.stop()
        town.start()
        assert refusal(town, old) == "E_UNREACHABLE"
        assert refusal(town, new) == "E_IDENTITY"
        members = {**town.consortium.members, "telco": replace(member, identity=new)}
        manifest = town.consortium.signed.manifest
        endpoints = {name: manifest.participant(name).endpoint for name in ("compute", "validate")}
        agree(members, endpoints, purpose="a test", n_samples=100)
        ends = town.join()
    finally:
        town.stop()
    assert ended_well(ends), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


def test_a_server_with_a_new_key_is_another_server(tmp_path):
    """Restarted with other keys it is not the one that the parties pinned: no connection, no word."""
    town = Town(tmp_path, n=100).start("compute")
    try:
        assert town.client("telco").health().name == "compute"
        member = town.member("compute")
        new = create_identity("demo", "compute", "compute", valid_days=30)
        town.consortium.members["compute"] = replace(member, identity=new)
        town.stop()
        town.start("compute")
        with pytest.raises(FedValueError) as caught:
            town.client("telco").health()
        assert caught.value.code == "E_UNREACHABLE"
    finally:
        town.stop()


@pytest.mark.parametrize("patience", [10.0, 0.0], ids=["reopen waits", "the watch tries again"])
def test_a_port_that_grpc_frees_late_is_opened_again(tmp_path, monkeypatch, patience):
    """The port was lost for good once: gRPC had not let go of it when it was to be opened again."""

    class FreedLate(NetworkServer):
        def close(self, grace: float) -> None:
            threading.Timer(0.5, super().close, (grace,)).start()

    monkeypatch.setattr(door, "NetworkServer", FreedLate)
    monkeypatch.setattr(door, "_FREE_SECONDS", patience)
    monkeypatch.setattr(door, "WATCH_SECONDS", 0.1)
    town = Town(tmp_path, n=100)
    config = read_server_config(town.member("compute").folder / "server.toml")
    identity, log = town.member("compute").identity, Log("compute", StringIO())
    relay = RelayServer(identity, read_pinned(config.peers, identity.card), config.state, log=log)
    port = door.Door(config, identity, relay, log)
    port.start()
    try:
        late = create_identity("demo", "data", "late")
        assert refusal(town, late) == "E_UNREACHABLE"
        write_card(late.card, config.peers / "late.json")
        client = calling_as(town, late, patience=PATIENCE)
        assert client.health().name == "compute"
        client.close()
    finally:
        port.stop(0.0)
        relay.stop()
