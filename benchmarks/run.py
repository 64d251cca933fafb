"""Run the benchmarks and print their ratios: `python benchmarks/run.py [NAME ...] [--long] [--json FILE]`.

Every row shows the seconds that its measurement took, the CPU seconds of this program and of the processes
that it started, and the share of the machine that other programs used: if that is large, run again. A
benchmark that raises is reported, and the others continue. Exits with 1 when a bound is missed or a benchmark
raised. Both are listed at the end, with the aims that were not reached, which do not count.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402  # found by the line above

ORDER = (
    "start",
    "invitation",
    "deployment",
    "protocol",
    "engine",
    "learnable",
    "precision",
    "rivals",
    "streaming",
    "growth",
)
"""Benchmarks whose bounds suffer most on a busy machine come first."""


def main() -> None:
    """Run the named benchmark modules, or all of them."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    known.sort(key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(known)}; default all")
    parser.add_argument("--long", action="store_true", help="also the rows that take minutes each")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    unknown = set(options.names) - set(known)
    if unknown:
        parser.error(f"unknown benchmark {sorted(unknown)}; known: {known}")
    harness.LONG = options.long
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}", flush=True)
    begin = time.perf_counter()
    compile_first()
    measured: list[dict[str, object]] = []
    broken = []
    for name in options.names or known:
        start = time.perf_counter()
        try:
            for row, cost in costed(importlib.import_module(f"bench_{name}").rows()):
                measured.append({"benchmark": name, **asdict(row), **asdict(cost)})
                show(row, cost)
        except Exception as error:  # noqa: BLE001  # one broken benchmark must not hide the others
            traceback.print_exc()
            broken.append(f"{name}: {type(error).__name__}: {error}")
        print(f"-- {name}: {time.perf_counter() - start:.0f} s", flush=True)
        if options.json:
            options.json.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    missed = [row["work"] for row in measured if row["met"] is False and not row["aim"]]
    met = sum(row["met"] is True for row in measured)
    print(f"{met} bounds met, {len(missed)} missed, {len(broken)} benchmarks broken, ", end="")
    print(f"{(time.perf_counter() - begin) / 60:.1f} minutes", flush=True)
    for row in measured:
        if row["met"] is False:
            print(f"{'NOT REACHED' if row['aim'] else 'MISSED'} {row['work']}: {row['target']}", flush=True)
    for failure in broken:
        print(f"BROKEN {failure}", flush=True)
    sys.exit(1 if missed or broken else 0)


def compile_first() -> None:
    """Compile all kernels, as `fedvalue warm-up` does: servers would do so while we measure."""
    from fedvalue.federated.warm_up import compile_everything, is_compiled

    if not is_compiled():
        start = time.perf_counter()
        compile_everything(lambda done, total, note="": None)
        print(f"-- compiled all kernels: {time.perf_counter() - start:.0f} s", flush=True)


def costed(rows: Iterator[harness.Row]) -> Iterator[tuple[harness.Row, harness.Cost]]:
    """Rows with the cost of measuring each."""
    meter = harness.Meter()
    for row in rows:
        yield row, meter.lap()


def show(row: harness.Row, cost: harness.Cost) -> None:
    """Print a row."""
    mark = {True: "met   ", False: "aim   " if row.aim else "MISSED", None: "      "}[row.met]
    print(f"{mark} {row.ratio:12,.2f}x  {row.work}", flush=True)
    print(f"                       against {row.against}  {row.target}", flush=True)
    if row.note:
        print(f"                       {row.note}", flush=True)
    print(f"                       ({cost})", flush=True)


if __name__ == "__main__":
    main()
