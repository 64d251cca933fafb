"""Vertical splits of a table among a task party and data parties.

The paper's experiments use `random_split`; `importance_split` and `correlation_split` are for studies in
which good or related features belong to the same party.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.datasets.dataset import Dataset
    from fedvalue.typing import Floats


@dataclass(frozen=True, slots=True)
class VerticalSplit:
    """The features of the task party and of each data party; every feature is in exactly one place."""

    task: tuple[str, ...]
    parties: Mapping[str, tuple[str, ...]]

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.parties)


def random_split(features: Sequence[str], *, features_per_party: int, seed: int) -> VerticalSplit:
    """Deal the features at random and evenly, the task party included (paper, Section 4.1).

    There are ceil(m / features_per_party) parties, one of them the task party, and their sizes differ
    by at most one: Wine's 13 features at 3 per party make 3 + 3 + 3 + 2 + 2. The smaller
    parties are random too.

    Args:
        features: Names of the features.
        features_per_party: Most features of a party.
        seed: Of the shuffle.

    Raises:
        InputError: There would be no data party, or a number is out of range.
    """
    return _dealt(features, len(_even_sizes(len(features), features_per_party)), seed)


def split_among(features: Sequence[str], *, n_parties: int, seed: int) -> VerticalSplit:
    """Deal the features at random and evenly among a task party and `n_parties` data parties."""
    if n_parties < 1:
        raise InputError(f"n_parties must be at least 1, got {n_parties}")
    holders = n_parties + 1
    if len(features) < holders:
        raise InputError(f"{holders} parties need at least {holders} features, got {len(features)}")
    return _dealt(features, holders, seed)


def importance_split(importance: Mapping[str, float], *, features_per_party: int) -> VerticalSplit:
    """The best features to the first data party, the next best to the second, the rest to the task party.

    Args:
        importance: A number per feature, larger is better (`label_information` gives one).
        features_per_party: Most features of a party.
    """
    sizes = _even_sizes(len(importance), features_per_party)
    order = sorted(importance, key=lambda name: (-importance[name], name))
    *parties, task = _groups(order, sizes)
    return _named(task, parties)


def correlation_split(dataset: Dataset, *, features_per_party: int, seed: int) -> VerticalSplit:
    """Features that correlate go to the same party: start with a random one, add its closest kin, repeat.

    Parties are then redundant inside and different from each other, the opposite of a random split.

    Raises:
        InputError: A feature is text.
    """
    names = dataset.feature_names
    if texts := [name for name in names if dataset.X[name].dtype.kind == "U"]:
        raise InputError(f"{dataset.name}: {', '.join(texts)} are text and have no correlation")
    sizes = _even_sizes(len(names), features_per_party)
    closeness = np.abs(_correlations(np.column_stack(list(dataset.X.values()))))
    rng = np.random.default_rng(seed)
    free = list(range(len(names)))
    groups = []
    for size in sizes:
        first = int(rng.choice(free))
        kin = sorted(free, key=lambda k: (k != first, -closeness[first, k], k))[:size]
        free = [k for k in free if k not in kin]
        groups.append(tuple(names[k] for k in kin))
    task, *parties = [groups[k] for k in rng.permutation(len(groups))]
    return _named(task, parties)


def label_information(dataset: Dataset, *, bins: int = 5) -> dict[str, float]:
    """I(X_j; Y) of each binned feature, in nats: a model-free importance for `importance_split`."""
    from fedvalue.datasets.dataset import feature_codes, label_codes
    from fedvalue.information.cmi import cmi

    codes, y = feature_codes(dataset, bins=bins), label_codes(dataset)
    return {name: cmi(codes[:, k], y) for k, name in enumerate(dataset.feature_names)}


def _even_sizes(n_features: int, features_per_party: int) -> list[int]:
    if features_per_party < 1:
        raise InputError(f"features_per_party must be at least 1, got {features_per_party}")
    holders = -(-n_features // features_per_party)
    if holders < 2:
        raise InputError(
            f"{n_features} feature(s) at {features_per_party} per party leave no data party; "
            "at least one beside the task party is needed"
        )
    return _even(n_features, holders)


def _even(n_features: int, holders: int) -> list[int]:
    return [n_features // holders + (k < n_features % holders) for k in range(holders)]


def _dealt(features: Sequence[str], holders: int, seed: int) -> VerticalSplit:
    """Even parts at random, the first of which is the task party's."""
    rng = np.random.default_rng(seed)
    order = [features[k] for k in rng.permutation(len(features))]
    sizes = _even(len(features), holders)
    task, *parties = _groups(order, [sizes[k] for k in rng.permutation(holders)])
    return _named(task, parties)


def _groups(order: Sequence[str], sizes: Sequence[int]) -> list[tuple[str, ...]]:
    ends = np.cumsum(sizes)
    return [tuple(order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _named(task: tuple[str, ...], parties: Sequence[tuple[str, ...]]) -> VerticalSplit:
    return VerticalSplit(task, {f"party-{k:02d}": group for k, group in enumerate(parties, 1)})


def _correlations(values: Floats) -> Floats:
    """Pearson correlations of the columns; 0 with a constant column, which correlates with nothing."""
    centred = values - values.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    norms[norms == 0] = np.inf
    unit: Floats = centred / norms
    return np.asarray(unit.T @ unit)
