"""From an invitation to values: six participants and twelve commands, each in a separate process."""

from __future__ import annotations

import csv
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import Row

PARTIES = ("telco", "shop", "insurer")
SERVERS = ("compute", "validate")
N_ROWS = 300
SECONDS = 30.0
"""Limit from the first command to the values."""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _write_tables(root)
        before, start = _cpu(), time.perf_counter()
        n_commands = _take_part(root)
        took, cpu = time.perf_counter() - start, _cpu() - before
    yield Row(
        work="invite to values over mTLS: task party, three data parties, two operators",
        against=f"{SECONDS:g} s",
        ratio=took / SECONDS,
        target=f"at most {SECONDS:g} s and 12 commands",
        met=took <= SECONDS and n_commands <= 12,
        note=f"{n_commands} commands in {took:.1f} s, {cpu:.1f} s of CPU in all processes",
    )


def _take_part(root: Path) -> int:
    """Run every command as its participant would, and return the number of commands."""
    addresses = {server: f"127.0.0.1:{_free_port()}" for server in SERVERS}
    mail = root / "invitation.txt"
    started: list[subprocess.Popen[bytes]] = []

    def command(who: str, *arguments: str) -> subprocess.Popen[bytes]:
        folder = root / who
        folder.mkdir(exist_ok=True)
        with (folder / "output.txt").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "fedvalue", *arguments],
                cwd=folder, stdout=output, stderr=output, env={**os.environ, "FEDVALUE_HOME": "fedvalue"},
            )  # fmt: skip
        started.append(process)
        return process

    def finish(*processes: subprocess.Popen[bytes]) -> None:
        for process in processes:
            if process.wait():
                last_lines = [path.read_text().splitlines()[-1] for path in root.glob("*/output.txt")]
                raise RuntimeError(f"a command failed: {last_lines}")

    invited = [option for party in PARTIES for option in ("--party", party)]
    try:
        finish(command("bank", "invite", "--as", "bank", *invited, "--samples", str(N_ROWS),
                       "--purpose", "a benchmark", "--compute", addresses["compute"],
                       "--validate", addresses["validate"], "-o", str(mail)))  # fmt: skip
        accept = ("accept", str(mail), "--yes", "--as")
        finish(*[command(server, *accept, server) for server in SERVERS])
        servers = [command(server, "serve", server) for server in SERVERS]
        finish(*[command(party, *accept, party) for party in PARTIES])
        table = ("--table", "table.csv", "--id", "id", "--skip-words")
        joining = [command(party, "join", *table) for party in PARTIES]
        finish(command("bank", "run", *table, "--label", "y"), *joining)
        for server in servers:
            server.terminate()
            server.wait()
    finally:
        for process in started:
            process.kill()
            process.wait()
    return len(started)


def _write_tables(root: Path) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, N_ROWS)
    for party in ("bank", *PARTIES):
        (root / party).mkdir()
        feature = np.where(rng.random(N_ROWS) < 0.7, label, rng.integers(0, 3, N_ROWS))
        with (root / party / "table.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "x", *(["y"] if party == "bank" else [])])
            for k in rng.permutation(N_ROWS):
                classes = [f"class {label[k]}"] if party == "bank" else []
                writer.writerow([f"P{k:04d}", f"v{feature[k]}", *classes])


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _cpu() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime
