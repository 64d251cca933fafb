"""A loaded data set, and `load`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedvalue.datasets import locate
from fedvalue.datasets.catalogue import entry as catalogue_entry
from fedvalue.datasets.parse import fingerprint
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

    Feature: TypeAlias = Floats | NDArray[np.str_]
    """One column: numbers with NaN, or texts with "", where a value is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """One of the paper's data sets, or a synthetic one.

    Args:
        name: Short name.
        X: Feature columns by name, in source order.
        y: Label of each row, as text.
        origin: Whom to attribute the data to.
        licence: Its terms, as far as known.
        source: The file (or package) it was read from.
        sha256: Fingerprint of the values and labels (not of the file).
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
        """Some of the features, in the order asked for; what `fedvalue.value` takes as one party."""
        try:
            return {name: self.X[name] for name in names}
        except KeyError as error:
            raise InputError(f"{self.name} has no feature {error.args[0]!r}") from error

    def rows(self, index: NDArray[np.int64]) -> Dataset:
        """Some of the rows; `sha256` stays that of the whole."""
        return replace(self, X={name: column[index] for name, column in self.X.items()}, y=self.y[index])


def load(name: str, *, download: bool = False, verify: bool = True) -> Dataset:
    """Load a data set: the paper's wine, parkinsons, spect, breast, music or credit; adult, bank or digits.

    Columns that no model may use (a sampling weight, what is known only afterwards) are dropped.

    Args:
        name: Which one.
        download: Fetch it from its public source when it is nowhere on this machine.
        verify: Refuse a copy with other values than the known ones. Turn it off to work with, say, a
            rounded copy of Music; `sha256` then tells it apart.

    Raises:
        InputError: Unknown name, not found (the message says how to get it), or another content.
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
