"""Noise and the ledger over real sockets, and through the command in processes of its own: item 33."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import msgspec
import pytest

from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.parties import ledger as ledgers
from fedvalue.deployment.parties.ledger import Ledger
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.errors import FedValueError, VerificationError
from fedvalue.identity.audit_log import read_log
from fedvalue.protocol import messages as m
from fedvalue.simulation.local_consortium import agree
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.network.test_recovery import Cast
from tests.support.certificates import check, resigned
from tests.support.databases import opened
from tests.support.evil_server import sending
from tests.support.processes import Process, files_in, until
from tests.support.programs import party_program, server_program
from tests.support.town import TASK, Town, ended_well

pytestmark = pytest.mark.network


def budget(town: Town, amount: str) -> None:
    for name in (TASK, *town.parties):
        path = town.member(name).folder / "party.toml"
        path.write_text(path.read_text() + f"\n[privacy]\nbudget = {amount}\n")


def agree_again(town: Town, **terms: object) -> None:
    """A new manifest for the same consortium and tables, signed by all."""
    manifest = town.consortium.signed.manifest
    endpoints = {role: manifest.of_role(role)[0].endpoint for role in ("compute", "validate")}
    signed = agree(town.consortium.members, endpoints, purpose="again", n_samples=manifest.n_samples, **terms)
    object.__setattr__(town.consortium, "signed", signed)


def entries(town: Town, name: str) -> list[bytes]:
    ledger = Ledger(town.member(name).folder / "state")
    try:
        return [entry.run_id for entry in ledger.entries()]
    finally:
        ledger.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    found = Town(tmp_path_factory.mktemp("noise"), epsilon="1").start()
    budget(found, "1.5")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def ends(town):
    return town.join()


def test_a_run_with_noise_ends_well_and_says_what_it_promises(town, ends):
    assert ended_well(ends), ends
    result = town.result()
    found = {party["name"]: party["learnable"] for party in result["parties"]}
    assert result["learnable_total"] == pytest.approx(sum(found.values()))
    assert not {"label_entropy", "total"} & set(result)
    share = json.loads((town.member("telco").folder / "result.json").read_bytes())
    assert set(share) == {
        "schema", "unit", "run_id", "protocol", "parties", "estimator", "learnable_total",
        "learnable_total_interval", "n_samples", "method", "n_permutations", "seed", "bins", "settings",
        "details", "privacy", "columns", "provenance",
    }  # fmt: skip
    for data in (result, share):  # nothing exact beside the numbers with noise
        assert all(set(column) == {"party", "name", "kind", "n_codes"} for column in data["columns"])
        assert all(
            set(source) <= {"name", "party", "format", "n_rows"} for source in data["provenance"]["sources"]
        )
    (own,) = share["parties"]
    assert own["learnable"] == found["telco"]
    assert not {"value", "alone", "last"} & set(own)
    for data in (result, share):
        assert data["privacy"]["epsilon"] == 1.0
        assert "not the servers" in data["privacy"]["observer"]


def test_every_party_has_charged_the_run_once_also_when_started_again(town, ends):
    again = town.join()
    assert {name: end.to_json() for name, end in again.items()} == {
        name: end.to_json() for name, end in ends.items()
    }
    for name in (TASK, *town.parties):
        assert entries(town, name) == [town.run_id]


def test_the_certificate_states_the_promise_and_a_changed_one_is_refused(town, ends):
    path = town.member(TASK).folder / "certificate.json"
    data = json.loads(path.read_bytes())
    checked = check(data)
    assert any(
        "epsilon 1, delta 1e-06" in said and "adjacency" in said and "observer" in said
        for said in checked.proved
    )
    assert any("drew the noise" in said for said in checked.unproved)
    for key, value in (("epsilon", 0.1), ("observer", "everybody"), ("label_noise", 1.0)):
        changed = json.loads(json.dumps(data))
        changed["result"]["privacy"][key] = value
        with pytest.raises(VerificationError, match="signed other values"):
            check(resigned(changed, town.member(TASK).identity))
    done = fedvalue("audit", "verify", path)
    assert done.code == 0
    assert (
        "Differentially private with epsilon 1 and delta 1e-06, for two tables of the same persons"
        in done.out
    )


def test_servers_keep_no_word_of_the_noise_after_the_run(town, ends):
    def kept(name: str, other: str) -> int:
        with opened(town.member(name).folder / "state" / "server.sqlite") as db:
            words = "SELECT count(*) FROM outbox WHERE recipient = ? AND run_id = ?"
            return db.execute(words, (other, town.run_id)).fetchone()[0]

    # They forget when their couriers end, which is a little later than the parties.
    until(
        lambda: kept("compute", "validate") + kept("validate", "compute") == 0, what="both servers to forget"
    )


def told(town: Town, *, spoil: bool) -> list[m.SecretMessage]:
    """Join a run and note what the servers tell each other; on demand V gets a wrong opening."""
    found: list[m.SecretMessage] = []

    def note(envelope: m.Envelope, credentials: object) -> m.Envelope:
        message = envelope.message
        if isinstance(message, m.NoiseSeed | m.NoiseOpening):
            found.append(message)
        if spoil and isinstance(message, m.NoiseOpening):
            message = msgspec.structs.replace(message, tables=bytes(32))
        return msgspec.structs.replace(envelope, message=message)

    town.start(make_role=sending(note))
    town.join()
    return found


@pytest.mark.parametrize("spoil", [False, True], ids=["done", "failed"])
def test_no_file_of_a_server_holds_what_it_was_told_about_the_noise(tmp_path, spoil):
    """Byte by byte, the write-ahead log included; also of a run that failed."""
    town = Town(tmp_path, n=100, epsilon="1")
    seed, opening = told(town, spoil=spoil)
    own = {"compute": opening.seed, "validate": seed.seed}

    def known(name: str) -> set[str]:
        data = b""
        for path in files_in(town.member(name).folder / "state"):
            with contextlib.suppress(FileNotFoundError):
                data += path.read_bytes()
        return {who for who, secret in own.items() if secret in data}

    def seeds() -> int:
        with opened(town.member("compute").folder / "state" / "server.sqlite") as db:
            return db.execute("SELECT count(*) FROM seeds").fetchone()[0]

    try:
        until(lambda: not known("compute") | known("validate"), what="both servers to forget")
        until(lambda: seeds() == 0, what="the purge")
    finally:
        town.stop()


def test_a_run_beyond_the_budget_is_refused_before_any_byte_leaves(town, ends):
    """E_BUDGET at every party; the servers have never heard of the run. Nothing is charged for it."""
    first = town.run_id
    agree_again(town, epsilon="1")
    refused = town.join()
    for name, end in refused.items():
        assert isinstance(end, VerificationError)
        assert end.code == "E_BUDGET"
        assert "spent epsilon 1 in 1 earlier runs, this run needs 1 more, and the budget is 1.5" in str(end)
        assert entries(town, name) == [first]
    for name in ("compute", "validate"):
        assert town.servers[name][0]._store.run(town.run_id) is None


def test_a_smaller_epsilon_still_fits(town, ends):
    agree_again(town, epsilon="0.5")
    found = town.join()
    assert ended_well(found), found
    assert all(len(entries(town, name)) == 2 for name in found)
    shown = fedvalue_here("audit", "ledger", town.member("telco").folder / "state")
    assert [town.run_id.hex(), "0.5"] in [line.split()[:2] for line in shown.out.splitlines()]
    assert fedvalue_here("audit", "ledger", town.member("compute").folder / "state").code == 4


def test_exact_runs_beyond_the_limit_are_refused_before_any_byte_leaves(tmp_path):
    """Review, finding 9: the second exact run on the same persons, where one is allowed."""
    town = Town(tmp_path, n=100).start()
    for name in (TASK, *town.parties):
        path = town.member(name).folder / "party.toml"
        path.write_text(path.read_text() + "\n[privacy]\nexact_runs = 1\n")
    try:
        assert ended_well(town.join())
        first = town.run_id
        agree_again(town)
        for name, end in town.join().items():
            assert isinstance(end, VerificationError)
            assert end.code == "E_BUDGET"
            assert "1 earlier runs released exact values" in str(end)
            assert entries(town, name) == [first]
        for name in ("compute", "validate"):
            assert town.servers[name][0]._store.run(town.run_id) is None
    finally:
        town.stop()
    shown = fedvalue_here("audit", "ledger", town.member("telco").folder / "state")
    assert [line.split()[:2] for line in shown.out.splitlines()][1:] == [[first.hex(), "exact"]]


def test_a_party_that_wants_noise_refuses_an_exact_run(tmp_path):
    town = Town(tmp_path, n=100, accept="exact = false")
    config = read_party_config(town.member("telco").folder / "party.toml")
    with pytest.raises(VerificationError, match="without noise") as caught:
        take_part(config, "data", lambda stage, words: None)
    assert caught.value.code == "E_MANIFEST"


def test_a_run_that_ends_before_the_upload_costs_nothing(tmp_path):
    """One party has another id: E_POPULATION, and the epsilon is still there."""
    town = Town(tmp_path, n=100, epsilon="1").start()
    path = town.member("telco").folder / "table.csv"
    path.write_text(path.read_text().replace("P00007", "Q00007"))
    try:
        found = town.join()
        assert {end.code for end in found.values() if isinstance(end, FedValueError)} == {"E_POPULATION"}
        assert len(found) == 3
        assert all(entries(town, name) == [] for name in found)
    finally:
        town.stop()


def test_a_cheating_opening_ends_the_run_for_everybody(tmp_path):
    """E_NOISE over the network; no result, and the logs say why."""

    def other_seed(envelope: m.Envelope, credentials: object) -> m.Envelope:
        if not isinstance(envelope.message, m.NoiseOpening):
            return envelope
        return msgspec.structs.replace(
            envelope, message=msgspec.structs.replace(envelope.message, seed=bytes(32))
        )

    town = (
        Town(tmp_path, n=100, epsilon="1").start("validate").start("compute", make_role=sending(other_seed))
    )
    try:
        found = town.join()
        assert {end.code for end in found.values() if isinstance(end, FedValueError)} == {"E_NOISE"}
        assert not any((town.member(name).folder / "result.json").exists() for name in found)
        for name in found:
            log = town.member(name).folder / "state" / f"audit-{town.run_id.hex()[:12]}.jsonl"
            read = read_log(log.read_text().splitlines(), town.member(name).identity.card.sign_key)
            assert read[-1].event == "failed E_NOISE"
    finally:
        town.stop()


def killed_after_charging(config: str, role: str) -> None:
    """`fedvalue join` on a machine that loses power when the ledger is charged and nothing uploaded."""
    spend = ledgers.Account.charge

    def spent(self: ledgers.Account, *terms: object) -> None:
        spend(self, *terms)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    ledgers.Account.charge = spent  # type: ignore[method-assign,assignment]
    take_part(read_party_config(Path(config)), role, lambda stage, words: None)


def test_a_killed_party_is_charged_once_and_the_commands_refuse_a_run_beyond_the_budget(tmp_path):
    """Real processes: a kill between charge and upload gives no free run and costs no second charge; of a
    second run every command ends with 7 and E_BUDGET."""
    town = Town(tmp_path, n=100, epsilon="1")
    budget(town, "1")

    def start(program: object, name: str) -> Process:
        member = town.member(name)
        file = "server.toml" if name in ("compute", "validate") else "party.toml"
        return Process(program, str(member.folder / file), member.role, log=tmp_path / f"{name}.log")  # type: ignore[arg-type]

    servers = [start(server_program, name) for name in ("compute", "validate")]
    try:
        parties = {TASK: start(party_program, TASK), "shop": start(party_program, "shop")}
        killed = start(killed_after_charging, "telco")
        assert killed.wait() == -9
        assert entries(town, "telco") == [town.run_id]
        parties["telco"] = start(party_program, "telco")
        assert {name: process.wait() for name, process in parties.items()} == dict.fromkeys(parties, 0)
        assert entries(town, "telco") == [town.run_id]
        agree_again(town, epsilon="0.001")
        for name in (TASK, "telco"):
            command = "run" if name == TASK else "join"
            done = fedvalue(command, "--config", town.member(name).folder / "party.toml")
            assert done.code == 7
            assert "[E_BUDGET]" in done.err
            assert (
                "spent epsilon 1 in 1 earlier runs, this run needs 0.001 more, and the budget is 1"
                in done.err
            )
    finally:
        for server in servers:
            server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["compute", "validate"])
@pytest.mark.parametrize("message", [1, 2, 3], ids=["commitment", "seed", "opening"])
def test_a_server_killed_while_the_noise_is_agreed_on_ends_in_one_result(tmp_path, server, message):
    """Killed with the message just stored and started again, it makes the same contribution."""
    cast = Cast(Town(tmp_path, n=100, epsilon="1"))
    try:
        cast.start("compute" if server == "validate" else "validate")
        cast.start(server, crash=("noise", message))
        cast.start(*cast.parties)
        assert cast.finish() == dict.fromkeys(cast.parties, 0)
        result = cast.town.result()
        values = [party["learnable"] for party in result["parties"]]
        assert result["learnable_total"] == pytest.approx(sum(values))
        assert '"recovered"' in (cast.town.member(server).folder / "test.log").read_text()
    finally:
        cast.stop()
