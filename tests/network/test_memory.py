"""Item 40: what a server holds while rows pass through it. The full size is a row of `make bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import Process, until
from tests.support.programs import party_program, server_program
from tests.support.town import TASK, Town, values_of

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory of another process"),
]

CHUNK = 1 << 20


def peak(process: Process) -> int:
    """The largest resident memory of a process so far, in bytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def server_peaks(root: Path, n: int) -> dict[str, int]:
    """The two servers' peaks over a whole run with right values, every role a process."""
    town = Town(root, n=n, chunk_bytes=CHUNK)
    running = {}
    for name in ("compute", "validate"):
        config = str(town.member(name).folder / "server.toml")
        running[name] = Process(server_program, config, name, log=root / f"{name}.log")
    for process in running.values():
        until(lambda process=process: '"listening"' in process.text(), what="the start")
    for name in (TASK, *town.parties):
        config = str(town.member(name).folder / "party.toml")
        running[name] = Process(party_program, config, town.member(name).role, log=root / f"{name}.log")
    try:
        assert {running[name].wait(600) for name in (TASK, *town.parties)} == {0}
        assert sum(values_of(town.result()).values()) == pytest.approx(town.result()["total"], abs=3e-4)
        return {name: peak(running[name]) for name in ("compute", "validate")}
    finally:
        for process in running.values():
            process.kill()


def test_a_server_holds_chunks_and_cells_not_rows(tmp_path):
    """Forty times the rows, and no more memory than 24 chunks.

    Uploads have 8 bytes per row and party at least: 45 MiB more in the larger run, which a server that
    held them would grow by.
    """
    small = server_peaks(tmp_path / "small", 50_000)
    large = server_peaks(tmp_path / "large", 2_000_000)
    for name, before in small.items():
        assert large[name] - before < 24 * CHUNK, (before >> 20, large[name] >> 20)
