"""Each feature of a data set as ordinal codes in the paper's equal-width bins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import party_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.datasets.dataset import Dataset
    from fedvalue.typing import Codes


def feature_codes(dataset: Dataset, *, bins: int = 5) -> NDArray[np.int64]:
    """The binned features, one column each, shape (n_samples, n_features).

    The same bins as in a valuation, numbered by rising value, whatever numbering a party table uses.
    """
    settings = CodingSettings(bins=bins, binning="width")
    columns = []
    for name, values in dataset.X.items():
        codes = party_table(name, {name: values}, settings).codes
        kinds, first = np.unique(codes, return_index=True)
        rank = np.empty(int(kinds.max()) + 1, dtype=np.int64)
        # Bins do not overlap, so any member orders them.
        rank[kinds[np.argsort(values[first], kind="stable")]] = np.arange(len(kinds))
        columns.append(rank[codes])
    return np.column_stack(columns)


def label_codes(dataset: Dataset) -> Codes:
    """The labels as codes, in the order of their text."""
    return np.unique(dataset.y, return_inverse=True)[1].astype(np.int64)
