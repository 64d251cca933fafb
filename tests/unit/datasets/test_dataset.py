"""The loaded sets are the paper's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fedvalue import datasets
from fedvalue.errors import InputError

# From the published descriptions of the sets.
LABELS = {
    "wine": {"1": 59, "2": 71, "3": 48},
    "breast": {"1": 212, "0": 357},
    "parkinsons": {"1": 147, "0": 48},
    "spect": {"1": 212, "0": 55},
    "credit": {"0": 23364, "1": 6636},
}


@pytest.mark.parametrize(
    "name",
    [
        "wine",
        "breast",
        *(pytest.param(name, marks=pytest.mark.data) for name in ("parkinsons", "spect", "credit")),
    ],
)
def test_labels_are_as_published(name: str) -> None:
    assert Counter(datasets.load(name).y.tolist()) == LABELS[name]


@pytest.mark.data
def test_music_has_ten_genres_of_a_hundred_tracks() -> None:
    music = datasets.load("music")
    assert set(Counter(music.y.tolist()).values()) == {100}
    assert "jazz" in music.y


def test_rows_and_columns() -> None:
    wine = datasets.load("wine")
    some = wine.rows(np.array([0, 177]))
    assert some.y.tolist() == ["1", "3"]
    assert list(wine.columns(["hue", "alcohol"])) == ["hue", "alcohol"]
    assert some.columns(["alcohol"])["alcohol"].tolist() == [14.23, 14.13]
    with pytest.raises(InputError, match="wine has no feature 'sugar'"):
        wine.columns(["sugar"])


def test_feature_codes_are_pandas_equal_width_bins() -> None:
    """pandas.cut is the oracle: the authors discretise with it."""
    wine = datasets.load("wine")
    codes = datasets.feature_codes(wine)
    for k, (name, column) in enumerate(wine.X.items()):
        bins = pd.cut(pd.Series(column), 5, labels=False).to_numpy()
        dense = np.unique(bins, return_inverse=True)[1]
        assert codes[:, k].tolist() == dense.tolist(), name


@pytest.mark.data
def test_binary_features_stay_as_they_are() -> None:
    spect = datasets.load("spect")
    assert np.array_equal(datasets.feature_codes(spect), np.column_stack(list(spect.X.values())))


def test_synthetic_tables_have_the_papers_shape_and_a_label_that_every_party_informs() -> None:
    table, split = datasets.synthetic(n_samples=20_000, n_parties=4, features_per_party=2, seed=3)
    assert split.task == ("t1",)
    assert [len(held) for held in split.parties.values()] == [2, 2, 2, 2]
    assert set(table.X) == {"t1", *(name for held in split.parties.values() for name in held)}
    assert all(set(np.unique(column)) == {0.0, 1.0} for column in table.X.values())
    assert set(table.y) == {"0", "1"}
    information = datasets.label_information(table)
    # A noise column would show about 1 / (2 n) = 0.000025 nats.
    assert min(information.values()) > 0.005
    again, _ = datasets.synthetic(n_samples=20_000, n_parties=4, features_per_party=2, seed=3)
    assert again.sha256 == table.sha256


def test_synthetic_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="n_parties must be at least 1, got 0"):
        datasets.synthetic(n_parties=0)
