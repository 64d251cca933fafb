"""Shared by all benchmarks: a row is a ratio measured within one run.

A benchmark module has `rows()`, which yields `Row`s as they are measured. `make bench` runs all
modules and prints one table; `python benchmarks/run.py engine --json FILE` runs one of them.
Ratios compare two procedures on the same machine in the same run, so they carry over to other machines,
unlike seconds. Nothing here is a test: a slow machine fails no build.
"""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedvalue.deployment.process import peak_memory


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the benchmark table.

    Args:
        work: The procedure measured.
        against: The procedure it is compared with.
        ratio: Time of `against` / time of `work`, or the inverse where smaller is better.
        target: The design's requirement as text ("at least 2,500x"), or "" for information only.
        met: The target was met; None without a target.
        note: Seconds, sizes and extrapolations behind the ratio.
        aim: The target is a goal, listed when it is missed, rather than a bound.
    """

    work: str
    against: str
    ratio: float
    target: str = ""
    met: bool | None = None
    note: str = ""
    aim: bool = False


def at_least(work: str, against: str, ratio: float, wanted: float, note: str = "") -> Row:
    """A row that is better the larger it is."""
    return Row(work, against, ratio, f"at least {wanted:,g}x", ratio >= wanted, note)


def at_most(work: str, against: str, ratio: float, wanted: float, note: str = "") -> Row:
    """A row that is better the smaller it is."""
    return Row(work, against, ratio, f"at most {wanted:,g}x", ratio <= wanted, note)


LONG = False
"""Also measure rows that take minutes each (`--long`)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a measurement.

    Args:
        wall: Seconds.
        cpu: CPU seconds of this process and of its children that have ended.
        others: Share of the machine that other programs used meanwhile.
    """

    wall: float
    cpu: float
    others: float

    def __str__(self) -> str:
        busy = "" if self.others < 0.1 else f"; OTHER PROGRAMS USED {self.others:.0%} OF THE MACHINE"
        return f"measured in {self.wall:.1f} s, {self.cpu:.1f} s of CPU{busy}"


class Meter:
    """Reads the clocks of this program and of the machine."""

    def __init__(self) -> None:
        self._last = self._read()

    def lap(self) -> Cost:
        """The cost since the last call."""
        before, self._last = self._last, self._read()
        wall, cpu, busy = (now - then for now, then in zip(self._last, before, strict=True))
        others = max(0.0, busy - cpu) / max(1e-9, wall * (os.cpu_count() or 1))
        return Cost(wall, cpu, min(1.0, others))

    @staticmethod
    def _read() -> tuple[float, float, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        with open("/proc/stat") as file:
            user, nice, system, _idle, _wait, *rest = map(int, file.readline().split()[1:])
        busy = (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), sum(usage.ru_utime + usage.ru_stime for usage in used), busy


def seconds(
    work: Callable[[], Any], *, repeat: int = 1, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest of `repeat` runs, in seconds of `clock` (wall time by default)."""
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
