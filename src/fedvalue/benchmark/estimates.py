"""Methods run on problems: estimates with their CPU time, failures with their reason."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.benchmark_problems import known_problem
from fedvalue.benchmark.methods.method import Estimate, Method
from fedvalue.benchmark.scores import Scores, score
from fedvalue.datasets import small_worlds
from fedvalue.errors import InputError
from fedvalue.storage.durable_files import PUBLIC, write_durably

if TYPE_CHECKING:
    from fedvalue.benchmark.problem import Problem
    from fedvalue.benchmark.truth import Truth
    from fedvalue.typing import Progress


@dataclass(frozen=True, slots=True)
class Timed:
    """An estimate and its CPU seconds, or the reason for its absence."""

    estimate: Estimate | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EstimateCache:
    """Estimates of slow methods on disk, under the method's version and the problem's content."""

    folder: Path

    def read(self, method: Method, problem: Problem) -> Timed | None:
        """The stored estimate, or None if it is missing or unreadable."""
        if method.version is None:
            return None
        try:
            stored = json.loads(self._path(method, problem).read_text(encoding="utf-8"))
            game = None if stored["game"] is None else np.array(stored["game"])
            return Timed(Estimate(stored["values"], game), stored["seconds"])
        except (OSError, ValueError, KeyError):
            return None

    def write(self, method: Method, problem: Problem, timed: Timed) -> None:
        """Store an estimate of a slow method."""
        if method.version is None or timed.estimate is None:
            return
        game = timed.estimate.game
        document = {
            "method": method.name,
            "problem": problem.name,
            "values": dict(timed.estimate.values),
            "game": None if game is None else game.tolist(),
            "seconds": timed.seconds,
        }
        write_durably(self._path(method, problem), (json.dumps(document) + "\n").encode(), mode=PUBLIC)

    def _path(self, method: Method, problem: Problem) -> Path:
        kind = type(method)
        text = f"{kind.__module__}.{kind.__qualname__}/{method.version}/{problem.key}"
        return self.folder / "estimates" / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def estimate(method: Method, problem: Problem, cache: EstimateCache) -> Timed:
    """Run a method on a problem's table; an exception of the method is its failure, not the run's."""
    if (stored := cache.read(method, problem)) is not None:
        return stored
    start = time.process_time()
    try:
        values = method.value(problem.table)
    except Exception as error:  # noqa: BLE001 - whatever a method raises is reported, and the run goes on
        reason = f"{type(error).__name__}: {error}"
        return Timed(None, time.process_time() - start, reason)
    if not isinstance(values, Estimate):
        values = Estimate({name: float(value) for name, value in values.items()})
    timed = Timed(values, time.process_time() - start)
    cache.write(method, problem, timed)
    return timed


def warm_up(methods: Sequence[Method]) -> None:
    """Run every method once on a small table, so that no measured time includes imports or compilation."""
    tiny = known_problem(small_worlds()[0], 100)
    for method in methods:
        try:
            method.value(tiny.table)
        except Exception:  # noqa: BLE001, S112 - it fails again, and is reported, where it counts
            continue


@dataclass(frozen=True, slots=True)
class Valuations:
    """Method -> problem -> its estimate or failure."""

    estimates: dict[str, dict[str, dict[str, float]]]
    scores: dict[str, dict[str, Scores]]
    failed: dict[str, dict[str, str]]


def value_all(
    methods: Sequence[Method],
    problems: Sequence[Problem],
    truths: Mapping[str, Truth],
    cache: EstimateCache,
    progress: Progress | None = None,
) -> Valuations:
    """Value every problem with every method, and score the estimates."""
    names = [method.name for method in methods]
    valued = Valuations({n: {} for n in names}, {n: {} for n in names}, {n: {} for n in names})
    warm_up(methods)
    steps = list(product(methods, problems))
    for done, (method, problem) in enumerate(steps):
        if progress is not None:
            progress(done, len(steps), f"{method.name} on {problem.name}")
        timed = estimate(method, problem, cache)
        if timed.estimate is None:
            valued.failed[method.name][problem.name] = timed.reason
            continue
        try:
            scores = score(problem, truths[problem.name], method, timed.estimate, timed.seconds)
        except InputError as error:
            valued.failed[method.name][problem.name] = str(error)
            continue
        valued.scores[method.name][problem.name] = scores
        valued.estimates[method.name][problem.name] = dict(timed.estimate.values)
    return valued
