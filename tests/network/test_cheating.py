"""Cheating servers and lying ids over real sockets: items 3 to 13, 15, 16, 34 in the deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedvalue.errors import FedValueError
from fedvalue.identity.audit_log import read_log
from tests.support.evil_server import BEHAVIOURS, PAPER_BEHAVIOURS
from tests.support.processes import Process
from tests.support.programs import cheat_program, evil_program, party_program, server_program
from tests.support.town import TASK, Town, values_of

pytestmark = pytest.mark.network


def no_result(town: Town) -> bool:
    return not any((town.member(name).folder / "result.json").exists() for name in (TASK, *town.parties))


# The computation server in every run of the tests; the other one in two behaviours, the rest when asked.
CASES = [("compute", behaviour) for behaviour in sorted(BEHAVIOURS)] + [
    pytest.param(
        "validate", behaviour, marks=() if behaviour in ("move one", "two faced") else pytest.mark.slow
    )
    for behaviour in sorted(BEHAVIOURS)
]


@pytest.mark.parametrize(("server", "behaviour"), CASES)
def test_a_server_that_cheats_is_detected_and_nothing_is_released(tmp_path, server, behaviour):
    """Items 10, 11, 13: every party ends with the code, no value is written, the logs record it."""
    make_role, codes = BEHAVIOURS[behaviour]
    honest = "validate" if server == "compute" else "compute"
    town = Town(tmp_path, n=100).start(honest).start(server, make_role=make_role)
    try:
        ends = town.join()
        assert all(isinstance(end, FedValueError) for end in ends.values()), ends
        assert {end.code for end in ends.values()} <= codes
        assert no_result(town)
        for name, end in ends.items():
            log = town.member(name).folder / "state" / f"audit-{town.run_id.hex()[:12]}.jsonl"
            entries = read_log(log.read_text().splitlines(), town.member(name).identity.card.sign_key)
            assert entries[-1].event == f"failed {end.code}"
    finally:
        town.stop()


def as_processes(
    town: Town, cheat: Process, honest: str = "validate"
) -> tuple[dict[str, int], list[Process]]:
    """Exit codes of all parties beside a server that cheats, every role a process."""
    folder = town.member(honest).folder
    servers = [
        cheat,
        Process(server_program, str(folder / "server.toml"), honest, log=folder / "test.log"),
    ]
    parties = [
        Process(party_program, str(town.member(name).folder / "party.toml"), town.member(name).role,
                log=town.member(name).folder / "test.log")
        for name in (TASK, *town.parties)
    ]  # fmt: skip
    try:
        return {one.log.parent.name: one.wait() for one in parties}, parties
    finally:
        for process in (*servers, *parties):
            process.kill()


def test_a_cheating_server_as_a_process_of_its_own(tmp_path):
    """Item 11 with real processes: exit code 7 everywhere, no result."""
    town = Town(tmp_path, n=100)
    config = str(town.member("compute").folder / "server.toml")
    ends, parties = as_processes(town, Process(cheat_program, config, log=tmp_path / "c.log"))
    assert ends == dict.fromkeys((TASK, *town.parties), 7)
    assert all("error E_MIRROR" in process.text() for process in parties)
    assert no_result(town)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", sorted(BEHAVIOURS))
def test_every_cheat_as_a_process_of_its_own(tmp_path, behaviour):
    """Items 10, 11, 13: the same attacks with every role a process; non-zero exit, no value printed."""
    town = Town(tmp_path, n=100, parties=("telco",))
    config = str(town.member("compute").folder / "server.toml")
    cheat = Process(evil_program, config, "compute", behaviour, log=tmp_path / "c.log")
    ends, parties = as_processes(town, cheat)
    assert set(ends.values()) <= {7, 8}
    codes = {process.text().rpartition("error ")[2].split()[0] for process in parties}
    assert codes <= BEHAVIOURS[behaviour][1]
    assert no_result(town)


PAPER = 'protocols = ["paper"]\npolicies = ["counts"]\nresearch = true\nharden = false'


def paper_town(root: Path, behaviour: str, *, harden: bool) -> Town:
    """Where each attack of the drill finds its cell: no adversarial samples where one sample is dropped."""
    n_r = 0 if behaviour == "drop the only one" else 1
    terms = {"protocol": "paper", "policy": "counts", "q": 2, "n_r": n_r, "harden": harden, "research": True}
    return Town(root, n=100, parties=("telco",), accept=PAPER, **terms)


QUICK = ("ignore a party", "validation server lies")


@pytest.mark.parametrize(
    "behaviour",
    [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in sorted(PAPER_BEHAVIOURS)],
)
def test_every_cheat_against_paper_as_a_process_of_its_own(tmp_path, behaviour):
    """Items 3 to 9 and 12, every role a process: the hardened protocol ends the run, nothing is released."""
    town = paper_town(tmp_path, behaviour, harden=True)
    server, honest = "compute", "validate"
    if behaviour == "validation server lies":
        server, honest = honest, server
    config = str(town.member(server).folder / "server.toml")
    cheat = Process(evil_program, config, server, behaviour, log=tmp_path / "c.log")
    ends, parties = as_processes(town, cheat, honest)
    assert set(ends.values()) <= {7, 8}
    codes = {process.text().rpartition("error ")[2].split()[0] for process in parties}
    assert codes <= PAPER_BEHAVIOURS[behaviour][1]
    assert no_result(town)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["drop the only one", "return one party's upload", "ignore a party"])
def test_what_the_published_check_misses_as_processes(tmp_path, behaviour):
    """Items 3 and 4: as published, the same attacks end well, with values that are not the table's."""
    town = paper_town(tmp_path, behaviour, harden=False)
    config = str(town.member("compute").folder / "server.toml")
    ends, _ = as_processes(town, Process(evil_program, config, "compute", behaviour, log=tmp_path / "c.log"))
    assert set(ends.values()) == {0}
    assert values_of(town.result()) != pytest.approx(town.values, abs=1e-9)


def _edit(town: Town, party: str, change) -> None:
    path = town.member(party).folder / "table.csv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *change(rows)]) + "\n")


def _other_id(rows):
    name, _, value = rows[0].partition(",")
    return [f"Q{name[1:]},{value}", *rows[1:]]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_other_id, "E_POPULATION"),
        (lambda rows: rows[1:], "E_POPULATION"),
        (lambda rows: [*rows, "X99999,v1"], "E_POPULATION"),
        (lambda rows: [rows[1], *rows[1:]], "E_INPUT"),
    ],
    ids=["different", "missing", "extra", "duplicate"],
)
def test_ids_that_differ_end_the_run_before_any_upload(tmp_path, change, code):
    """Item 15: one different, missing, extra or duplicate id."""
    town = Town(tmp_path, n=100)
    _edit(town, "telco", change)
    if (
        code != "E_POPULATION"
        or len((town.member("telco").folder / "table.csv").read_text().splitlines()) != 101
    ):
        # Found by the party itself: nobody needs to be there.
        assert town.join("telco")["telco"].code == code
        return
    town.start()
    try:
        ends = town.join()
        assert {end.code for end in ends.values()} == {code}
        assert no_result(town)
        audit = town.servers["validate"][0].audit(town.run_id)
        received = [line for line in audit if "received" in line and "received compute" not in line]
        assert len(received) <= 2 * len(ends)  # Readies, and notices of the end; no upload
    finally:
        town.stop()


@pytest.mark.parametrize(
    ("party", "change", "words"),
    [
        (TASK, lambda rows: [rows[0].rpartition(",")[0] + ",", *rows[1:]], "have no label"),
        ("telco", lambda rows: ["," + rows[0].partition(",")[2], *rows[1:]], "id"),
        ("telco", lambda rows: [rows[0] + ",more", *rows[1:]], "table.csv"),
        ("telco", lambda rows: [], "table.csv"),
    ],
    ids=["label missing", "id missing", "ragged row", "no rows"],
)
def test_a_table_that_cannot_be_used_is_refused_before_any_byte_is_sent(tmp_path, party, change, words):
    """Item 16 in the deployment: no server is running, and none is asked."""
    town = Town(tmp_path, n=100)
    _edit(town, party, change)
    end = town.join(party)[party]
    assert end.code == "E_INPUT"
    assert words in str(end)


def test_reordered_rows_change_nothing(tmp_path):
    """Item 15: input merely reordered."""
    values = []
    for k in range(2):
        town = Town(tmp_path / str(k), n=100)
        if k:
            _edit(town, "telco", lambda rows: rows[::-1])
        town.start()
        try:
            town.join()
            values.append(values_of(town.result()))
        finally:
            town.stop()
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_a_row_unique_feature_is_refused_by_the_gate(tmp_path):
    """Item 34: cardinality inflation is refused locally, naming the gate.

    Text that is unique to a row is merged into one code before it gets there, so the column has numbers.
    """
    town = Town(tmp_path, n=100, bins=50)
    _edit(town, "telco", lambda rows: [f"{row.partition(',')[0]},{k}" for k, row in enumerate(rows)])
    end = town.join("telco")["telco"]
    assert end.code == "E_GATE"
    assert "50 distinct codes" in str(end)


def test_a_lying_party_cannot_pass_the_gate_by_its_own_program(tmp_path, monkeypatch):
    """Item 34: whatever a party's program says, all others check the gate too."""
    from fedvalue.deployment.parties import party_process
    from fedvalue.protocol import party_roles

    monkeypatch.setattr(party_process, "check_own_table", lambda *_: None)
    monkeypatch.setattr(party_roles, "check_own_gates", lambda *_: None)
    town = Town(tmp_path, n=100, bins=50)
    _edit(town, "telco", lambda rows: [f"{row.partition(',')[0]},{k}" for k, row in enumerate(rows)])
    town.start()
    try:
        ends = town.join()
        assert {end.code for end in ends.values()} == {"E_GATE"}
        assert any("party 'telco' has 50 distinct codes" in str(end) for end in ends.values())
    finally:
        town.stop()
