"""A small experiment whose pieces leave traces, for tests of the runner."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedvalue.errors import InputError
from fedvalue.paper.experiments.base import Experiment, Numbers, Table, Unit, Verdict
from fedvalue.paper.experiments.drawing import panels


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


def experiment(
    trace: Path, calls: Mapping[int, Any] | None = None, n: int = 4, **settings: Any
) -> Experiment:
    def units(profile: str, seed: int) -> list[Unit]:
        return [
            Unit(f"square/{x}", (calls or {}).get(x, square), {"x": x, "trace": str(trace), **settings})
            for x in range(n)
        ]

    def summarise(results: Mapping[str, Numbers]) -> Numbers:
        return {"total": sum(result["square"] for result in results.values())}

    def judge(numbers: Numbers) -> Verdict:
        good = numbers["total"] == sum(x * x for x in range(n))
        return Verdict("reproduced" if good else "not reproduced", f"the total is {numbers['total']}")

    return Experiment(
        name="table1",  # a name that the page knows
        title="A toy",
        claim="<b>squares</b> add up",
        units=units,
        summarise=summarise,
        judge=judge,
        tables=lambda numbers: [Table(("total",), ((str(numbers["total"]),),))],
        draw=lambda numbers: panels(1, 1, width=2, height=2)[0],
    )


def calls(trace: Path) -> list[int]:
    """What was computed, in order."""
    return [int(line) for line in trace.read_text().split()] if trace.exists() else []
