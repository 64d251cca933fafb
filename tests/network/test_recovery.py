"""Kill -9 at every state boundary, deadlines, disks: items 26 to 28 of the test list, real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedvalue.deployment.servers.upload_files import FILE_FROM
from fedvalue.identity.tls_certificates import SERVER_ROLES
from tests.cli.here import fedvalue_here
from tests.support.databases import opened
from tests.support.processes import Process, log_events, until
from tests.support.programs import party_program, server_program
from tests.support.town import TASK, Town, values_of

pytestmark = pytest.mark.network


class Cast:
    """The processes of one run, by participant."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.running: dict[str, Process] = {}

    def start(self, *names: str, crash: tuple[str, int] | None = None, leap: Path | None = None) -> None:
        """Start processes; servers leap in time once the file `leap` exists."""
        for name in names:
            member = self.town.member(name)
            log = member.folder / "test.log"
            if member.role in SERVER_ROLES:
                mark = None if leap is None else str(leap)
                arguments = (server_program, str(member.folder / "server.toml"), member.role, crash, mark)
            else:
                arguments = (party_program, str(member.folder / "party.toml"), member.role, crash)
            self.running[name] = Process(*arguments, log=log)

    @property
    def parties(self) -> tuple[str, ...]:
        return (TASK, *self.town.parties)

    def finish(self) -> dict[str, int]:
        """Restart whatever kills itself, until every party has ended."""
        for name in self.parties:
            try:
                until(lambda name=name: self.settled(name), what=f"the end of {name}")
            except AssertionError as error:
                raise AssertionError(
                    {who: one.text()[-1500:] for who, one in self.running.items()}
                ) from error
        return {name: self.running[name].wait() for name in self.parties}

    def settled(self, name: str) -> bool:
        self.revive()
        return self.running[name].code not in (None, -9)

    def revive(self) -> None:
        for name, process in list(self.running.items()):
            if process.code == -9:
                self.start(name)

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()


@pytest.fixture
def cast(tmp_path):
    found = Cast(Town(tmp_path, n=100, parties=("telco",)))
    yield found
    found.stop()


def results(town: Town) -> dict[str, bytes]:
    return {name: (town.member(name).folder / "result.json").read_bytes() for name in (TASK, *town.parties)}


def check_good_end(cast: Cast, codes: dict[str, int], *, exact: bool = True) -> None:
    """Everybody ended well, with the centralised values if they are `exact`, and once only."""
    logs = {name: process.text()[-1500:] for name, process in cast.running.items()}
    assert set(codes.values()) == {0}, logs
    if exact:
        assert values_of(cast.town.result()) == pytest.approx(cast.town.values, abs=1e-9)
    first = results(cast.town)
    cast.start(*cast.parties)
    assert set(cast.finish().values()) == {0}
    assert results(cast.town) == first
    for server in cast.town.server_names:
        with opened(cast.town.member(server).folder / "state" / "server.sqlite") as db:
            rows = db.execute("SELECT recipient, body FROM outbox").fetchall()
        assert len(rows) == len(set(rows)), "an answer was given twice"


# The slow test below takes every write.
@pytest.mark.parametrize(
    ("who", "when", "k"),
    [
        (TASK, "after", 5), ("telco", "before", 7), ("compute", "after", 9), ("validate", "after", 4),
    ],
)  # fmt: skip
def test_killed_at_a_journal_write_and_started_again_a_run_ends_in_the_same_result(cast, who, when, k):
    """Items 26 and 27: kill -9 right before or right after the k-th commit, of each role."""
    others = [name for name in ("compute", "validate", *cast.parties) if name != who]
    cast.start(*others)
    cast.start(who, crash=(when, k))
    codes = cast.finish()
    killed = cast.town.member(who).folder / "test.log"
    assert killed.exists()
    check_good_end(cast, codes)


def test_a_server_killed_between_chunks_goes_on_at_the_missing_one(tmp_path):
    """Issue: uploads resume at the missing chunk. Six chunks per party; each is stored exactly once."""
    cast = Cast(Town(tmp_path, n=24_000, parties=("telco",), chunk_bytes=4096))
    try:
        cast.start("validate", *cast.parties)
        cast.start("compute", crash=("after", 19))
        check_good_end(cast, cast.finish())
        assert "recovered" in cast.running["compute"].text()
        with opened(cast.town.member("compute").folder / "state" / "server.sqlite") as db:
            rows = db.execute(
                "SELECT sender, count(*), count(DISTINCT fingerprint) FROM inbox GROUP BY sender"
            ).fetchall()
        assert {sender for sender, _, _ in rows} >= set(cast.parties)
        for sender, messages, different in rows:
            assert messages == different
            assert different >= 8 or sender not in cast.parties
    finally:
        cast.stop()


def test_killed_between_the_rename_of_a_chunk_and_its_commit(tmp_path):
    """Item 27: the file is there, the journal does not know it; the chunk is sent again and counted once."""
    cast = Cast(Town(tmp_path, n=FILE_FROM, parties=("telco",)))  # at least a byte per row
    try:
        cast.start("compute", *cast.parties)
        cast.start("validate", crash=("spooled", 1))
        check_good_end(cast, cast.finish())
        assert "recovered" in cast.running["validate"].text()
    finally:
        cast.stop()


@pytest.mark.parametrize(("who", "k"), [("compute", 14), ("validate", 8)])
def test_the_paper_protocol_recovers_too(tmp_path, who, k):
    """Item 26 for `paper`, where the computation server is a client of the validation server."""
    accept = 'protocols = ["paper"]\npolicies = ["counts"]'
    cast = Cast(Town(tmp_path, n=100, parties=("telco",), protocol="paper", policy="counts", accept=accept))
    try:
        cast.start(*(name for name in ("compute", "validate", *cast.parties) if name != who))
        cast.start(who, crash=("after", k))
        check_good_end(cast, cast.finish())
        assert "recovered" in cast.running[who].text()
    finally:
        cast.stop()


WRITES = {TASK: 11, "telco": 11, "compute": 34, "validate": 26}
"""At least as many as a role commits in such a run: 10, 10, 32 and 24 if no two messages arrive together."""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("who", "k"), [(who, k + 1) for who, n in WRITES.items() for k in range(n)])
def test_killed_at_every_journal_write(cast, who, k, when):
    """Item 26, every boundary: where a process has fewer writes it is simply not killed."""
    others = [name for name in ("compute", "validate", *cast.parties) if name != who]
    cast.start(*others)
    cast.start(who, crash=(when, k))
    check_good_end(cast, cast.finish())


OTHERS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "paper": (
        {"protocol": "paper", "policy": "counts", "accept": 'protocols = ["paper"]\npolicies = ["counts"]'},
        {TASK: 11, "telco": 11, "compute": 34, "validate": 33},
    ),
    "gram": (
        {"protocol": "gram", "policy": "counts", "exact_tables": True, "accept": 'policies = ["counts"]'},
        {TASK: 12, "telco": 12, "compute": 38, "validate": 27, "assist": 27},
    ),
    "noise": ({"epsilon": "1"}, {TASK: 11, "telco": 11, "compute": 34, "validate": 25}),
    "intersect": ({"align": "intersect"}, {TASK: 12, "telco": 12, "compute": 35, "validate": 24}),
}
"""Terms of other runs than plain `mirror`, and at least as many writes as each role makes in them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "who", "k"),
    [(run, who, k + 1) for run, (_, writes) in OTHERS.items() for who, n in writes.items() for k in range(n)],
)
def test_killed_at_every_journal_write_of_other_runs(tmp_path, run, who, k):
    """Item 26 for other protocols, in turn right before and right after the k-th commit."""
    cast = Cast(Town(tmp_path, n=100, parties=("telco",), **OTHERS[run][0]))
    try:
        cast.start(*(name for name in (*cast.town.server_names, *cast.parties) if name != who))
        cast.start(who, crash=(("before", "after")[k % 2], k))
        check_good_end(cast, cast.finish(), exact=run in ("paper", "intersect"))
    finally:
        cast.stop()


def test_everybody_killed_at_once_and_started_again(cast):
    """A power cut of the whole building, in the middle of a run."""
    everybody = ("compute", "validate", *cast.parties)
    cast.start("compute", "validate", "telco")
    until(lambda: "waiting" in cast.running["telco"].text(), what="telco's start")
    cast.start(TASK)
    until(lambda: "stage readying" in cast.running[TASK].text(), what="the key agreement")
    for process in cast.running.values():
        process.kill()
    cast.start(*everybody)
    check_good_end(cast, cast.finish())


def test_a_party_with_changed_data_does_not_continue(cast):
    """Two-time pad: the same run never continues with another table."""
    cast.start("compute", "validate", "telco")
    until(lambda: "waiting" in cast.running["telco"].text(), what="telco's start")
    cast.running["telco"].kill()
    table = cast.town.member("telco").folder / "table.csv"
    lines = table.read_text().splitlines()
    swapped = {"v0": "v1", "v1": "v2", "v2": "v0"}
    name, _, value = lines[1].partition(",")
    lines[1] = f"{name},{swapped.get(value, 'v0')}"
    table.write_text("\n".join(lines) + "\n")
    cast.start("telco")
    assert cast.running["telco"].wait() == 4
    assert "error E_CONFLICT" in cast.running["telco"].text()


def test_sigterm_lets_a_server_finish_and_a_restart_continues(cast):
    """Item 38: drain. The server ends with 0, and the run goes on after a restart."""
    cast.start("compute", "validate", "telco")
    until(lambda: '"accepted"' in cast.running["compute"].text(), what="telco's arrival")
    cast.running["compute"].terminate()
    assert cast.running["compute"].wait() == 0
    assert '"stopped"' in cast.running["compute"].text()
    cast.start("compute", TASK)
    check_good_end(cast, cast.finish())


def test_a_party_that_never_comes_is_named_and_the_run_without_it_works(tmp_path):
    """Item 28: E_DEADLINE naming it; the rest starts again with one command and one new signature each."""
    town, leap = Town(tmp_path, n=100), tmp_path / "leap"
    cast = Cast(town)
    try:
        cast.start("compute", "validate", leap=leap)
        cast.start(TASK, "telco")
        until(lambda: town.awaited() == ("shop",), what="two parties")
        leap.touch()
        for name in (TASK, "telco"):
            assert cast.running[name].wait() == 6
            assert "error E_DEADLINE" in cast.running[name].text()
            assert "missing: shop" in cast.running[name].text()
        # Whoever notices first names it; the other one may hear of the end from the parties.
        until(lambda: bool(log_events(cast.running["compute"].text(), "failed")), what="its word of the end")
        ends = [
            event
            for server in ("compute", "validate")
            for event in log_events(cast.running[server].text(), "failed")
        ]
        assert {event["code"] for event in ends} == {"E_DEADLINE"}
        assert "shop" in {event["missing"] for event in ends} <= {"shop", ""}
        leap.unlink()
        rest = tmp_path / "rest.json"
        assert (
            fedvalue_here(
                "manifest", "without", town.member(TASK).folder / "manifest.json", "shop", "-o", rest
            ).code
            == 0
        )
        for name in (TASK, "telco", "compute", "validate"):
            assert (
                fedvalue_here(
                    "manifest", "sign", rest, "--identity", town.member(name).folder / "identity"
                ).code
                == 0
            )
        for name in (TASK, "telco"):
            (town.member(name).folder / "manifest.json").write_bytes(rest.read_bytes())
        cast.start(TASK, "telco")
        assert {name: cast.running[name].wait() for name in (TASK, "telco")} == {TASK: 0, "telco": 0}
    finally:
        cast.stop()
    from tests.support.town import expected

    assert values_of(town.result()) == pytest.approx(
        town.released(expected(town.codes, ("telco",))), abs=1e-9
    )


def test_a_party_that_dies_during_the_upload_is_named(tmp_path):
    """Item 28: killed for good after it had said that it is ready."""
    town, leap = Town(tmp_path, n=100), tmp_path / "leap"
    cast = Cast(town)
    try:
        cast.start("compute", "validate", leap=leap)
        cast.start("telco", "shop")
        until(lambda: town.awaited() == (TASK,), what="two parties")
        cast.running["shop"].kill()
        cast.start(TASK)
        # Both living parties have said that they are ready: only the dead one is missing.
        until(lambda: town.awaited() == ("shop",), what="the message of everybody else")
        leap.touch()
        for name in (TASK, "telco"):
            assert cast.running[name].wait() == 6
            assert "error E_DEADLINE" in cast.running[name].text()
            assert "missing: shop" in cast.running[name].text()
    finally:
        cast.stop()
