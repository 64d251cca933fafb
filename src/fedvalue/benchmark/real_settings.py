"""The real settings: which data set, how many features per party, which split.

The rule, from the name of a setting alone, so that everybody gets the same tables:

1. The features of the data set are shuffled. With task features (every second setting) the first k go to
   the task party; the next k to `party-1`, and so on up to `party-4`, or `party-3` where features run out.
2. A data set of more than 1,200 rows is shuffled; the first 600, 1,000 or 1,500 (by split), but at most
   half, are what methods see, and up to 3,000 others are unseen.
3. `noise` is a copy of one data party, drawn at random, with its rows shuffled.

Split 0 is for design: tune on it as you like. Splits 1 and 2 are for judging, and nothing is tuned on them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.datasets import label_codes, load
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.datasets import Dataset

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
    """One vertical split of one data set.

    Args:
        data_set: Its name.
        features: Features per party, k.
        split: Number of the split.
    """

    data_set: str
    features: int
    split: int

    @property
    def name(self) -> str:
        """Unique name, from which everything random follows."""
        return f"{self.data_set}/{self.features}/{self.split}"

    @property
    def with_task(self) -> bool:
        """Whether the task party has features of its own: every second setting."""
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
