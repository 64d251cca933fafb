"""New keys and new cards while servers run: nothing changes until a restart, and then everything does."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from fedvalue.deployment.network.retry import Backoff
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.errors import FedValueError
from fedvalue.identity.cards import Identity, create_identity
from fedvalue.identity.identity_files import save_identity, write_card
from fedvalue.simulation.local_consortium import agree
from tests.support.processes import Process, until
from tests.support.programs import server_program
from tests.support.town import TASK, Town, ended_well, values_of

pytestmark = pytest.mark.network


def calling_as(town: Town, identity: Identity, server: str = "compute") -> ServerClient:
    manifest = town.consortium.signed.manifest
    return ServerClient(identity, manifest.participant(server), manifest, patience=0.0, backoff=Backoff())


def refusal(town: Town, identity: Identity) -> str:
    with pytest.raises(FedValueError) as caught:
        calling_as(town, identity).status(town.run_id)
    return caught.value.code


def test_a_card_that_is_added_while_a_server_runs_counts_after_its_restart(tmp_path):
    """Real process. Many parties connect at once meanwhile; the run from before is still there."""
    town = Town(tmp_path, n=100)
    folder = town.member("compute").folder
    late = create_identity("demo", "data", "late")
    starts = 0

    def start() -> Process:
        process = Process(
            server_program, str(folder / "server.toml"), "compute", log=tmp_path / "compute.log"
        )
        until(lambda: process.text().count('"listening"') == starts, what="the server's start")
        return process

    starts += 1
    server = start()
    try:
        town.client(TASK).submit(town.consortium.signed.to_json().encode())
        states: list[str] = []

        def connect(name: str) -> None:
            for _ in range(5):
                client = town.client(name)
                states.append(client.status(town.run_id).state)
                client.close()

        threads = [
            threading.Thread(target=connect, args=(name,)) for name in (TASK, *town.parties) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        write_card(late.card, folder / "peers" / "late.json")
        for thread in threads:
            thread.join()
        assert states == ["open"] * 60
        assert refusal(town, late) == "E_UNREACHABLE"  # refused in the handshake
        server.terminate()
        assert server.wait(30) == 0
        starts += 1
        server = start()
        assert calling_as(town, late).health().name == "compute"
        assert refusal(town, late) == "E_IDENTITY"  # known now, and still no participant of this run
        assert town.client("telco").status(town.run_id).state == "open"
    finally:
        server.kill()


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
        agree(tmp_path, members, endpoints, purpose="a test", n_samples=100)
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
