"""The problems of a run: real settings by a seeded rule, and populations whose truth is known exactly.

The rule of the real settings, from the name of a setting alone, so that everybody gets the same tables:

1. The features of the data set are shuffled. With task features (every second setting) the first k go to
   the task party; the next k to `party-1`, and so on up to `party-4`, or `party-3` where features run out.
2. A data set of more than 1,200 rows is shuffled; the first 600, 1,000 or 1,500 (by split), but at most
   half, are what methods see, and up to 3,000 others are unseen.
3. `noise` is a copy of one data party, drawn at random, with its rows shuffled.

Split 0 is for design: tune on it as you like. Splits 1 and 2 are for judging, and nothing is tuned on them.
The populations are LINEAR, MONKLarge and the small worlds of `fedvalue.datasets`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.datasets import label_codes, linear, load, locate, monk_large, small_worlds
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.datasets import Dataset, Population

DATA_SETS = ("wine", "parkinsons", "spect", "breast", "music", "credit", "adult", "bank", "digits")
FEATURES = (1, 2, 3)
DESIGN_SPLITS = (0,)
JUDGE_SPLITS = (1, 2)

NOISE = "noise"
LARGE = 1200
UNSEEN = 3000
_KNOWN = (600, 1000, 1500)
_LEAST_PARTIES, _MOST_PARTIES = 3, 4


@dataclass(frozen=True, slots=True)
class Setting:
    """One vertical split of one data set, with `features` columns per party."""

    data_set: str
    features: int
    split: int

    @property
    def name(self) -> str:
        """Unique name, from which everything random follows."""
        return f"{self.data_set}/{self.features}/{self.split}"

    @property
    def with_task(self) -> bool:
        """The task party has features: every second setting."""
        return (self.features + self.split) % 2 == 1


def settings(
    data_sets: Sequence[str] = DATA_SETS,
    features: Sequence[int] = FEATURES,
    splits: Sequence[int] = JUDGE_SPLITS,
) -> list[Setting]:
    """All combinations, data set by data set."""
    return [Setting(name, k, split) for name in data_sets for k in features for split in splits]


def problem(setting: Setting) -> Problem:
    """The tables of a setting.

    Raises:
        InputError: The data set is not on this machine, or has too few features.
    """
    return vertical_problem(load(setting.data_set), setting)


def vertical_problem(dataset: Dataset, setting: Setting) -> Problem:
    """The rule of this module, applied to a loaded data set."""
    seed = zlib.crc32(setting.name.encode())
    rng = np.random.default_rng(seed)
    order = [dataset.feature_names[k] for k in rng.permutation(len(dataset.X))]
    k = setting.features
    task, free = (order[:k], order[k:]) if setting.with_task else ([], order)
    n_parties = min(_MOST_PARTIES, len(free) // k)
    if n_parties < _LEAST_PARTIES:
        raise InputError(
            f"{setting.name}: {len(order)} features are too few for {_LEAST_PARTIES} parties of {k}"
        )
    parties = {f"party-{d + 1}": free[d * k : (d + 1) * k] for d in range(n_parties)}
    rows = rng.permutation(dataset.n_samples) if dataset.n_samples > LARGE else np.arange(dataset.n_samples)
    shuffled = rng.permutation(dataset.n_samples)
    copied = parties[f"party-{rng.integers(n_parties) + 1}"]
    label = label_codes(dataset)

    def table(index: NDArray[np.int64]) -> VerticalTable:
        held = {
            party: {name: dataset.X[name][index] for name in features} for party, features in parties.items()
        }
        held[NOISE] = {name: dataset.X[name][shuffled[index]] for name in copied}
        return VerticalTable(label[index], {name: dataset.X[name][index] for name in task}, held)

    n_known = dataset.n_samples
    if n_known > LARGE:
        n_known = min(_KNOWN[setting.split % len(_KNOWN)], n_known // 2)
    unseen = rows[n_known : n_known + UNSEEN]
    return Problem(
        name=setting.name,
        source=setting.data_set,
        table=table(rows[:n_known]),
        unseen=table(unseen) if len(unseen) else None,
        noise=NOISE,
        seed=seed,
    )


N_SMALL = 1000
"""Rows of a small world."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The workload of a run; `n_journal` is the number of rows of LINEAR and MONKLarge."""

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
        data_sets: Only these, and no populations; the data sets of the profile when empty.
        design: The splits for tuning, instead of those for judging.

    Raises:
        InputError: An unknown profile or data set.
    """
    if profile not in PROFILES:
        raise InputError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    if unknown := [name for name in data_sets if name not in DATA_SETS]:
        raise InputError(f"unknown data set {unknown[0]!r}; choose from {', '.join(DATA_SETS)}")
    size = PROFILES[profile]
    names = tuple(data_sets) or size.data_sets
    absent = locate.missing(names)
    splits = DESIGN_SPLITS if design else size.judge_splits
    present = [name for name in names if name not in absent]
    problems = [problem(setting) for setting in settings(present, size.features, splits)]
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
    """The small worlds, then `n_journal` rows of LINEAR and MONKLarge in their three scenarios."""
    small = [known_problem(population, N_SMALL) for population in small_worlds()]
    journal = [make(scenario) for make in (linear, monk_large) for scenario in ("S0", "S1", "S2")]
    return small + [known_problem(population, n_journal) for population in journal]
