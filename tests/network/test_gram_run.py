"""Protocol `gram` over mutual TLS on loopback: three servers and the parties in threads of the test."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from fedvalue.deployment.certificate_check import check_certificate
from fedvalue.deployment.parties.ledger import Ledger
from fedvalue.deployment.servers.server_store import read_audit
from fedvalue.deployment.valuation_certificate import read_certificate
from fedvalue.errors import FedValueError, VerificationError
from fedvalue.federated.options import Gram
from fedvalue.federated.run import federated_value
from fedvalue.identity.audit_log import Receipt, check_receipts, read_log
from fedvalue.information.pair_tables import PairTables, pair_layout, tables_of_columns
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.samples import CodedColumn
from fedvalue.valuation.low_order.low_order_valuation import value_tables
from tests.network.test_recovery import Cast
from tests.network.test_streaming import tight
from tests.support.certificates import check, resigned
from tests.support.databases import opened
from tests.support.evil_server import sending
from tests.support.processes import files_in, until
from tests.support.town import TASK, Town, ended_well

pytestmark = pytest.mark.network

PARTIES = ("telco", "shop")
SERVERS = ("compute", "validate", "assist")
EXACT: dict[str, Any] = {"protocol": "gram", "policy": "counts", "exact_tables": True}
ACCEPT_EXACT = 'policies = ["valuation", "counts"]'


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One honest run with noise that several tests look at."""
    town = Town(tmp_path_factory.mktemp("gram"), n=600, parties=PARTIES, protocol="gram", epsilon="1").start()
    ends = town.join()
    yield town, ends
    town.stop()


def joined_tables(town: Town) -> PairTables:
    """The tables of the joined columns, counted here: the label, X_t, then every party."""
    names = sorted(town.parties)  # the order of the manifest
    columns = [town.codes["task"], *(town.codes[name] for name in names)]
    sizes = [int(column.max()) + 1 for column in columns]
    layout = pair_layout(names, [[size] for size in sizes[1:]], 2, task=(sizes[0],))
    return tables_of_columns(layout, columns, town.codes["label"])


def learnable(result: dict[str, Any]) -> dict[str, float]:
    return {party["name"]: party["learnable"] for party in result["parties"]}


def test_without_noise_the_values_are_those_of_the_plain_estimator_and_of_a_run_in_one_process(tmp_path):
    town = Town(tmp_path, parties=PARTIES, accept=ACCEPT_EXACT, **EXACT).start()
    try:
        ends = town.join()
    finally:
        town.stop()
    assert ended_well(ends), ends
    found = learnable(town.result())
    plain = value_tables(joined_tables(town), town.consortium.signed.manifest.settings)
    assert found == {party.name: party.learnable for party in plain.parties}

    def coded(name: str) -> CodedColumn:
        codes = town.codes[name]
        return CodedColumn(name, codes, int(codes.max()) + 1)

    one_process = federated_value(
        label=coded("label"), task=coded("task"), parties=[coded(name) for name in sorted(PARTIES)],
        protocol=Gram(exact_tables=True), settings=town.consortium.signed.manifest.settings,
    )  # fmt: skip
    assert found == {party.name: party.learnable for party in one_process.parties}
    share = json.loads((town.member("telco").folder / "result.json").read_bytes())
    assert learnable(share) == {"telco": found["telco"]}


def test_a_run_with_noise_ends_well_and_says_what_it_promises(finished):
    town, ends = finished
    assert ended_well(ends), ends
    result = town.result()
    share = json.loads((town.member("telco").folder / "result.json").read_bytes())
    assert result["learnable_total"] == pytest.approx(sum(learnable(result).values()))
    assert learnable(share) == {"telco": learnable(result)["telco"]}
    assert not {"interactions", "coalitions", "uplift"} & set(share)
    for data in (result, share):
        assert data["privacy"]["epsilon"] == 1.0
        assert "one cheating server together with any parties" in data["privacy"]["observer"]
        assert data["details"]["agreement"]["servers"] == list(SERVERS)


def test_every_party_has_charged_the_epsilon_once(finished):
    town, _ = finished
    for name in (TASK, *PARTIES):
        ledger = Ledger(town.member(name).folder / "state")
        try:
            assert [(one.run_id, one.epsilon) for one in ledger.entries()] == [(town.run_id, 1)]
        finally:
            ledger.close()


def test_secrets_uploads_and_seeds_of_the_noise_are_gone_after_the_run(finished):
    """What remains of a server's messages to another is the last one, which does not depend on the noise."""
    town, _ = finished
    for name in (TASK, *PARTIES):
        with opened(town.member(name).folder / "state" / "party.sqlite") as db:
            assert db.execute("SELECT seed FROM runs").fetchall() == [(b"",)]
            assert db.execute("SELECT count(*) FROM inbox").fetchone() == (0,)

    def has_forgotten(name: str) -> bool:
        state = town.member(name).folder / "state"
        with opened(state / "server.sqlite") as db:
            (uploads,) = db.execute("SELECT count(*) FROM inbox WHERE length(body) > 0").fetchone()
            (seeds,) = db.execute("SELECT count(*) FROM seeds").fetchone()
            mail = db.execute("SELECT recipient, body FROM outbox").fetchall()
        to_servers = [codec.decode(body).message for recipient, body in mail if recipient in SERVERS]
        tests_only = all(isinstance(message, m.GramTest) for message in to_servers)
        return not files_in(state / "spool") and uploads == seeds == 0 and tests_only

    for name in SERVERS:  # which end a little later than the parties
        until(lambda name=name: has_forgotten(name), what=f"the purge at {name}")


def test_the_certificate_proves_the_values_and_the_logs_agree_with_the_receipts(finished):
    town, _ = finished
    certificate = read_certificate(town.member(TASK).folder / "certificate.json")
    checked = check_certificate(certificate)
    assert "servers 'compute', 'validate', 'assist' signed sums that fit together" in checked.proved
    assert "the values follow from these sums" in checked.proved
    short = town.run_id.hex()[:12]
    for party in (TASK, *PARTIES):
        lines = (town.member(party).folder / "state" / f"receipts-{short}.jsonl").read_text().splitlines()
        receipts = [Receipt.from_line(line) for line in lines]
        for server in SERVERS:
            key = town.member(server).identity.card.sign_key
            entries = read_log(read_audit(town.member(server).folder / "state", town.run_id), key)
            assert check_receipts(entries, receipts, key) > 0


def test_the_signed_sums_have_the_stated_noise_and_no_more(finished):
    """Certificates hold the noisy tables: every cell within six standard deviations, and not exact."""
    from fedvalue.agreement.run_settings import terms_of
    from fedvalue.protocol.gram.gram_opening import OpenedSums, opened_tables
    from fedvalue.protocol.readiness import settings_of

    town, _ = finished
    certificate = read_certificate(town.member(TASK).folder / "certificate.json")
    readies = {ready.party: ready for ready in certificate.readies}
    settings = settings_of(terms_of(certificate.manifest.manifest), readies)
    sums = {name: OpenedSums.decode(b"".join(certificate.servers[name].result)) for name in SERVERS}
    noisy, exact = opened_tables(settings, sums), joined_tables(town)
    off = (noisy.cells - exact.cells).astype(float)
    spread = np.full(len(off), np.sqrt(noisy.pair_variance))
    spread[: exact.layout.n_label_cells] = np.sqrt(noisy.label_variance)
    assert np.abs(off / spread).max() < 6
    assert 0.5 < np.sqrt(np.mean((off / spread) ** 2)) < 1.6


@pytest.mark.parametrize("server", SERVERS)
def test_a_certificate_with_other_sums_is_refused(finished, server):
    town, _ = finished
    data = json.loads((town.member(TASK).folder / "certificate.json").read_bytes())
    check(data)
    changed = data["servers"][server]["result"][0]
    data["servers"][server]["result"][0] = changed[:-8] + ("B" if changed[-8] != "B" else "C") + changed[-7:]
    with pytest.raises(FedValueError):
        check(resigned(data, town.member(TASK).identity))


def test_a_certificate_with_values_that_do_not_follow_from_the_sums_is_refused(finished):
    """The task party can sign what it likes, but not the servers' sums."""
    town, _ = finished
    data = json.loads((town.member(TASK).folder / "certificate.json").read_bytes())
    first, second = data["result"]["parties"]
    first["learnable"], second["learnable"] = first["learnable"] + 0.1, second["learnable"] - 0.1
    with pytest.raises(VerificationError, match="do not follow") as caught:
        check(resigned(data, town.member(TASK).identity))
    assert caught.value.code == "E_SUMS"


def test_the_same_command_again_gives_the_same_bytes(finished):
    town, ends = finished
    again = town.join()
    assert {name: end.to_json() for name, end in again.items()} == {
        name: end.to_json() for name, end in ends.items()
    }


def test_a_server_that_opens_other_sums_ends_the_run_for_everybody(tmp_path):
    """The assisting server shifts a cell after it has committed: no party gets a result."""

    def shifted(envelope: m.Envelope, credentials: Any) -> m.Envelope:
        if not isinstance(envelope.message, m.ResultChunk):
            return envelope
        data = bytearray(envelope.message.data)
        data[-200] ^= 1
        chunk = m.ResultChunk(0, 1, m.bulk_digest(0, 1, bytes(data)), bytes(data))
        return msgspec.structs.replace(envelope, message=chunk)

    town = Town(tmp_path, parties=PARTIES, protocol="gram", epsilon="1").start("compute", "validate")
    town.start("assist", make_role=sending(shifted))
    try:
        ends = town.join()
    finally:
        town.stop()
    assert all(isinstance(end, FedValueError) for end in ends.values()), ends
    assert {end.code for end in ends.values()} <= {"E_EQUIVOCATION", "E_COMMITMENT", "E_MALFORMED"}
    assert not any((town.member(name).folder / "result.json").exists() for name in ends)


def test_a_party_that_did_not_accept_exact_tables_refuses_them(tmp_path):
    """The switch for exact release is policy `counts`, which nobody accepts by default."""
    town = Town(tmp_path, parties=PARTIES, **EXACT)
    ends = town.join(TASK)
    assert isinstance(ends[TASK], VerificationError)
    assert "policy 'counts' is not accepted here" in str(ends[TASK])


def test_tables_on_disk_give_the_same_values(tmp_path):
    """Parties that stream and many chunks: the values of the plain estimator."""
    terms = EXACT | {"chunk_bytes": 1 << 14}
    town = tight(Town(tmp_path, n=9000, parties=("telco",), accept=ACCEPT_EXACT, **terms)).start()
    try:
        ends = town.join()
    finally:
        town.stop()
    assert ended_well(ends), ends
    plain = value_tables(joined_tables(town), town.consortium.signed.manifest.settings)
    assert learnable(town.result()) == {party.name: party.learnable for party in plain.parties}


# Recovery: real processes, killed (SIGKILL) before or after a write to their journal.


def check_good_end(cast: Cast) -> None:
    """Everybody ends well with the values of the plain estimator, and the same command gives them again."""
    assert cast.finish() == dict.fromkeys(cast.parties, 0)
    plain = value_tables(joined_tables(cast.town), cast.town.consortium.signed.manifest.settings)
    assert learnable(cast.town.result()) == {party.name: party.learnable for party in plain.parties}
    first = (cast.town.member(TASK).folder / "result.json").read_bytes()
    cast.start(*cast.parties)
    assert cast.finish() == dict.fromkeys(cast.parties, 0)
    assert (cast.town.member(TASK).folder / "result.json").read_bytes() == first


@pytest.fixture
def cast(tmp_path):
    found = Cast(Town(tmp_path, n=120, parties=("telco",), accept=ACCEPT_EXACT, **EXACT))
    yield found
    found.stop()


@pytest.mark.parametrize(("who", "when", "k"), [("telco", "after", 9), ("assist", "after", 14)])
def test_killed_at_a_journal_write_and_started_again_a_run_ends_in_the_same_result(cast, who, when, k):
    cast.start(*(name for name in SERVERS if name != who))
    cast.start(who, crash=(when, k))
    cast.start(*(name for name in cast.parties if name not in cast.running))
    check_good_end(cast)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("who", "k"),
    [*((name, k) for name in SERVERS for k in range(2, 40, 3)), *((TASK, k) for k in range(2, 16, 2))],
)
def test_killed_at_every_third_journal_write(cast, who, k, when):
    test_killed_at_a_journal_write_and_started_again_a_run_ends_in_the_same_result(cast, who, when, k)


@pytest.mark.slow
def test_everybody_killed_at_once_and_started_again(cast):
    import time

    cast.start(*SERVERS, *cast.parties)
    for _ in range(6):
        time.sleep(1.0)  # anywhere: the end must be the same wherever it happens
        for process in cast.running.values():
            if process.code is None:
                process.kill()
        cast.start(*(name for name, process in cast.running.items() if process.code == -9))
    check_good_end(cast)


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("message", range(1, 11))
def test_a_server_killed_while_the_noise_is_agreed_on_ends_in_one_result(tmp_path, server, message):
    """Killed with a pledge, a coin, signs or a check just stored, it contributes the same when it is back."""
    cast = Cast(Town(tmp_path, n=200, parties=("telco",), protocol="gram", epsilon="1"))
    try:
        cast.start(*(name for name in SERVERS if name != server))
        cast.start(server, crash=("noise", message))
        cast.start(*cast.parties)
        assert cast.finish() == dict.fromkeys(cast.parties, 0)
        assert '"recovered"' in (cast.town.member(server).folder / "test.log").read_text()
    finally:
        cast.stop()
