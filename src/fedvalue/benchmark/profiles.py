"""What a run of the benchmark does: quick in minutes, full over night.

Beside the real settings there are problems whose truth is known exactly: LINEAR, MONKLarge and the small
worlds of `fedvalue.datasets`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.benchmark.real_settings import (
    DATA_SETS,
    DESIGN_SPLITS,
    FEATURES,
    JUDGE_SPLITS,
    problem,
    settings,
)
from fedvalue.datasets import label_codes, linear, locate, monk_large, small_worlds
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.datasets import Population

N_SMALL = 1000
"""Rows of a small world."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How much a run does.

    Args:
        data_sets: Real data sets.
        features: Features per party.
        judge_splits: Splits of a judging run.
        n_journal: Rows of LINEAR and MONKLarge.
    """

    data_sets: tuple[str, ...]
    features: tuple[int, ...]
    judge_splits: tuple[int, ...]
    n_journal: int


PROFILES = {
    # 10-label sets and cross-validations of 1,000 rows take most of the time, so they are left out.
    "quick": Profile(
        ("wine", "parkinsons", "spect", "breast", "credit", "adult", "bank"), (2,), JUDGE_SPLITS[:1], 4000
    ),
    "full": Profile(DATA_SETS, FEATURES, JUDGE_SPLITS, 20_000),
}


def plan(
    profile: str, *, data_sets: Sequence[str] = (), design: bool = False
) -> tuple[list[Problem], dict[str, str]]:
    """The problems of a run, and the data sets that are missing with the command that gets them.

    Args:
        profile: "quick" or "full".
        data_sets: Only these; those of the profile when empty. Named ones come without the populations.
        design: The splits that one may tune on, instead of those for judging.

    Raises:
        InputError: An unknown profile or data set.
    """
    if profile not in PROFILES:
        raise InputError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    if unknown := [name for name in data_sets if name not in DATA_SETS]:
        raise InputError(f"unknown data set {unknown[0]!r}; there are {', '.join(DATA_SETS)}")
    size = PROFILES[profile]
    wanted = tuple(data_sets) or size.data_sets
    absent = locate.missing(wanted)
    splits = DESIGN_SPLITS if design else size.judge_splits
    here = [name for name in wanted if name not in absent]
    problems = [problem(setting) for setting in settings(here, size.features, splits)]
    return problems + ([] if data_sets else known_problems(size.n_journal)), absent


def known_problem(population: Population, n_samples: int) -> Problem:
    """Rows of a population, with its known game as the truth."""
    seed = zlib.crc32(population.name.encode())
    rows, split = population.draw(n_samples, seed), population.split
    table = VerticalTable(
        label_codes(rows),
        rows.columns(split.task),
        {name: rows.columns(columns) for name, columns in split.parties.items()},
    )
    nothing = "nothing" if "nothing" in split.parties else None
    return Problem(population.name, population.name, table, noise=nothing, game=population.game, seed=seed)


def known_problems(n_journal: int) -> list[Problem]:
    """The small worlds, then LINEAR and MONKLarge in their three scenarios.

    Args:
        n_journal: Rows of LINEAR and MONKLarge.
    """
    small = [known_problem(population, N_SMALL) for population in small_worlds()]
    journal = [make(scenario) for make in (linear, monk_large) for scenario in ("S0", "S1", "S2")]
    return small + [known_problem(population, n_journal) for population in journal]
