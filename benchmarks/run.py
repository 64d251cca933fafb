"""Run the benchmarks and print their ratios: `python benchmarks/run.py [NAME ...] [--json FILE]`.

Exits with 1 when a bound is missed, and names the rows that missed theirs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def main() -> None:
    """Run the named benchmark modules, or all of them."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(known)}; default all")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    unknown = set(options.names) - set(known)
    if unknown:
        parser.error(f"unknown benchmark {sorted(unknown)}; known: {known}")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}", flush=True)
    measured = []
    for name in options.names or known:
        start = time.perf_counter()
        for row in importlib.import_module(f"bench_{name}").rows():
            measured.append({"benchmark": name, **asdict(row)})
            mark = {True: "met   ", False: "MISSED", None: "      "}[row.met]
            print(f"{mark} {row.ratio:12,.2f}x  {row.work}", flush=True)
            print(f"                       against {row.against}  {row.target}", flush=True)
            if row.note:
                print(f"                       {row.note}", flush=True)
        print(f"-- {name}: {time.perf_counter() - start:.0f} s", flush=True)
    missed = [row["work"] for row in measured if row["met"] is False]
    print(f"{sum(row['met'] is True for row in measured)} bounds met, {len(missed)} missed", flush=True)
    for work in missed:
        print(f"MISSED {work}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
