"""A loaded data set, `load`, and its columns as codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedvalue.datasets import locate
from fedvalue.datasets.catalogue import entry as catalogue_entry
from fedvalue.datasets.parse import fingerprint
from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import party_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats

    Feature: TypeAlias = Floats | NDArray[np.str_]
    """One column: numbers with NaN, or texts with "", where a value is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """One of the paper's data sets, or a synthetic one.

    Args:
        name: Short name.
        X: Feature columns by name, in source order.
        y: Label of each row, as text.
        origin: Attribution.
        licence: Its terms, if known.
        source: The file or package it was read from.
        sha256: Fingerprint of the values and labels, not of the file.
        categorical: The features are categories already, so nothing needs binning.
    """

    name: str
    X: dict[str, Feature] = field(repr=False)
    y: NDArray[np.str_] = field(repr=False)
    origin: str
    licence: str
    source: str
    sha256: str
    categorical: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in source order."""
        return tuple(self.X)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def n_labels(self) -> int:
        """Number of distinct labels."""
        return len(np.unique(self.y))

    def columns(self, names: Iterable[str]) -> dict[str, Feature]:
        """Some of the features, in this order, as `fedvalue.value` takes one party."""
        try:
            return {name: self.X[name] for name in names}
        except KeyError as error:
            raise InputError(f"{self.name} has no feature {error.args[0]!r}") from error

    def rows(self, index: NDArray[np.int64]) -> Dataset:
        """Some of the rows; `sha256` stays that of the whole."""
        return replace(self, X={name: column[index] for name, column in self.X.items()}, y=self.y[index])


def load(name: str, *, download: bool = False, verify: bool = True) -> Dataset:
    """Load a data set: the paper's wine, parkinsons, spect, breast, music or credit; adult, bank or digits.

    Columns that no model may use (a sampling weight, facts known only afterwards) are dropped.

    Args:
        name: The data set.
        download: Fetch it from its public source if it is not on this machine.
        verify: Refuse a copy with other values. Turn it off to work with, say, a rounded copy of Music;
            `sha256` then differs.

    Raises:
        InputError: Unknown name, not found (the message says how to get it), or other values.
        TransportError: The download failed.
    """
    entry = catalogue_entry(name)
    place = locate.find(entry)
    if place is None and download:
        place = locate.download(entry)
    if place is None:
        raise InputError(locate.missing_message(entry), code="E_DATASET")
    columns = locate.read(entry, place, verify=verify)
    return Dataset(
        name=name,
        X={name: columns.feature(name) for name in columns.names if name not in entry.leave_out},
        y=columns.labels,
        origin=entry.origin,
        licence=entry.licence,
        source=str(place),
        sha256=fingerprint(columns),
        categorical=entry.categorical,
    )


def feature_codes(dataset: Dataset, *, bins: int = 5) -> NDArray[np.int64]:
    """Each feature as ordinal codes in the paper's equal-width bins, shape (n_samples, n_features).

    The same bins as in a valuation, numbered by rising value.
    """
    settings = CodingSettings(bins=bins, binning="width")
    columns = []
    for name, values in dataset.X.items():
        codes = party_table(name, {name: values}, settings).codes
        kinds, first = np.unique(codes, return_index=True)
        rank = np.empty(int(kinds.max()) + 1, dtype=np.int64)
        # Bins do not overlap, so any member gives their order.
        rank[kinds[np.argsort(values[first], kind="stable")]] = np.arange(len(kinds))
        columns.append(rank[codes])
    return np.column_stack(columns)


def label_codes(dataset: Dataset) -> Codes:
    """The labels as codes, in the order of their text."""
    return np.unique(dataset.y, return_inverse=True)[1].astype(np.int64)
