"""The paper's experimental setting, as in the authors' notebooks.

- A data set is cut into five equal-width bins as a whole (`pandas.cut`; Spect's binary features stay), then
  rows are drawn, so repeats differ in rows, never in bins.
- The codes are bin numbers: a bin without rows keeps its number. Models see these codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.datasets import label_codes, load
from fedvalue.information.contingency import JointCounts, pack
from fedvalue.tables.binning import bin_codes, width_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes

BINS = 5

Groups = Sequence[Sequence[int]]
"""Columns of each data party."""


@dataclass(frozen=True, slots=True, eq=False)
class Discretised:
    """A data set as ordinal codes."""

    codes: NDArray[np.int64] = field(repr=False)
    label: Codes = field(repr=False)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.codes.shape[1])

    def rows(self, index: NDArray[np.int64]) -> Discretised:
        """Some of the rows, in the same bins."""
        return Discretised(self.codes[index], self.label[index])

    def joint(self, columns: Sequence[int]) -> Codes:
        """One code for the combination of some columns; constant where there are none."""
        if not columns:
            return np.zeros(len(self.label), dtype=np.int64)
        return pack([self.codes[:, k] for k in columns])

    def joint_counts(self, groups: Groups, task: Sequence[int] = ()) -> JointCounts:
        """The joint counts when the task party and each data party hold these columns."""
        return JointCounts.from_columns(
            label=self.label,
            task=self.joint(task),
            parties={f"party-{d:02d}": self.joint(columns) for d, columns in enumerate(groups, 1)},
        )


@cache
def discretised(name: str) -> Discretised:
    """A whole data set in the paper's five equal-width bins."""
    dataset = load(name)
    columns = []
    for values in dataset.X.values():
        numbers = np.asarray(values, dtype=np.float64)
        edges = width_edges(numbers.min(), numbers.max(), BINS, numbers.dtype)
        columns.append(numbers.astype(np.int64) if dataset.categorical else bin_codes(edges, numbers))
    return Discretised(np.column_stack(columns), label_codes(dataset))


def even_groups(n_features: int, n_groups: int, rng: np.random.Generator) -> list[list[int]]:
    """Features dealt at random to groups whose sizes differ by at most one."""
    return [sorted(group.tolist()) for group in np.array_split(rng.permutation(n_features), n_groups)]


def uneven_groups(n_features: int, n_groups: int, rng: np.random.Generator) -> list[list[int]]:
    """Features cut at random places into groups that have at least one each."""
    order = rng.permutation(n_features)
    cuts = np.sort(rng.choice(np.arange(1, n_features), size=n_groups - 1, replace=False))
    return [sorted(group.tolist()) for group in np.split(order, cuts)]
