"""Tables larger than memory, in the plain engine and at a party of `mirror`: time per row, peak memory.

Beside them, DuckDB on the same files, and the party's work in memory.

`python benchmarks/bench_streaming.py 100` streams 100 million rows through the plain engine alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness

N_FILES = 10  # for both sizes, so that the same number of workers holds a piece in memory
CHILD = """
import json, sys, time
sys.path[:0] = [sys.argv[3], sys.argv[3] + "/.."]
from harness import peak_memory_mib
from tests.support.streamed_counts import count_files
parties = {f"p{d}": [f"x{d}"] for d in range(5)} | {"shop": ["city"]}
count_files(sys.argv[1], label="y", task=["t"], parties=parties)  # compiled code is loaded here
start = time.perf_counter()
counts = count_files(sys.argv[2], label="y", task=["t"], parties=parties)
seconds = time.perf_counter() - start
sizes = {"rows": counts.n_samples, "cells": counts.n_items}
print(json.dumps({"seconds": seconds, "peak": peak_memory_mib(), **sizes}))
"""


PARTY_MIB = 64  # memory for the party's rows


def rows() -> Iterator[harness.Row]:
    """The plain engine, then a party."""
    yield from _plain()
    yield from _party()


def _plain() -> Iterator[harness.Row]:
    """10^6 and 10^7 rows of 8 columns, each in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        tiny, small, large = (Path(folder) / name for name in ("tiny", "small", "large"))
        _write(tiny, 1, 10_000)
        _write(small, N_FILES, 100_000)
        _write(large, N_FILES, 1_000_000)
        at_small, at_large = _measure(tiny, small), _measure(tiny, large)
        note = (
            f"{at_large['rows']:,} rows in {at_large['seconds']:.1f} s, {at_large['cells']:,} distinct; "
            f"peak {at_large['peak']:.0f} MiB, at {at_small['rows']:,} rows {at_small['peak']:.0f} MiB"
        )
        per_row = at_large["seconds"] / at_large["rows"] / (at_small["seconds"] / at_small["rows"])
        yield harness.at_most("stream 10^7 rows: time per row", "10^6 rows", per_row, 1.2, note)
        yield harness.at_most(
            "stream 10^7 rows: peak memory", "10^6 rows", at_large["peak"] / at_small["peak"], 1.2, note
        )
        duck = harness.seconds(lambda: _duckdb(large))
        yield harness.Row(
            "stream and count 10^7 rows",
            "DuckDB: ranges, bins and GROUP BY of the same files",
            duck / at_large["seconds"],
            note=f"DuckDB {duck:.1f} s on all cores",
        )


def _party() -> Iterator[harness.Row]:
    """One party alone with 10^5, 10^6 and 10^7 rows, on disk and, for the second size, in memory."""
    with tempfile.TemporaryDirectory() as folder:
        tables = {n: Path(folder) / f"{n}.parquet" for n in (10_000, 100_000, 1_000_000, 10_000_000)}
        for n, path in tables.items():
            _write_party(path, n)
        warm, *sizes = tables
        measured = {n: _one_party(tables[warm], tables[n], n, PARTY_MIB) for n in sizes}
        inside = _one_party(tables[warm], tables[1_000_000], 1_000_000, 100_000)
        note = f"memory_mib = {PARTY_MIB}; " + "; ".join(
            f"{n:,} rows {sum(run[k] for k in ('read', 'prepared', 'encoded')):.1f} s, "
            f"{run['cpu']:.1f} CPU s, peak {run['peak']:.0f} MiB"
            for n, run in measured.items()
        )
        small, large = measured[1_000_000], measured[10_000_000]
        per_row = large["cpu"] / small["cpu"] / 10
        yield harness.at_most("mirror party, 10^7 rows on disk: CPU per row", "10^6 rows", per_row, 1.2, note)
        yield harness.at_most(
            "mirror party, 10^7 rows on disk: peak memory",
            "10^6 rows",
            large["peak"] / small["peak"],
            1.2,
            note,
        )
        yield harness.Row(
            "mirror party, 10^6 rows on disk",
            "the same in memory",
            inside["cpu"] / small["cpu"],
            note=f"in memory {inside['cpu']:.1f} CPU s, peak {inside['peak']:.0f} MiB",
        )


def _write_party(path: Path, n_rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    cities = np.array(["Bonn", "Ulm", "Mainz"])
    schema = pa.schema({"id": pa.string(), "x": pa.float64(), "z": pa.float64(), "city": pa.string()})
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, n_rows, 500_000):
            n = min(500_000, n_rows - start)
            ids = np.char.add("person-", np.arange(start, start + n).astype(str))
            columns = [ids, rng.normal(size=n), rng.normal(size=n), cities[rng.integers(0, 3, n)]]
            file.write_table(pa.table(columns, schema=schema), row_group_size=100_000)


def _one_party(warm: Path, table: Path, n: int, memory_mib: int) -> dict[str, float]:
    script = Path(__file__).with_name("one_party.py")
    return _json_of(str(script), str(warm), str(table), str(n), str(memory_mib))


def _json_of(*arguments: str) -> dict[str, float]:
    """The output of another Python process."""
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    output: dict[str, float] = json.loads(done.stdout)
    return output


def _write(folder: Path, n_files: int, n_rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng = np.random.default_rng(0)
    cities = np.array(["Bonn", "Ulm", "Mainz", None], dtype=object)
    for k in range(n_files):
        y = rng.integers(0, 2, n_rows)
        columns = {f"x{d}": rng.normal(y * d / 4, 1.0) for d in range(5)}
        city = pa.array(cities[rng.integers(0, 4, n_rows)])
        table = pa.table({"y": y, "t": rng.normal(y, 1.0), **columns, "city": city})
        pq.write_table(table, folder / f"{k:03}.parquet", row_group_size=100_000)


def _measure(warm: Path, folder: Path) -> dict[str, float]:
    return _json_of("-c", CHILD, str(warm), str(folder), str(Path(__file__).parent))


def _duckdb(folder: Path) -> int:
    import duckdb

    files = f"read_parquet('{folder}/*.parquet')"
    names = ["t", *(f"x{d}" for d in range(5))]
    ranges = ", ".join(f"min({name}) AS lo_{name}, max({name}) AS hi_{name}" for name in names)
    bins = ", ".join(
        f"least(4, floor(5 * ({name} - lo_{name}) / (hi_{name} - lo_{name})))::INT AS {name}"
        for name in names
    )
    query = f"""SELECT count(*) FROM (SELECT y, city, {", ".join(names)}, count(*) FROM (
        SELECT y, city, {bins} FROM {files}, (SELECT {ranges} FROM {files})) GROUP BY ALL)"""
    ((cells,),) = duckdb.sql(query).fetchall()
    return int(cells)


def main(millions: int) -> None:
    """Print rows, seconds and peak memory of a folder of `millions` million rows as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        tiny, large = (Path(folder) / name for name in ("tiny", "large"))
        _write(tiny, 1, 10_000)
        _write(large, millions, 1_000_000)
        print(json.dumps(_measure(tiny, large)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
