"""Many runs at once on one pair of servers: correct values, no cross-talk."""

from __future__ import annotations

import json
import threading

import pytest

from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.simulation.local_consortium import agree
from tests.support.town import DATA, TASK, Town, columns, expected, values_of, write_tables

pytestmark = pytest.mark.network


@pytest.mark.parametrize("n_runs", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_many_runs_at_once_with_the_same_participants(tmp_path, n_runs):
    """Each run has other data; every result must be its own run's."""
    town = Town(tmp_path / "town", n=100)
    manifest = town.consortium.signed.manifest
    endpoints = {"compute": manifest.compute.endpoint, "validate": manifest.validate.endpoint}
    members = town.consortium.members
    codes, run_ids = [], []
    for k in range(n_runs):
        signed = agree(members, endpoints, purpose=f"run {k}", n_samples=100)
        run_ids.append(signed.run_id.hex())
        codes.append(columns(100, seed=50 + k))
        write_tables(tmp_path / f"tables-{k}", codes[k])
        for party in (TASK, *DATA):
            folder = members[party].folder
            (folder / f"manifest-{k}.json").write_text(signed.to_json())
            text = (folder / "party.toml").read_text()
            for old, new in (
                ('"table.csv"', f'"{tmp_path / f"tables-{k}" / party / "table.csv"}"'),
                ('"state"', f'"state-{k}"'), ('"manifest.json"', f'"manifest-{k}.json"'),
                ('"result.json"', f'"result-{k}.json"'), ('certificate = "certificate.json"', ""),
            ):  # fmt: skip
                text = text.replace(old, new)
            (folder / f"party-{k}.toml").write_text(text)
    town.start()
    failures: list[object] = []

    def take(party: str, k: int) -> None:
        try:
            config = read_party_config(members[party].folder / f"party-{k}.toml")
            take_part(config, members[party].role, lambda stage, words: None)
        except BaseException as error:
            failures.append((party, k, error))

    threads = [
        threading.Thread(target=take, args=(party, k)) for k in range(n_runs) for party in (TASK, *DATA)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        town.stop()
    assert failures == []
    for k in range(n_runs):
        result = json.loads((members[TASK].folder / f"result-{k}.json").read_bytes())
        assert result["run_id"] == run_ids[k]
        assert values_of(result) == pytest.approx(town.released(expected(codes[k])), abs=1e-9)


def test_a_server_takes_no_more_runs_than_its_limit(tmp_path):
    from fedvalue.deployment.config import Limits
    from fedvalue.errors import TransportError

    town = Town(tmp_path, n=100)
    first = town.consortium.signed
    manifest = first.manifest
    endpoints = {"compute": manifest.compute.endpoint, "validate": manifest.validate.endpoint}
    second = agree(town.consortium.members, endpoints, purpose="second", n_samples=100)
    town.start("compute", limits=Limits(runs=1))
    try:
        client = town.client(TASK)
        client.submit(first.to_json().encode())
        with pytest.raises(TransportError) as caught:
            client.submit(second.to_json().encode())
        assert caught.value.code == "E_BUSY"
        assert client.submit(first.to_json().encode()).state == "open"
    finally:
        town.stop()
