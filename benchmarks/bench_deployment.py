"""The deployment over mutual TLS on loopback: real servers, real parties, each its own process.

What is timed comes from the computation server's own log, up to the end of the run, when every party
has the values and all have agreed: from the first declaration of an upload, and from the moment all
parties are ready (key agreement, hashing of ids, sorting and masking for two servers come on top).
Starting Python and reading files is not in it, as it is not in the database's time. CPU seconds are those of
all participants between the same two moments (`CpuLog`), and of the database.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Row, at_most

from fedvalue.simulation.children import Child, Children, wait_until
from fedvalue.simulation.local_consortium import LocalConsortium, Source, agree, build, reserve_port

TASK = "bank"
DATA = ("telco", "shop", "insurer", "utility", "press")
REPEATS = 3
"""Of every measurement against another program, ours and theirs; the best one counts."""

LARGE_SECONDS = 12.0
"""That 10^7 rows may take."""


def rows() -> Iterator[Row]:
    """One row per claim of the design."""
    for text in (True, False):
        with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
            yield from _against_duckdb(Path(folder) / "duck", text)
    with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
        yield from _growth(Path(folder))
    with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
        yield _wide(Path(folder))
    with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
        yield _many_at_once(Path(folder))


def _against_duckdb(root: Path, text: bool, n: int = 1_000_000) -> Iterator[Row]:
    tables = make_tables(root, n, text=text)
    duck = f"DuckDB join and group by, {'text' if text else 'integer'} ids"
    database, database_cpu = duckdb_seconds(tables)
    runs = federated(root / "run", n, repeats=REPEATS)
    for words, moment, limit in (
        ("upload to values", "upload", 3.0),
        ("all parties ready to values", "ready", 4.5),
    ):
        wall = min(getattr(run, moment) for run in runs)
        cpu = min(getattr(run, f"{moment}_cpu") for run in runs)
        note = (
            f"6 parties x {n:,} rows, best of {REPEATS}: {wall:.2f} s against {database:.2f} s; "
            f"{cpu:.2f} against {database_cpu:.2f} s of CPU ({cpu / database_cpu:.1f}x)"
        )
        yield at_most(f"mirror over mTLS, {words}", duck, wall / database, limit, note)


def _wide(root: Path, n: int = 1_000_000, n_features: int = 50) -> Row:
    """One party of six with many features behind as many joint codes, against one with a single feature."""
    runs = {}
    for features in (1, n_features):
        folder = root / str(features)
        make_tables(folder, n, wide=features)
        runs[features] = min(federated(folder / "run", n, repeats=2), key=lambda run: run.ready)
    wide, narrow = runs[n_features], runs[1]
    note = (
        f"{n:,} rows, all parties ready to values: {wide.ready:.2f} s against {narrow.ready:.2f} s; "
        f"{wide.ready_cpu:.2f} against {narrow.ready_cpu:.2f} s of CPU"
    )
    return at_most(
        f"mirror over mTLS, a party with {n_features} features",
        "one feature",
        wide.ready / narrow.ready,
        2,
        note,
    )


def _growth(root: Path) -> Iterator[Row]:
    sizes = (100_000, 1_000_000, 10_000_000)
    runs = {}
    for n in sizes:
        make_tables(root / str(n), n)
        (runs[n],) = federated(root / str(n) / "run", n)
        for path in (root / str(n)).rglob("*.parquet"):
            path.unlink()
    small, large = sizes[0], sizes[-1]
    note = "; ".join(
        f"{n:,} rows {run.ready:.2f} s, {run.ready_cpu:.2f} s of CPU, server {run.resident / 2**20:.0f} MiB"
        for n, run in runs.items()
    )
    ratio = (runs[large].ready / runs[small].ready) / (large / small)
    memory = runs[large].resident / runs[small].resident
    yield at_most("mirror over mTLS, 10^5 to 10^7 rows", "linear growth", ratio, 1.2, note)
    yield at_most("server memory, 10^5 to 10^7 rows", "the smaller run", memory, 1.2, note)
    yield Row(
        "mirror over mTLS, 10^7 rows, all parties ready to values", "the limit in seconds",
        LARGE_SECONDS / runs[large].ready, f"at most {LARGE_SECONDS:g} s", runs[large].ready <= LARGE_SECONDS,
        f"{runs[large].ready:.1f} s, {runs[large].ready_cpu:.1f} s of CPU",
    )  # fmt: skip


def _many_at_once(root: Path, runs: int = 20, n: int = 2_000) -> Row:
    make_tables(root, n)
    consortium = _consortium(root / "run", n)
    others = [consortium.signed]
    endpoints = _endpoints(consortium)
    with Children() as children:
        _servers(children, consortium)
        started = time.monotonic()
        for number in range(1, runs):
            others.append(agree(consortium.members, endpoints, purpose=f"run {number}", n_samples=n))
        parties = []
        for number, signed in enumerate(others):
            for name in (TASK, *DATA):
                folder = consortium.members[name].folder
                (folder / f"manifest-{number}.json").write_text(signed.to_json())
                text = (folder / "party.toml").read_text()
                for word in ("manifest", "result", "certificate"):
                    text = text.replace(f'"{word}.json"', f'"{word}-{number}.json"')
                text = text.replace('report = "report.html"', "").replace('"state"', f'"state-{number}"')
                (folder / f"party-{number}.toml").write_text(text)
        script = Path(__file__).with_name("many_parties.py")
        for name in (TASK, *DATA):
            folder = consortium.members[name].folder
            child = Child(name, [f"benchmarks.{script.stem}", str(folder), str(runs)], folder)
            child.start(cwd=Path(__file__).parents[1])
            parties.append(children.add(child))
        wait_until(lambda: all(child.code is not None for child in parties), 900, "the end of all runs")
        took = time.monotonic() - started
    bad = [child.name for child in parties if child.code != 0]
    results = [
        json.loads((consortium.members[TASK].folder / f"result-{number}.json").read_bytes())
        for number in range(runs)
    ]
    same = {tuple(round(one["value"], 9) for one in result["parties"]) for result in results}
    ids = {result["run_id"] for result in results}
    right = not bad and len(same) == 1 and len(ids) == runs
    return Row(
        f"{runs} runs at once on one pair of servers", "correct values, no cross-talk", float(len(ids)),
        f"{runs} correct", right, f"{took:.1f} s in all",
    )  # fmt: skip


class Measured:
    """What one federated run took, by the computation server's log."""

    def __init__(self, events: list[dict[str, str]], resident: float, written: float, used: CpuLog) -> None:
        at = {event["stage"]: _moment(event["time"]) for event in events if event["event"] == "stage"}
        first = min(_moment(event["time"]) for event in events if event["event"] == "declared")
        self.ready, self.ready_cpu = at["done"] - at["keying"], used.between(at["keying"], at["done"])
        self.upload, self.upload_cpu = at["done"] - first, used.between(first, at["done"])
        # Under `gram` parties compute the values, after the servers are done.
        self.values = written - first
        self.resident = resident


def _moment(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


class CpuLog:
    """CPU seconds of some processes over time, read ten times a second."""

    def __init__(self, children: list[Child]) -> None:
        self._children = children
        self._readings: list[tuple[float, float]] = []
        self._used: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._stop.wait(0.1):
            for child in self._children:
                if child.process is not None:
                    self._used[child.process.pid] = max(
                        _cpu_seconds(child.process.pid), self._used.get(child.process.pid, 0.0)
                    )
            self._readings.append((time.time(), sum(self._used.values())))

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()

    def between(self, start: float, end: float) -> float:
        """CPU seconds between two moments, in seconds since 1970."""
        times, used = zip(*self._readings, strict=True)
        return float(np.interp(end, times, used) - np.interp(start, times, used))


def _cpu_seconds(pid: int) -> float:
    """Of a process, all its threads; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def federated(root: Path, n: int, repeats: int = 1, **terms: Any) -> list[Measured]:
    """Runs one after the other on the same servers, every participant as its own process."""
    consortium = _consortium(root, n, **terms)
    found = []
    with Children() as children:
        servers = _servers(children, consortium)
        compute = servers["compute"]
        for number in range(repeats):
            if number:
                again = {"purpose": f"run {number}", "n_samples": n, **terms}
                agree(consortium.members, _endpoints(consortium), **again)
            n_before = len(compute.errors().splitlines())
            parties = []
            for name in (TASK, *DATA):
                member = consortium.members[name]
                child = Child(f"{name}-{number}", ["fedvalue", *member.command], member.folder)
                child.start()
                parties.append(children.add(child))
            used = CpuLog([*servers.values(), *parties])
            wait_until(
                lambda: all(child.code is not None for child in parties),  # noqa: B023
                max(900, n / 20_000),
                "the end of the run",
            )
            used.stop()
            for child in parties:
                assert child.code == 0, child.errors()[-1000:]
            events = [json.loads(line) for line in compute.errors().splitlines()[n_before:]]
            written = (consortium.members[TASK].folder / "result.json").stat().st_mtime
            found.append(Measured(events, _resident(consortium), written, used))
    return found


def _endpoints(consortium: LocalConsortium) -> dict[str, str]:
    return {server.role: server.endpoint for server in consortium.signed.manifest.servers}


def make_tables(
    root: Path, n: int, *, text: bool = False, features: int = 1, wide: int = 1
) -> dict[str, pa.Table]:
    """Six tables with the same ids, each in its own order, one column (or more) of few codes each.

    Text ids have 16 characters, as in `bench_protocol`; a database joins them more slowly than numbers. The
    first data party has `wide` columns, all functions of one code: the joint table stays the same.
    """
    rng = np.random.default_rng(7)
    ids = rng.permutation(n).astype(np.int64) + 10**9
    label = rng.integers(0, 2, n)
    tables = {}
    for k, name in enumerate((TASK, *DATA)):
        noise = rng.integers(0, 2 + k % 3, n)
        code = np.where(rng.random(n) < 0.5, label, noise)
        order = rng.permutation(n)
        own = pa.array(np.char.mod("person-%09d", ids[order] - 10**9) if text else ids[order])
        columns = {"id": own, "x": code[order].astype(np.int32)}
        for more in range(1, features):
            code = np.where(rng.random(n) < 0.2, label, rng.integers(0, 5, n))
            columns[f"x{more}"] = code[order].astype(np.int32)
        if name == DATA[0]:
            ways = rng.integers(0, 5, (wide, int(code.max()) + 1)).astype(np.int32)
            columns |= {f"wide{j}": ways[j][code[order]] for j in range(1, wide)}
        if name == TASK:
            columns["y"] = label[order].astype(np.int32)
        tables[name] = pa.table(columns)
        root.mkdir(parents=True, exist_ok=True)
        pq.write_table(tables[name], root / f"{name}.parquet")
    return tables


def duckdb_seconds(tables: dict[str, pa.Table]) -> tuple[float, float]:
    """Seconds and CPU seconds of joining and grouping the same tables, already in DuckDB's memory."""
    import duckdb

    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(f"{name}_arrow", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_arrow")
    joins = " ".join(f"JOIN {name} ON {name}.id = {TASK}.id" for name in DATA)
    keys = ", ".join([f"{TASK}.x", f"{TASK}.y", *(f"{name}.x" for name in DATA)])
    statement = f"SELECT {keys}, count(*) FROM {TASK} {joins} GROUP BY ALL"
    connection.execute(statement).fetchall()
    best = best_cpu = float("inf")
    for _ in range(REPEATS):
        start, cpu = time.perf_counter(), time.process_time()
        connection.execute(statement).fetchall()
        best, best_cpu = min(best, time.perf_counter() - start), min(best_cpu, time.process_time() - cpu)
    return best, best_cpu


def _consortium(root: Path, n: int, **terms: Any) -> LocalConsortium:
    folder = root.parent
    sources = {
        name: Source(str(folder / f"{name}.parquet"), "id", "y" if name == TASK else None)
        for name in (TASK, *DATA)
    }
    consortium = build(root, TASK, sources, **{"purpose": "a benchmark", "n_samples": n, **terms})
    for name in (TASK, *DATA):
        path = consortium.members[name].folder / "party.toml"
        path.write_text(path.read_text().replace('report = "report.html"\n', ""))
    config = consortium.members["compute"].folder / "server.toml"
    port, reservation = reserve_port()
    weakref.finalize(consortium, reservation.close)
    config.write_text(config.read_text() + f'\n[metrics]\nlisten = "127.0.0.1:{port}"\n')
    return consortium


def _servers(children: Children, consortium: LocalConsortium) -> dict[str, Child]:
    found = {}
    for name in (server.name for server in consortium.signed.manifest.servers):
        member = consortium.members[name]
        child = children.add(Child(name, ["fedvalue", *member.command], member.folder))
        child.start()
        found[name] = child
    for child in found.values():
        wait_until(lambda child=child: '"listening"' in child.errors(), 120, f"the start of {child.name}")
    return found


def _resident(consortium: LocalConsortium) -> float:
    text = (consortium.members["compute"].folder / "server.toml").read_text()
    address = text.rpartition('listen = "')[2].partition('"')[0]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith("fedvalue_resident_bytes "):
                return float(line.split()[1])
    raise AssertionError("no memory in the metrics")


def one_size(n: int) -> None:
    """Print what one run of n rows took: `python benchmarks/bench_deployment.py 100000000`."""
    with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
        make_tables(Path(folder), n)
        (run,) = federated(Path(folder) / "run", n)
    print(
        f"{n:,} rows: upload to values {run.upload:.1f} s, all parties ready to values {run.ready:.1f} s, "
        f"{run.ready_cpu:.1f} s of CPU, server {run.resident / 2**20:.0f} MiB"
    )


if __name__ == "__main__":
    one_size(int(sys.argv[1]))
