"""Every feature has exactly one holder, whatever the split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue import datasets
from fedvalue.datasets import VerticalSplit
from fedvalue.errors import InputError


def holders(split: VerticalSplit) -> list[tuple[str, ...]]:
    return [split.task, *split.parties.values()]


def names(m: int) -> list[str]:
    return [f"f{k}" for k in range(m)]


@given(st.integers(2, 80), st.integers(1, 6), st.integers(0, 2**31))
def test_random_split_is_a_partition_into_even_parts(m: int, size: int, seed: int) -> None:
    if m <= size:
        with pytest.raises(InputError, match="leave no data party"):
            datasets.random_split(names(m), features_per_party=size, seed=seed)
        return
    split = datasets.random_split(names(m), features_per_party=size, seed=seed)
    sizes = [len(held) for held in holders(split)]
    assert sorted(name for held in holders(split) for name in held) == sorted(names(m))
    assert len(sizes) == -(-m // size)
    assert max(sizes) == size or m % size != 0
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert split == datasets.random_split(names(m), features_per_party=size, seed=seed)


@given(st.integers(2, 60), st.integers(1, 20), st.integers(0, 2**31))
def test_split_among_is_a_partition_into_even_parts(m: int, n_parties: int, seed: int) -> None:
    if m < n_parties + 1:
        with pytest.raises(InputError, match="need at least"):
            datasets.split_among(names(m), n_parties=n_parties, seed=seed)
        return
    split = datasets.split_among(names(m), n_parties=n_parties, seed=seed)
    sizes = [len(held) for held in holders(split)]
    assert split.n_parties == n_parties
    assert sorted(name for held in holders(split) for name in held) == sorted(names(m))
    assert max(sizes) - min(sizes) <= 1


def test_wine_at_three_features_per_party() -> None:
    split = datasets.random_split(names(13), features_per_party=3, seed=0)
    assert sorted(len(held) for held in holders(split)) == [2, 2, 3, 3, 3]


def test_other_seeds_give_other_splits_and_each_feature_reaches_the_task_party() -> None:
    tasks = {datasets.random_split(names(6), features_per_party=1, seed=seed).task[0] for seed in range(100)}
    assert tasks == set(names(6))


@given(
    st.dictionaries(st.text("abcdefgh", min_size=1, max_size=4), st.floats(0, 1), min_size=4, max_size=30),
    st.integers(1, 3),
)
def test_importance_split_gives_no_party_a_better_feature_than_an_earlier_one(
    importance: dict[str, float], size: int
) -> None:
    split = datasets.importance_split(importance, features_per_party=size)
    groups = [*split.parties.values(), split.task]
    assert sorted(name for held in groups for name in held) == sorted(importance)
    for better, worse in pairwise(groups):
        assert min(importance[name] for name in better) >= max(importance[name] for name in worse)


def test_label_information_ranks_a_copy_of_the_label_first() -> None:
    wine = datasets.load("wine")
    information = datasets.label_information(wine)
    assert set(information) == set(wine.feature_names)
    # Flavanoids are known as the best single feature of Wine; ash as one of the worst.
    best = sorted(information, key=lambda name: -information[name])
    assert "flavanoids" in best[:3]
    assert "ash" in best[-3:]


def test_correlation_split_keeps_kin_together() -> None:
    """Radius, perimeter and area of one image are nearly the same number; a random split parts them."""
    breast = datasets.load("breast")
    for seed in range(5):
        split = datasets.correlation_split(breast, features_per_party=3, seed=seed)
        assert sorted(n for held in holders(split) for n in held) == sorted(breast.feature_names)
        assert {len(held) for held in holders(split)} == {3}
        within = [
            abs(np.corrcoef(breast.X[a], breast.X[b])[0, 1])
            for held in holders(split) for a in held for b in held if a < b
        ]  # fmt: skip
        mixed = datasets.random_split(breast.feature_names, features_per_party=3, seed=seed)
        between = [
            abs(np.corrcoef(breast.X[a], breast.X[b])[0, 1])
            for held in holders(mixed) for a in held for b in held if a < b
        ]  # fmt: skip
        assert np.mean(within) > np.mean(between) + 0.1


@pytest.mark.parametrize("size", [0, -1])
def test_features_per_party_must_be_positive(size: int) -> None:
    with pytest.raises(InputError, match=f"features_per_party must be at least 1, got {size}"):
        datasets.random_split(names(5), features_per_party=size, seed=0)


@pytest.mark.data
def test_text_has_no_correlation() -> None:
    with pytest.raises(InputError, match=r"adult: workclass, .* are text and have no correlation"):
        datasets.correlation_split(datasets.load("adult"), features_per_party=2, seed=0)
