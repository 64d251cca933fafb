"""The paper's experimental setting: who holds what, and the counts that follow.

A data set is discretised as a whole, then 80% of its rows are drawn, as in the paper; so repeats
differ in rows, never in bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.datasets import Dataset, VerticalSplit, feature_codes, label_codes, load
from fedvalue.information.contingency import JointCounts, pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes

BINS = 5
SHARE_OF_ROWS = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class Discretised:
    """A data set as ordinal codes."""

    dataset: Dataset
    codes: NDArray[np.int64] = field(repr=False)
    label: Codes = field(repr=False)

    def rows(self, index: NDArray[np.int64]) -> Discretised:
        """Some of the rows, in the same bins."""
        return Discretised(self.dataset.rows(index), self.codes[index], self.label[index])

    def positions(self, features: tuple[str, ...]) -> list[int]:
        """Column numbers of features."""
        names = self.dataset.feature_names
        return [names.index(feature) for feature in features]


@cache
def discretised(name: str, bins: int = BINS) -> Discretised:
    """A whole data set in the paper's five equal-width bins."""
    dataset = load(name)
    return Discretised(dataset, feature_codes(dataset, bins=bins), label_codes(dataset))


def draw_rows(n_samples: int, seed: int, share: float = SHARE_OF_ROWS) -> NDArray[np.int64]:
    """A random share of the rows, without replacement."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.permutation(n_samples)[: round(share * n_samples)])


def joint_counts(data: Discretised, split: VerticalSplit) -> JointCounts:
    """The joint counts of a vertical split."""

    def joint(features: tuple[str, ...]) -> Codes:
        return pack([data.codes[:, k] for k in data.positions(features)])

    return JointCounts.from_columns(
        label=data.label,
        task=joint(split.task),
        parties={name: joint(features) for name, features in split.parties.items()},
    )
