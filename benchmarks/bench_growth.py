"""Growth of the public call `fedvalue.value(...)` with every size of a table, and with workers.

One size at a time differs from `BASE`. Times are CPU seconds with all defaults and learnable values, the
best of two; over workers they are seconds. The numbers are also written to `out/growth.json`, for `drawings`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from harness import Row, at_most

import fedvalue
from fedvalue.engines import thread_engine

OUTPUT = Path(__file__).resolve().parents[1] / "out" / "growth.json"


@dataclass(frozen=True, slots=True)
class Table:
    """Sizes of a table of categories; one label depends on the first column of every second party."""

    rows: int = 5000
    parties: int = 5
    features: int = 2
    codes: int = 4
    labels: int = 2

    def columns(self) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
        """The label and the columns of each party."""
        rng = np.random.default_rng(3)
        codes = rng.integers(0, self.codes, (self.parties, self.features, self.rows))
        score = codes[::2, 0].sum(axis=0) / self.codes + rng.normal(0, 0.7, self.rows)
        label = np.searchsorted(np.quantile(score, np.arange(1, self.labels) / self.labels), score)
        names = np.array([f"c{k}" for k in range(self.codes)])
        return label, {
            f"party-{d}": {f"x{k}": names[column] for k, column in enumerate(party)}
            for d, party in enumerate(codes)
        }


BASE = Table()
AXES: dict[str, tuple[int, ...]] = {
    "rows": (1000, 5000, 25_000, 125_000),
    "parties": (2, 3, 5, 8, 10),
    "features": (1, 2, 4, 8, 16),
    "codes": (2, 4, 8, 16),
    "labels": (2, 3, 5, 8),
}
WORKERS = (1, 2)
LARGE = Table(rows=20_000, parties=8)
"""The table whose valuation several workers share."""


def rows() -> Iterator[Row]:
    """One row per size: CPU time per unit at the largest value over that at the base."""
    curves: dict[str, dict[int, float]] = {}
    call(BASE)  # loads and compiles
    for axis, sizes in AXES.items():
        curve = curves[axis] = {size: call(replace(BASE, **{axis: size}))[1] for size in sizes}
        base, most = getattr(BASE, axis), sizes[-1]
        times = ", ".join(f"{size:,}: {took:.2f} s" for size, took in curve.items())
        ratio = curve[most] / curve[base] / (most / base)
        work, against = f"fedvalue.value, {axis} {base:,} to {most:,}", "linear growth"
        if axis == "rows":
            yield at_most(work, against, ratio, 1.2, f"CPU by {axis}: {times}")
        else:
            yield Row(work, against, ratio, note=f"CPU by {axis}: {times}")
    curve = curves["workers"] = {n: call(LARGE, workers=n)[0] for n in WORKERS}
    times = ", ".join(f"{n}: {took:.2f} s" for n, took in curve.items())
    yield Row("fedvalue.value, 1 to 2 workers", "one worker", curve[1] / curve[2], note=f"seconds: {times}")
    OUTPUT.parent.mkdir(exist_ok=True)
    sizes_used = {"base": asdict(BASE), "shared": asdict(LARGE)}
    document = {"date": time.strftime("%Y-%m-%d"), **sizes_used, "curves": curves}
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n")


def call(table: Table, workers: int | None = None) -> tuple[float, float]:
    """Seconds and CPU seconds of one call, each the best of two."""
    label, parties = table.columns()
    wall = cpu = float("inf")
    with thread_engine(workers) if workers else thread_engine() as executor:
        for _ in range(2):
            start, used = time.perf_counter(), time.process_time()
            fedvalue.value(label=label, parties=parties, executor=executor)
            wall, cpu = min(wall, time.perf_counter() - start), min(cpu, time.process_time() - used)
    return wall, cpu
