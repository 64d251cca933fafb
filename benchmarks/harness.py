"""What every benchmark shares: a row is a ratio measured within one run.

A benchmark module has `rows()`, which yields `Row`s as they are measured. `make bench` runs all
modules and prints one table; `python benchmarks/run.py engine --json FILE` runs one of them.
Ratios compare two procedures on the same machine in the same run, so they hold where seconds do
not. Nothing here is a test: a slow machine fails no build.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedvalue.deployment.process import peak_memory


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the benchmark table.

    Args:
        work: What was measured.
        against: What it was compared with.
        ratio: Time of `against` / time of `work` (or as `unit` says).
        target: What the design asks for, as text ("at least 2,500x"), or "" for information only.
        met: Whether the target was met; None without a target.
        note: Seconds, sizes, extrapolations: what a reader needs to judge the ratio.
    """

    work: str
    against: str
    ratio: float
    target: str = ""
    met: bool | None = None
    note: str = ""


def at_least(work: str, against: str, ratio: float, wanted: float, note: str = "") -> Row:
    """A row that is better the larger it is."""
    return Row(work, against, ratio, f"at least {wanted:,g}x", ratio >= wanted, note)


def at_most(work: str, against: str, ratio: float, wanted: float, note: str = "") -> Row:
    """A row that is better the smaller it is."""
    return Row(work, against, ratio, f"at most {wanted:,g}x", ratio <= wanted, note)


def seconds(
    work: Callable[[], Any], *, repeat: int = 1, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest of `repeat` runs, in seconds of `clock` (wall time unless told otherwise)."""
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def peak_memory_mib() -> float:
    """Largest resident size of this process so far, in MiB."""
    return peak_memory() / 2**20
