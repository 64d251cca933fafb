"""The truth of every problem: the retraining game, computed once and kept on disk.

    <cache>/truth/<key>.json    the coalitions of one problem that are done

The key is a SHA-256 over the problem's tables and the version of the game, so another split, other data or
another game never reads old numbers. A file is replaced after every coalition, where a stopped run resumes.
Coalitions go through an executor; only this process writes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.retraining import TRUTH, CoalitionGain, coalition_gain, task_only
from fedvalue.engines import map_in_order
from fedvalue.errors import InputError
from fedvalue.storage.durable_files import PUBLIC, write_durably

if TYPE_CHECKING:
    from fedvalue.benchmark.problem import Problem
    from fedvalue.typing import Floats, Progress

SCHEMA = "fedvalue.benchmark.truth/1"


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The true values of all coalitions, by mask.

    Args:
        game: Values in nats, shape (2^p,).
        halves: The game measured on each of two halves of the tested rows, shape (2, 2^p); None where it is
            known exactly.
    """

    game: Floats = field(repr=False)
    halves: Floats | None = field(default=None, repr=False)


def default_cache() -> Path:
    """The user's cache for true values."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fedvalue" / "benchmark"


@dataclass(frozen=True, slots=True)
class TruthCache:
    """Finished coalitions on disk."""

    folder: Path

    def read(self, problem: Problem) -> dict[int, CoalitionGain]:
        """The coalitions of a problem that are done.

        Raises:
            InputError: The file is damaged.
        """
        path = self._path(problem)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))["coalitions"]
            return {int(mask): CoalitionGain(row[0], (row[1], row[2])) for mask, row in stored.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(
                f"{path} is damaged ({error}); remove it, and the next run computes it again", code="E_CACHE"
            ) from error

    def write(self, problem: Problem, gains: dict[int, CoalitionGain]) -> None:
        """Keep the finished coalitions of a problem."""
        versions = {name: metadata.version(name) for name in ("lightgbm", "scikit-learn", "numpy")}
        document = {
            "schema": SCHEMA,
            "truth": TRUTH,
            "problem": problem.name,
            "parties": list(problem.table.names),
            "versions": versions,
            "coalitions": {str(mask): [gains[mask].value, *gains[mask].halves] for mask in sorted(gains)},
        }
        write_durably(self._path(problem), (json.dumps(document, indent=1) + "\n").encode(), mode=PUBLIC)

    def truth(self, problem: Problem) -> Truth | None:
        """The truth of a problem, or None while a coalition is missing."""
        if problem.game is not None:
            return Truth(problem.game)
        gains = self.read(problem)
        size = 1 << problem.table.n_parties
        if any(mask not in gains for mask in range(1, size)):
            return None
        game, halves = np.zeros(size), np.zeros((2, size))
        for mask in range(1, size):
            game[mask], halves[:, mask] = gains[mask].value, gains[mask].halves
        return Truth(game, halves)

    def _path(self, problem: Problem) -> Path:
        key = hashlib.sha256(f"{TRUTH}/{problem.key}".encode()).hexdigest()
        return self.folder / "truth" / f"{key}.json"


def missing(problem: Problem, cache: TruthCache) -> list[int]:
    """Masks of the coalitions that are not done, small coalitions first."""
    if problem.game is not None:
        return []
    gains = cache.read(problem)
    masks = range(1, 1 << problem.table.n_parties)
    return sorted((mask for mask in masks if mask not in gains), key=lambda mask: (mask.bit_count(), mask))


def compute_truth(
    problems: Sequence[Problem], cache: TruthCache, *, executor: Executor, progress: Progress | None = None
) -> None:
    """Compute and store the missing coalitions, problem by problem; progress counts coalitions."""
    todo = [(problem, masks) for problem in problems if (masks := missing(problem, cache))]
    total = sum(len(masks) for _, masks in todo)
    done = 0
    for problem, masks in todo:
        if progress is not None:
            progress(done, total, f"retraining {problem.name}")
        without = executor.submit(task_only, problem).result()
        tasks: Iterable[tuple[Problem, int, object]] = ((problem, mask, without) for mask in masks)
        gains = cache.read(problem)
        for mask, gain in zip(masks, map_in_order(executor, coalition_gain, tasks), strict=True):
            gains[mask] = gain
            cache.write(problem, gains)
            done += 1
            if progress is not None:
                progress(done, total, f"retraining {problem.name}")
