"""Data sets, vertical splits of them, and synthetic tables with known values.

`fedvalue.datasets.load("wine")` finds a data set on this machine and checks it; nothing is downloaded
unless asked for.
"""

from __future__ import annotations

from fedvalue.datasets.catalogue import CATALOGUE, Entry
from fedvalue.datasets.dataset import Dataset, feature_codes, label_codes, load
from fedvalue.datasets.populations import Population, linear, monk_large, small_worlds, synthetic
from fedvalue.datasets.split import (
    VerticalSplit,
    correlation_split,
    importance_split,
    label_information,
    random_split,
    split_among,
)

NAMES = tuple(name for name, entry in CATALOGUE.items() if entry.in_paper)
"""The six data sets in the order of the paper's Table 1."""

__all__ = [
    "CATALOGUE",
    "NAMES",
    "Dataset",
    "Entry",
    "Population",
    "VerticalSplit",
    "correlation_split",
    "feature_codes",
    "importance_split",
    "label_codes",
    "label_information",
    "linear",
    "load",
    "monk_large",
    "random_split",
    "small_worlds",
    "split_among",
    "synthetic",
]
