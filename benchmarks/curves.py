"""Growth of exact values over codes and workers, both ways, as JSON: `python benchmarks/curves.py`.

Growth over parties and rows: `python benchmarks/bench_engine.py exact credit 15`, `… exact credit 0 6000`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import bench_engine
from bench_engine import by_cubes, by_walk

from fedvalue.engines import Execution, thread_engine
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table


def main() -> None:
    """Credit, one feature per party."""
    measured(credit(10), 1)  # compiles
    counts = credit(17)
    for workers in (1, 2):
        print(json.dumps({"threads": workers, **measured(counts, workers)}), flush=True)
    for bins in (2, 3, 5, 8, 12):
        bench_engine.BINS = bins
        counts = credit(13)
        print(json.dumps({"bins": bins, "distinct": counts.n_items, **measured(counts, 2)}), flush=True)


def credit(n_parties: int) -> JointCounts:
    """The first parties of Credit."""
    counts = bench_engine.load("credit", n_parties)
    assert counts is not None, "the data set is missing; set FEDVALUE_DATA"
    return counts


def measured(counts: JointCounts, workers: int) -> dict[str, float]:
    """Seconds and CPU seconds of both ways on `workers` threads, and the walk's visits."""
    clocks: tuple[Callable[[], float], ...] = (time.perf_counter, time.process_time)
    found: dict[str, float] = {}
    with thread_engine(workers) as executor:
        for name, compute in (("cubes", by_cubes), ("walk", by_walk)):
            before = [clock() for clock in clocks]
            values = compute(item_table(counts), Execution(executor))
            wall, cpu = (clock() - start for clock, start in zip(clocks, before, strict=True))
            found |= {f"{name}_seconds": round(wall, 3), f"{name}_cpu": round(cpu, 3)}
        return found | {"visits": values.n_blocks}


if __name__ == "__main__":
    main()
