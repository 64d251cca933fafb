"""Growth of an exact walk over codes and over workers, as JSON lines: `python benchmarks/curves.py`.

Growth over parties and rows: `python benchmarks/bench_engine.py exact credit 15`, `… exact credit 0 6000`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import bench_engine

from fedvalue.engines import Execution, thread_engine
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table
from fedvalue.valuation.walk.exact import ExactWalk


def main() -> None:
    """Credit, one feature per party."""
    ExactWalk(item_table(credit(5))).run()  # compiles
    counts = credit(17)
    for workers in (1, 2):
        print(json.dumps({"threads": workers, **walked(counts, workers)}), flush=True)
    for bins in (2, 3, 5, 8, 12):
        bench_engine.BINS = bins
        counts = credit(13)
        print(json.dumps({"bins": bins, "distinct": counts.n_items, **walked(counts, 2)}), flush=True)


def credit(n_parties: int) -> JointCounts:
    """The first parties of Credit."""
    counts = bench_engine.load("credit", n_parties)
    assert counts is not None, "the data set is missing; set FEDVALUE_DATA"
    return counts


def walked(counts: JointCounts, workers: int) -> dict[str, float]:
    """Visits and seconds of one walk on `workers` threads."""
    clocks: tuple[Callable[[], float], ...] = (time.perf_counter, time.process_time)
    with thread_engine(workers) as executor:
        before = [clock() for clock in clocks]
        walk = ExactWalk(item_table(counts)).run(Execution(executor))
        assert walk is not None
        wall, cpu = (clock() - start for clock, start in zip(clocks, before, strict=True))
    return {"visits": walk.n_blocks, "seconds": round(wall, 2), "cpu": round(cpu, 2)}


if __name__ == "__main__":
    main()
