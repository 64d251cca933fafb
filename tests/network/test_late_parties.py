"""Problem 17 of the first review: a late party burned the agreement, and everybody had to sign again."""

from __future__ import annotations

import threading
import time

import pytest

from fedvalue.agreement.manifest import Deadlines, SignedManifest
from fedvalue.deployment.certificate_check import check_certificate
from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.deployment.servers import run_host
from fedvalue.deployment.valuation_certificate import read_certificate
from fedvalue.errors import FedValueError
from tests.support.processes import PATIENCE, until
from tests.support.town import TASK, Town, ended_well, values_of

pytestmark = pytest.mark.network


class Later:
    """The clock of both servers, which a test puts ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def numbered(town: Town, number: int) -> SignedManifest:
    return town.consortium.signed.repeated(number)


def refusal(town: Town, number: int) -> str:
    with pytest.raises(FedValueError) as caught:
        town.client("telco").submit(numbered(town, number).to_json().encode())
    return caught.value.code


def test_a_run_that_a_late_party_missed_is_repeated_under_the_same_signatures(tmp_path):
    town, clock = Town(tmp_path, n=100, parties=("telco", "shop")), Later()
    town.start(clock=clock)

    def give_up() -> None:
        until(lambda: town.awaited() == ("shop",), what="bank and telco")
        clock.ahead = 7200.0  # past the limit of the computation server, not of the other one

    try:
        threading.Thread(target=give_up, daemon=True).start()
        ends = town.join(TASK, "telco")
        for end in ends.values():
            assert end.code == "E_DEADLINE"
            assert "missing: shop" in str(end)
        again = town.join(TASK)[TASK]  # the same command says it again, and the next step
        assert again.code == "E_DEADLINE"
        assert "--again repeats it under the same agreement" in str(again)
        assert town.client("telco").status(town.run_id).state == "failed"

        # Shop, who took no part, finds the right run by itself.
        ends = town.join(TASK, "telco", "shop", again=(TASK, "telco"))
        assert ended_well(ends), ends
        assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
        assert town.result()["run_id"] == numbered(town, 2).run_id.hex() != town.run_id.hex()
        certificate = read_certificate(town.member(TASK).folder / "certificate.json")
        assert certificate.manifest.manifest.run == 2
        assert certificate.manifest.signatures == town.consortium.signed.signatures
        check_certificate(certificate)

        # One result per agreement, whoever asks for another.
        assert refusal(town, 3) == "E_REPLAY"
        assert values_of(town.result()) == values_of(town.join(TASK, again=(TASK,))[TASK].to_dict())
    finally:
        town.stop()


def test_a_party_that_moves_on_ends_the_run_that_it_left(tmp_path):
    """Nobody waits for a party that has started the next run."""
    town = Town(tmp_path, n=100, parties=("telco", "shop")).start()
    try:
        first = {}
        config = read_party_config(town.member(TASK).folder / "party.toml")

        def wait() -> None:
            with pytest.raises(FedValueError) as caught:
                take_part(config, "task")
            first["bank"] = caught.value

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        # Its first message. A party that has only asked for its run goes on to the next one by itself.
        until(lambda: set(town.awaited()) == {"telco", "shop"}, what="the bank")
        town.client("telco").submit(numbered(town, 2).to_json().encode())
        thread.join(PATIENCE)
        assert first["bank"].code == "E_SUPERSEDED"
        assert "'telco' has started run 2" in str(first["bank"])
        assert ended_well(town.join(again=(TASK,)))
        assert town.result()["run_id"] == numbered(town, 2).run_id.hex()
    finally:
        town.stop()


def test_a_run_that_has_not_failed_is_not_repeated(tmp_path):
    town = Town(tmp_path, n=100, parties=("telco",)).start()
    try:
        assert ended_well(town.join())
        assert refusal(town, 2) == "E_REPLAY"
        assert numbered(town, 1).run_id == town.run_id
    finally:
        town.stop()


def test_those_who_wait_extend_the_deadline_together(tmp_path, monkeypatch):
    """Bank and telco agree to wait; shop comes after the deadline of the terms, and the first run works."""
    # They say so with every poll, of which there is none while the clock leaps.
    monkeypatch.setattr(run_host, "_STILL_WAITING", 3600.0)
    limits = Deadlines(keying=600, upload=600, compute=600)
    town, clock = Town(tmp_path, n=100, parties=("telco", "shop"), deadlines=limits), Later()
    town.start(clock=clock)
    try:
        ends = {}

        def wait() -> None:
            ends.update(town.join(TASK, "telco", wait_hours=1.0))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        until(lambda: town.awaited() == ("shop",), what="bank and telco")
        host = town.servers["compute"][0]._host(town.run_id)
        until(lambda: set(host._waiting) == {TASK, "telco"}, what="the word of both that they wait")
        clock.ahead = 1200.0
        host.tick(clock())
        assert town.client("shop").status(town.run_id).state == "open"
        ends.update(town.join("shop"))
        thread.join(PATIENCE)
        assert len(ends) == 3
        assert ended_well(ends), ends
        assert town.result()["run_id"] == town.run_id.hex()
    finally:
        town.stop()
