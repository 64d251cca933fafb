"""What every benchmark shares: a row is a ratio measured within one run.

A benchmark module has `rows()`, which yields `Row`s as they are measured. `make bench` runs all
modules and prints one table; `python benchmarks/run.py engine --json FILE` runs one of them.
Ratios compare two procedures on the same machine in the same run, so they hold where seconds do
not. Nothing here is a test: a slow machine fails no build.
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
        work: What was measured.
        against: What it was compared with.
        ratio: Time of `against` / time of `work` (or as `unit` says).
        target: What the design asks for, as text ("at least 2,500x"), or "" for information only.
        met: Whether the target was met; None without a target.
        note: Seconds, sizes, extrapolations: what a reader needs to judge the ratio.
        aim: Whether the target is one to work towards, listed when it is missed, rather than a bound.
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
"""Whether rows that take minutes each are wanted (`--long`)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a measurement took.

    Args:
        wall: Seconds.
        cpu: CPU seconds of this process and of its children that have ended.
        others: Part of the machine that everybody else used meanwhile.
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
        return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used), busy


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
