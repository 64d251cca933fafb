"""Learnable values: the public call at the sizes of a bank, and against the models one would train instead.

Every row times `fedvalue.value(...)` as a user calls it, warm, in a process of its own so that peak memory
is its own: `python benchmarks/bench_learnable.py N_PARTIES N_FEATURES N_ROWS` prints one such call as JSON.
The tables are drawn from a logistic model over normal columns, every third of which is noise.

With `--long`, ten million rows as a folder of Parquet files: in memory (`bench_learnable.py FOLDER RESULT`)
and streamed (`fedvalue value FOLDER`), and in memory with few distinct rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Row, at_least, at_most, peak_memory_mib, seconds

import fedvalue


@dataclass(frozen=True, slots=True)
class Size:
    """A table, and the bounds of its valuation.

    Args:
        n_parties: Data parties.
        n_features: Columns of each.
        n_rows: Rows.
        limit: Seconds allowed.
        most_mib: Memory allowed.
        precision: Largest sampling error allowed, as a part of the total.
    """

    n_parties: int
    n_features: int
    n_rows: int
    limit: float
    most_mib: float | None = None
    precision: float = 0.01


SIZES = (
    Size(6, 3, 10_000, limit=5),
    Size(20, 1, 30_000, limit=120),
    Size(3, 100, 10_000, limit=60),
    Size(6, 3, 1_000_000, limit=60, most_mib=2048),
)

N_FILES, FILE_ROWS = 10, 1_000_000
"""The largest table, 6 parties x 3 columns."""

OWNERS = {f"p{party}": [f"p{party}x{feature}" for feature in range(3)] for party in range(6)}
MOST_CPU, MOST_MIB = 300.0, 8192.0
"""CPU seconds and memory allowed for it."""


def table(n_parties: int, n_features: int, n_rows: int) -> dict[str, Any]:
    """Arguments of `fedvalue.value`: a label and the columns of each party."""
    rng = np.random.default_rng(17)
    score = np.zeros(n_rows)
    parties: dict[str, dict[str, np.ndarray]] = {}
    for party in range(n_parties):
        columns = {}
        for feature in range(n_features):
            column = rng.standard_normal(n_rows)
            if (party * n_features + feature) % 3 < 2:
                score += column / np.sqrt(n_parties * n_features)
            columns[f"x{feature}"] = column
        parties[f"party-{party}"] = columns
    label = (score + rng.logistic(scale=0.5, size=n_rows) > 0).astype(np.int64)
    return {"label": label, "parties": parties}


def rows() -> Iterator[Row]:
    for size in SIZES:
        yield sized(size)
    yield from against_models()
    if harness.LONG:
        yield from files()


def sized(size: Size) -> Row:
    """One public call."""
    command = [sys.executable, __file__, *(str(n) for n in (size.n_parties, size.n_features, size.n_rows))]
    call = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    met = call["seconds"] <= size.limit and call["error"] <= size.precision
    target = f"at most {size.limit:g} s, sampling error at most {size.precision:.0%} of the total"
    if size.most_mib:
        met = met and call["peak_mib"] <= size.most_mib
        target += f", {size.most_mib:g} MiB"
    return Row(
        f"fedvalue.value: {size.n_parties} parties × {size.n_features} features, {size.n_rows:,} rows",
        "the limit in seconds",
        size.limit / call["seconds"],
        target,
        met,
        f"{call['seconds']:.1f} s, {call['cpu']:.1f} s of CPU, peak memory {call['peak_mib']:,.0f} MiB, "
        f"sampling error {call['error']:.2%} of the total",
    )


def against_models() -> Iterator[Row]:
    """The same table valued by us and by SHAP on five trained models, which the paper compares with."""
    from fedvalue.benchmark.benchmark_problems import problem, settings
    from fedvalue.benchmark.methods.information_methods import Learnable
    from fedvalue.benchmark.methods.model_methods import ShapEnsemble
    from fedvalue.datasets import locate
    from fedvalue.datasets.catalogue import CATALOGUE

    name = "credit" if locate.find(CATALOGUE["credit"]) is not None else "breast"
    one = problem(settings([name], (3,), (1,))[0]).table
    Learnable().value(one)  # compiles
    mine = seconds(lambda: Learnable().value(one), repeat=3, clock=time.process_time)
    models = seconds(lambda: ShapEnsemble().value(one), clock=time.process_time)
    yield at_least(
        f"learnable: {name}, {one.n_parties} parties × 3 features, {len(one.label):,} rows",
        "SHAP-ensemble: five trained models and their SHAP values",
        models / mine,
        20,
        f"{mine:.2f} s against {models:.1f} s of CPU",
    )


def files() -> Iterator[Row]:
    """Ten million rows in memory and streamed, nearly all distinct, and in memory with few distinct rows."""
    with tempfile.TemporaryDirectory() as folder:
        many, few = Path(folder) / "many", Path(folder) / "few"
        write(many, codes=None)
        write(few, codes=3)
        plain = measured([sys.executable, __file__, str(many), f"{folder}/plain.json"])
        parties = [
            word for name, columns in OWNERS.items() for word in ("--party", f"{name}={','.join(columns)}")
        ]
        command = [sys.executable, "-m", "fedvalue", "value", str(many), "--label", "y", *parties]
        streamed = measured([*command, "--json", f"{folder}/streamed.json"])
        compressed = measured([sys.executable, __file__, str(few), f"{folder}/few.json"])
        one, other = (learnable(Path(folder) / f"{name}.json") for name in ("plain", "streamed"))
    size = f"6 parties × 3 features, {N_FILES * FILE_ROWS:,} rows"
    for name, call in (
        ("in memory", plain),
        ("streamed", streamed),
        ("in memory, 1,458 distinct", compressed),
    ):
        note = f"{call.wall:.0f} s, {call.cpu:.0f} s of CPU, peak memory {call.mib:,.0f} MiB"
        yield at_most(f"learnable, {size}, {name}: CPU", f"{MOST_CPU:g} s", call.cpu / MOST_CPU, 1, note)
        yield at_most(f"learnable, {size}, {name}: memory", f"{MOST_MIB:g} MiB", call.mib / MOST_MIB, 1)
    apart = max(abs(a - b) for a, b in zip(one, other, strict=True)) / sum(one)
    yield at_most("learnable, streamed less in memory", "1e-9 of the total", apart / 1e-9, 1)


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds, CPU seconds and peak memory in MiB of a process."""

    wall: float
    cpu: float
    mib: float


def measured(command: Sequence[str]) -> Usage:
    """Run a command."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command[:4]} failed")
    return Usage(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def learnable(result: Path) -> list[float]:
    """The learnable values in a result."""
    return [party["learnable"] for party in json.loads(result.read_text())["parties"]]


def write(folder: Path, codes: int | None) -> None:
    """A folder of Parquet files; with few distinct rows, columns of some codes and constants."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng = np.random.default_rng(17)
    for file in range(N_FILES):
        score, columns = np.zeros(FILE_ROWS), {}
        for k, name in enumerate(name for names in OWNERS.values() for name in names):
            column = rng.standard_normal(FILE_ROWS)
            if codes is not None:
                column = np.floor(np.clip(column + codes / 2, 0, codes - 0.1)) if k % 3 == 0 else 0.0 * column
            if k % 3 < 2:
                score += column / np.sqrt(18)
            columns[name] = column
        label = (score - score.mean() + rng.logistic(scale=0.5, size=FILE_ROWS) > 0).astype(np.int64)
        pq.write_table(
            pa.table({"y": label, **columns}), folder / f"{file:03}.parquet", row_group_size=100_000
        )


def in_memory(folder: str, result: str) -> None:
    """Value a folder of Parquet files that is read into memory first."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder)
    parties = {name: rows.select(columns) for name, columns in OWNERS.items()}
    Path(result).write_text(fedvalue.value(label=rows.column("y"), parties=parties).to_json())


def main(n_parties: int, n_features: int, n_rows: int) -> None:
    """Time one public call, after a small one of the same shape that compiles and loads."""
    fedvalue.value(**table(n_parties, n_features, 600))
    arguments = table(n_parties, n_features, n_rows)
    start, cpu = time.perf_counter(), time.process_time()
    valuation = fedvalue.value(**arguments)
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    total = valuation.learnable_total or 0.0
    errors = [party.se_learnable or 0.0 for party in valuation.parties]
    result = {"seconds": wall, "cpu": used, "peak_mib": peak_memory_mib(), "error": max(errors) / total}
    print(json.dumps(result))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        in_memory(*sys.argv[1:])
    else:
        main(*(int(number) for number in sys.argv[1:4]))
