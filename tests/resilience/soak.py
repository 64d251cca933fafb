"""Runs under fire: `python -m tests.resilience.soak --minutes 30`.

Two servers and three parties, each a real process, value 20 runs at a time. Meanwhile processes are killed
with SIGKILL and started again, commits take up to 0.2 s, disks are full, and the lines to the servers delay,
reset, fall silent, break and repeat packets. At the end of every wave of runs:

- every run has ended at every party, in a value or a typed error;
- every value is the centralised one;
- whoever starts an ended run again gets the same end;
- the servers' audit logs are unbroken, and no server met an error inside.

Exit code 1 and a list if one of these does not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.deployment.servers.server_store import read_audit
from fedvalue.errors import FedValueError
from fedvalue.identity.audit_log import read_log
from fedvalue.simulation.local_consortium import agree
from tests.resilience import soak_programs
from tests.support.disks import Disk
from tests.support.fault_proxy import FaultProxy
from tests.support.processes import Process
from tests.support.town import DATA, TASK, Town, columns, expected, write_tables

PARTIES = (TASK, *DATA)
SERVERS = ("compute", "validate")
N_ROWS = 300
DEADLINE = 240
"""Seconds of each stage."""
DISK_BYTES = 1 << 30
"""Servers keep the results of ended runs, a fifth of a megabyte each: a thousand runs fit."""
TOLERANCE = 1.01e-4
"""Values are released on a grid of 1e-4 nats."""


class Soak:
    """The consortium, its processes and what has gone wrong."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.town = Town(root / "town", n=N_ROWS)
        self.slow = root / "slow"
        self.root = root
        self.faults: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.processes: dict[str, Process] = {}
        manifest = self.town.consortium.signed.manifest
        self.endpoints = {name: manifest.participant(name).endpoint for name in SERVERS}
        self.proxies = {name: FaultProxy(endpoint, seed=seed) for name, endpoint in self.endpoints.items()}
        self.disks: dict[str, Disk] = {}
        self.wave: dict[str, Any] = {}

    # Waves of runs.

    def prepare(self, number: int, n_runs: int) -> None:
        """Agree on runs, each with data of its own."""
        self.wave = {}
        for k in range(n_runs):
            run = f"{number}-{k}"
            codes = columns(N_ROWS, seed=1000 * number + k)
            tables = self.root / "tables" / run
            write_tables(tables, codes)
            signed = agree(
                self.town.consortium.members, self.endpoints, purpose=f"run {run}", n_samples=N_ROWS,
                deadlines=_deadlines(),
            )  # fmt: skip
            self.wave[run] = (signed, expected(codes))
            for name in PARTIES:
                self._configure(name, run, tables / name / "table.csv")

    def _configure(self, name: str, run: str, table: Path) -> None:
        folder = self.town.member(name).folder
        (folder / "manifest.json").rename(folder / f"manifest-{run}.json")
        text = (folder / "party.toml").read_text()
        for old, new in (
            ('"table.csv"', f'"{table}"'), ('"manifest.json"', f'"manifest-{run}.json"'),
            ('"result.json"', f'"results/{run}.json"'), ('certificate = "certificate.json"', ""),
        ):  # fmt: skip
            text = text.replace(old, new)
        addresses = "".join(f'{server} = "{proxy.address}"\n' for server, proxy in self.proxies.items())
        text += f"\n[privacy]\nexact_runs = 1000000\n[addresses]\n{addresses}"
        (folder / f"party-{run}.toml").write_text(text)

    def start(self, name: str) -> None:
        member, log = self.town.member(name), self.root / f"{name}.log"
        slow = str(self.slow)
        if name in SERVERS:
            config = str(member.folder / "server.toml")
            self.processes[name] = Process(soak_programs.server, config, name, slow, log=log)
            return
        ends = self.root / "ends" / name
        ends.mkdir(parents=True, exist_ok=True)
        arguments = (str(member.folder), member.role, tuple(self.wave), str(ends), slow)
        self.processes[name] = Process(soak_programs.party, *arguments, log=log)

    def open_runs(self) -> int:
        return sum(
            not (self.root / "ends" / name / f"{run}.json").exists() for name in PARTIES for run in self.wave
        )

    def look_after(self) -> None:
        """Start what was killed. A process that ended by itself has gone wrong, unless a party is done."""
        for name, process in list(self.processes.items()):
            if process.code is None:
                continue
            if process.code != -9 and (name in SERVERS or process.code != 0):
                self.wrong.append(f"{name} ended by itself with {process.code}: {process.text()[-500:]}")
            if name in SERVERS or process.code != 0:
                self.start(name)

    # Faults.

    def disturb(self) -> None:
        """One fault, drawn."""
        kinds = ["kill", "kill", "slow disk", "delay", "reset", "silence", "partition", "cut"]
        kind = self.rng.choice(kinds + ["full disk"] * bool(self.disks))
        self.faults[kind] += 1
        proxy = self.proxies[self.rng.choice(SERVERS)]
        seconds = self.rng.uniform(1.0, 4.0)
        if kind == "kill":
            self.processes[self.rng.choice([*SERVERS, *PARTIES])].kill()
        elif kind == "slow disk":
            self.slow.touch()
            self._for(seconds)
            self.slow.unlink()
        elif kind == "full disk":
            disk = self.disks[self.rng.choice(sorted(self.disks))]
            disk.fill(leave=self.rng.choice((0, 1 << 14, 1 << 17)))
            self._for(seconds)
            disk.clear()
        elif kind == "cut":
            proxy.cut()
        else:
            changes: dict[str, Any] = {
                "delay": {"delay": 0.05, "jitter": 0.2}, "reset": {"reset": 0.1}, "silence": {"silent": True},
                "partition": {"partitioned": True},
            }[kind]  # fmt: skip
            for key, value in changes.items():
                setattr(proxy, key, value)
            self._for(seconds)
            for key, value in changes.items():
                setattr(proxy, key, type(value)(0))

    def _for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look_after()
            time.sleep(0.2)

    # Checks.

    def check(self) -> None:
        """The end of every run of this wave."""
        for run, (signed, truth) in self.wave.items():
            ends = {
                name: json.loads((self.root / "ends" / name / f"{run}.json").read_bytes()) for name in PARTIES
            }
            kinds = {end["end"] for end in ends.values()}
            self.ends["value" if kinds == {"value"} else " / ".join(sorted(kinds))] += 1
            for name, end in ends.items():
                if end["end"] == "UNTYPED":
                    self.wrong.append(f"run {run} at {name}: {end['reason']}")
            if ends[TASK]["end"] == "value":
                found = ends[TASK]["values"]
                if found.keys() != truth.keys() or any(abs(found[p] - truth[p]) > TOLERANCE for p in truth):
                    self.wrong.append(f"run {run}: values {found}, expected {truth}")
            self._check_again(run, ends)
            for server in SERVERS:
                self._check_log(server, signed.run_id)

    def _check_again(self, run: str, ends: dict[str, Any]) -> None:
        """Started again, a run has the same end."""
        for name in PARTIES:
            member = self.town.member(name)
            try:
                take_part(read_party_config(member.folder / f"party-{run}.toml"), member.role)
                end = "value"
            except FedValueError as error:
                end = error.code
            if end != ends[name]["end"]:
                self.wrong.append(f"run {run} at {name} ended as {ends[name]['end']}, and again as {end}")

    def _check_log(self, server: str, run_id: bytes) -> None:
        member = self.town.member(server)
        try:
            read_log(read_audit(member.folder / "state", run_id), member.identity.card.sign_key)
        except FedValueError as error:
            if error.code != "E_RUN":  # a run that this server never heard of
                self.wrong.append(f"audit log of {server}, run {run_id.hex()[:12]}: {error}")

    def check_servers(self) -> None:
        """No error inside a server."""
        for name in SERVERS:
            for line in (self.root / f"{name}.log").read_text().splitlines():
                if '"internal"' in line or line.startswith("Traceback"):
                    self.wrong.append(f"{name}: {line[:300]}")

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for proxy in self.proxies.values():
            proxy.close()


def _deadlines() -> Any:
    from fedvalue.agreement.manifest import Deadlines

    return Deadlines(keying=DEADLINE, upload=DEADLINE, compute=DEADLINE)


def _mounted(stack: ExitStack, soak: Soak, *names: str) -> None:
    """Give members disks of their own that can be filled, where mounting is allowed."""
    for name in names:
        folder = soak.town.member(name).folder / "state"
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(folder)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            print("no full disks: mounting is not allowed here", flush=True)
            return
        stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
        soak.disks[name] = Disk(folder)


def soak(minutes: float, n_runs: int, seed: int, root: Path) -> int:
    """Run waves until the time is over; the number of things that went wrong."""
    fire = Soak(root, seed)
    begin, number = time.monotonic(), 0
    with ExitStack() as stack:
        _mounted(stack, fire, "compute", "telco")
        stack.callback(fire.close)
        while number == 0 or time.monotonic() - begin < 60 * minutes:
            fire.prepare(number, n_runs)
            for name in PARTIES if number else (*SERVERS, *PARTIES):
                fire.start(name)
            while fire.open_runs():
                fire.look_after()
                if time.monotonic() - begin < 60 * minutes:
                    fire.disturb()
                time.sleep(fire.rng.uniform(0.2, 1.5))
            fire.check()
            number += 1
            print(f"{(time.monotonic() - begin) / 60:6.1f} min  wave {number}: {dict(fire.ends)}", flush=True)
        fire.check_servers()
    print(f"{number * n_runs} runs, {n_runs} at a time, in {(time.monotonic() - begin) / 60:.1f} minutes")
    print("ends:   " + ", ".join(f"{n} {end}" for end, n in fire.ends.most_common()))
    print("faults: " + ", ".join(f"{n} {kind}" for kind, n in fire.faults.most_common()))
    for line in fire.wrong:
        print(f"WRONG: {line}")
    print(f"{len(fire.wrong)} things went wrong")
    return len(fire.wrong)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description="Value runs while processes, disks and lines fail.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--runs", type=int, default=20, help="runs at a time")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and the data")
    parser.add_argument("--folder", type=Path, help="where everything is kept; a temporary one unless given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = arguments.folder or Path(folder)
        sys.exit(min(1, soak(arguments.minutes, arguments.runs, arguments.seed, root)))


if __name__ == "__main__":
    main()
