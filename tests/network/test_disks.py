"""Item 27: a disk that is really full, or really read-only, under real processes.

E_STORAGE is said and logged, no part of a chunk is kept, and with room again the same run goes on
to the same values.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.databases import opened
from tests.support.disks import read_only, small_disk
from tests.support.processes import Process, files_in, log_events, until
from tests.support.programs import party_program, server_program
from tests.support.town import TASK, Town, values_of

pytestmark = pytest.mark.network

ROWS = 40_000
"""At 8 bytes per row or more a chunk has 320 kB: above the size from which messages become files."""


def start(town: Town, *names: str) -> dict[str, Process]:
    found = {}
    for name in names:
        member = town.member(name)
        server = member.role in ("compute", "validate")
        config = member.folder / ("server.toml" if server else "party.toml")
        program = server_program if server else party_program
        found[name] = Process(program, str(config), member.role, log=member.folder / "test.log")
    return found


def state_at(town: Town, name: str, folder: Path) -> None:
    """Let a participant keep its state in another folder."""
    config = next(town.member(name).folder.glob("*.toml"))
    config.write_text(config.read_text().replace('state = "state"', f'state = "{folder}"'))


@pytest.mark.parametrize("fault", ["full", pytest.param("read-only", marks=pytest.mark.slow)])
def test_a_server_whose_disk_takes_no_chunk_says_so_and_goes_on_when_it_does(tmp_path, fault):
    """The validation server's disk refuses from the first chunk on, until somebody sees to it."""
    town = Town(tmp_path, n=ROWS, parties=("telco",))
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk", 8 << 20))
        state = disk.folder / "state"
        state_at(town, "validate", state)
        running = start(town, "compute", "validate")
        stack.callback(lambda: [one.kill() for one in running.values()])
        validate = running["validate"]
        until(lambda: "listening" in validate.text(), what="the server's start")
        if fault == "full":
            disk.fill(leave=256 << 10)  # room for the journal's small entries, none for a chunk
            repair = disk.clear
        else:
            trouble = stack.enter_context(ExitStack())
            trouble.enter_context(read_only(state / "spool"))
            repair = trouble.close
        running |= start(town, TASK, "telco")
        until(
            lambda: any(one["code"] == "E_STORAGE" for one in log_events(validate.text(), "refused")),
            what="E_STORAGE",
        )
        refused = [one for one in log_events(validate.text(), "refused") if one["code"] == "E_STORAGE"]
        assert {one["method"] for one in refused} <= {"Post", "Submit"}
        # The parties try again all the time: a part may be there while it is being written.
        until(lambda: not files_in(state / "spool"), what="a disk without a part of a chunk")
        assert validate.alive
        repair()
        assert {name: running[name].wait() for name in (TASK, "telco")} == {TASK: 0, "telco": 0}
        assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
        until(lambda: not files_in(state / "spool"), what="the purge")
        with opened(state / "server.sqlite") as db:
            stored = db.execute("SELECT sender, count(*), count(DISTINCT fingerprint) FROM inbox GROUP BY 1")
            assert all(messages == different for _, messages, different in stored)


@pytest.mark.parametrize("name", ["compute", "telco"])
def test_nobody_starts_on_a_disk_that_is_read_only(tmp_path, name):
    """A message and an exit code that say so, and no harm: with the disk writable the run is as ever."""
    town = Town(tmp_path, n=100, parties=("telco",))
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        state_at(town, name, disk.folder / "state")
        with read_only(disk.folder):
            process = start(town, name)[name]
            code = process.wait()
        text = process.text()
        assert code != 0
        assert "E_STORAGE" in text
        assert list(disk.folder.iterdir()) == []


@pytest.mark.slow
def test_a_party_whose_disk_fills_up_continues_with_the_same_command(tmp_path):
    """Its journal cannot be written in the middle of the run: it ends with E_STORAGE and loses nothing."""
    town = Town(tmp_path, n=100, parties=("telco",))
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        state_at(town, "telco", disk.folder / "state")
        running = start(town, "compute", "validate", "telco")
        try:
            until(lambda: "waiting" in running["telco"].text(), what="telco's start")
            disk.fill()
            running |= start(town, TASK)
            assert running["telco"].wait() == 5
            assert "error E_STORAGE" in running["telco"].text()
            disk.clear()
            running |= start(town, "telco")
            assert {name: running[name].wait() for name in (TASK, "telco")} == {TASK: 0, "telco": 0}
            assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
        finally:
            for process in running.values():
                process.kill()
