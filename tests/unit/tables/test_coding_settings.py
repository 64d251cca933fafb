"""The coding settings refuse what no table could be coded with, and travel unchanged."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings


def test_default_is_five_quantile_bins() -> None:
    settings = CodingSettings()
    assert (settings.bins, settings.binning, settings.bins_of_label) == (5, "quantile", 5)
    assert (settings.label_bins, settings.pca, settings.categorical) == (None, None, ())


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("bins", 1, "bins must be a whole number from 2 to 65536, got 1"),
        ("bins", 65_537, "bins must be a whole number from 2 to 65536, got 65537"),
        ("bins", 2.5, "bins must be a whole number"),
        ("bins", True, "bins must be a whole number"),
        ("bins", None, "bins must be a whole number"),
        ("label_bins", 1, "label_bins must be a whole number from 2"),
        ("pca", 0, "pca must be a whole number from 1"),
        ("binning", "equal", "binning must be 'quantile' or 'width', got 'equal'"),
        ("categorical", "zip", "categorical must be a list of column names, got 'zip'"),
        ("categorical", [3], "categorical must be a list of column names, got 3 in it"),
    ],
)
def test_wrong_setting_is_refused_by_name_limit_and_value(setting: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        CodingSettings(**{setting: value})


def test_numbers_of_numpy_and_lists_become_plain_values() -> None:
    settings = CodingSettings(bins=np.int64(7), categorical=["zip"])  # type: ignore[arg-type]
    assert type(settings.bins) is int
    assert settings.categorical == ("zip",)


def test_settings_survive_json() -> None:
    settings = CodingSettings(bins=7, binning="width", label_bins=3, pca=2, categorical=("zip",))
    assert msgspec.json.decode(msgspec.json.encode(settings), type=CodingSettings) == settings
