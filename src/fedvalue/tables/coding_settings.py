"""How columns become codes: the settings that every table of a valuation shares."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from fedvalue.errors import InputError

Binning = Literal["quantile", "width"]

LIMITS: dict[str, tuple[int, int]] = {"bins": (2, 65_536), "label_bins": (2, 65_536), "pca": (1, 65_536)}
"""Smallest and largest value of each whole-number setting."""


class CodingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a party turns its columns into codes.

    Args:
        bins: Bins of a numeric column; a column with no more distinct numbers keeps them.
        binning: "quantile" for about equally filled bins, "width" for the paper's bins of equal width.
        label_bins: Bins of a label that is an amount; `bins` when None.
        pca: Replace the numbers of a party that has more columns by this many principal components; with
            "width", as in the paper, also those of a party that has as many.
        clean_labels: Merge labels that differ only in case or blanks into one class.
        categorical: Numeric columns whose numbers are names, such as zip codes: never binned.

    Raises:
        InputError: A setting is out of its range (`LIMITS`), of another type, or unknown.
    """

    bins: int = 5
    binning: Binning = "quantile"
    label_bins: int | None = None
    pca: int | None = None
    categorical: tuple[str, ...] = ()
    clean_labels: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "bins", _whole("bins", self.bins))
        for name in ("label_bins", "pca"):
            number = getattr(self, name)
            if number is not None:
                msgspec.structs.force_setattr(self, name, _whole(name, number))
        if self.binning not in get_args(Binning):
            raise InputError(f"binning must be 'quantile' or 'width', got {self.binning!r}")
        msgspec.structs.force_setattr(self, "categorical", _names(self.categorical))

    @property
    def bins_of_label(self) -> int:
        """Bins of a label that is an amount."""
        return self.bins if self.label_bins is None else self.label_bins

    @property
    def description(self) -> str:
        """How numbers are cut, as in "5 bins, about equally filled"."""
        return (
            f"{self.bins} bins, {'about equally filled' if self.binning == 'quantile' else 'of equal width'}"
        )


def _whole(name: str, number: object) -> int:
    low, high = LIMITS[name]
    if hasattr(number, "__index__") and not isinstance(number, bool):
        whole = operator.index(number)
        if low <= whole <= high:
            return whole
    raise InputError(f"{name} must be a whole number from {low} to {high}, got {number!r}")


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InputError(f"categorical must be a list of column names, got {names!r}")
    for name in (columns := tuple(names)):
        if not isinstance(name, str) or not name:
            raise InputError(f"categorical must be a list of column names, got {name!r} in it")
    return columns
