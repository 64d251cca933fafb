"""The loaded sets are the published ones."""

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
    "adult": {"<=50K": 24720, ">50K": 7841},
    "bank": {"0": 36548, "1": 4640},
}


@pytest.mark.parametrize(
    "name",
    [
        "wine",
        "breast",
        *(
            pytest.param(name, marks=pytest.mark.data)
            for name in ("parkinsons", "spect", "credit", "adult", "bank")
        ),
    ],
)
def test_labels_are_as_published(name: str) -> None:
    assert Counter(datasets.load(name).y.tolist()) == LABELS[name]


@pytest.mark.data
def test_music_has_ten_genres_of_a_hundred_tracks() -> None:
    music = datasets.load("music")
    assert set(Counter(music.y.tolist()).values()) == {100}
    assert "jazz" in music.y


def test_digits_are_64_pixels_of_0_to_16() -> None:
    digits = datasets.load("digits")
    pixels = np.column_stack(list(digits.X.values()))
    assert pixels.shape == (1797, 64)
    assert (pixels.min(), pixels.max()) == (0, 16)
    assert set(digits.y) == set("0123456789")


@pytest.mark.data
def test_adult_has_texts_and_gaps_and_lacks_what_no_model_may_use() -> None:
    """UCI: 14 attributes, less the weight and the repeated education; 583 unknown countries."""
    adult = datasets.load("adult")
    assert len(adult.X) == 12
    assert not {"fnlwgt", "education"} & set(adult.X)
    assert adult.X["sex"].tolist()[:5] == ["Male", "Male", "Male", "Male", "Female"]
    assert int((adult.X["native_country"] == "").sum()) == 583
    assert adult.X["age"].tolist()[:3] == [39.0, 50.0, 38.0]


@pytest.mark.data
def test_bank_lacks_the_duration_of_the_call() -> None:
    bank = datasets.load("bank")
    assert len(bank.X) == 15
    assert "duration" not in bank.X
    assert bank.X["default"].tolist()[:2] == ["no", ""]


def test_the_paper_has_six_sets_and_the_benchmark_three_more() -> None:
    assert datasets.NAMES == ("wine", "parkinsons", "spect", "breast", "music", "credit")
    assert list(datasets.CATALOGUE)[6:] == ["adult", "bank", "digits"]


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
