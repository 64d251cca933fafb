"""A small experiment whose pieces leave traces, for tests of the runner."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedvalue.errors import InputError
from fedvalue.paper.experiments.drawing import panels
from fedvalue.paper.experiments.experiment import Experiment, Numbers, Table, Unit, Verdict


def square(x: int, trace: str, seconds: float = 0.0, name: str = "") -> Numbers:
    """x², with one line in the trace per call; the line is there before the wait.

    In a process with STOP_AT the call of that number does not end.
    """
    with Path(trace).open("a", encoding="utf-8") as file:
        file.write(f"{x}\n")
    time.sleep(3600 if len(calls(Path(trace))) == int(os.environ.get("STOP_AT", "-1")) else seconds)
    return {"square": x * x, "pid": os.getpid()}


def fail(x: int, trace: str) -> Numbers:
    raise InputError(f"{x} cannot be squared")


def die(x: int, trace: str) -> Numbers:
    os._exit(1)


class Toy(Experiment):
    """Squares of 0 to n - 1; `calls` replaces some of the calls, `settings` go to every one."""

    name = "table1"  # a name that the page knows
    title = "A toy"
    claim = "<b>squares</b> add up"

    def __init__(
        self, trace: Path, calls: Mapping[int, Any] | None = None, n: int = 4, **settings: Any
    ) -> None:
        self.trace, self.calls, self.n, self.settings = trace, calls or {}, n, settings

    def units(self, profile: str, seed: int) -> list[Unit]:
        return [
            Unit(
                f"square/{x}", self.calls.get(x, square), {"x": x, "trace": str(self.trace), **self.settings}
            )
            for x in range(self.n)
        ]

    def summarise(self, results: Mapping[str, Numbers]) -> Numbers:
        return {"total": sum(result["square"] for result in results.values())}

    def judge(self, numbers: Numbers) -> Verdict:
        good = numbers["total"] == sum(x * x for x in range(self.n))
        return Verdict.of([good], f"the total is {numbers['total']}")

    def tables(self, numbers: Numbers) -> list[Table]:
        return [Table(("total",), ((str(numbers["total"]),),))]

    def draw(self, numbers: Numbers) -> Any:
        return panels(1, 1, width=2, height=2)[0]


class NeedyToy(Toy):
    """Its pieces read wine, music, wine, music, and it takes any total for the right one."""

    data = ("wine", "music")

    def units(self, profile: str, seed: int) -> list[Unit]:
        return [
            replace(unit, settings={**unit.settings, "name": self.data[k % 2]})
            for k, unit in enumerate(super().units(profile, seed))
        ]

    def judge(self, numbers: Numbers) -> Verdict:
        return Verdict("reproduced", "0 + 4.")


def calls(trace: Path) -> list[int]:
    """What was computed, in order."""
    return [int(line) for line in trace.read_text().split()] if trace.exists() else []
