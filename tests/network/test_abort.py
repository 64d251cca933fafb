"""A party gives a run up over real sockets: everybody else ends at once, and nobody can continue it."""

from __future__ import annotations

import threading

import pytest

from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.parties.abandon import abandon
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.errors import ConfigError, EngineError, FedValueError
from fedvalue.storage.durable_files import exclusive_lock
from tests.cli.runner import fedvalue
from tests.support.processes import until
from tests.support.town import TASK, Town, ended_well

pytestmark = pytest.mark.network


def give_up(town: Town) -> dict[str, str]:
    config = read_party_config(town.member("telco").folder / "party.toml")
    return abandon(config.identity, config.manifest, config.state, config.addresses)


def test_a_party_ends_the_run_for_everybody(tmp_path):
    town = Town(tmp_path, n=100).start()
    path = town.member("telco").folder / "party.toml"
    ends: dict[str, object] = {}
    try:
        others = threading.Thread(target=lambda: ends.update(town.join(TASK, "shop")))
        others.start()
        shown = fedvalue("abort", "--config", path)
        assert shown.code == 0
        assert "compute: has ended the run" in shown.err
        others.join()
        assert {name: end.code for name, end in ends.items() if isinstance(end, FedValueError)} == {
            TASK: "E_ABORTED", "shop": "E_ABORTED",
        }  # fmt: skip
        # The validation server was notified too, and may have been the first to say so.
        until(lambda: town.client("telco").status(town.run_id).state == "failed", what="the end")
        assert give_up(town)["compute"] == "over"
        with pytest.raises(FedValueError, match="this party gave the run up") as caught:
            take_part(read_party_config(path), "data")
        assert caught.value.code == "E_ABORTED"
    finally:
        town.stop()


def test_a_run_in_use_or_over_is_not_given_up(tmp_path):
    town = Town(tmp_path, n=100).start()
    config = read_party_config(town.member("telco").folder / "party.toml")
    try:
        lock = config.state / f"party-{town.run_id.hex()[:12]}.lock"
        with exclusive_lock(lock), pytest.raises(EngineError, match="stop `fedvalue join`"):
            give_up(town)
        assert ended_well(town.join())
        with pytest.raises(ConfigError, match="ended with a result"):
            give_up(town)
    finally:
        town.stop()
