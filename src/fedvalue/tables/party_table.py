"""One party's features, or the label, as one dense integer code per sample.

A party is one player: its code is the joint column of all its features. Codes are numbered in the
lexicographic order of the feature codes, so equal data gives equal codes on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.columns import Column, NumberColumn, TextColumn, column_of, columns_of
from fedvalue.tables.discretise import Binning, check_binning, check_bins, fit, fit_summary
from fedvalue.tables.pca import Components, fit_components
from fedvalue.tables.summary import Summary

if TYPE_CHECKING:
    from fedvalue.typing import Codes

# More classes than this are kept, and pointed out: they are rarely meant as classes.
_MANY_CLASSES = 50


@dataclass(frozen=True, slots=True)
class PartyCoding:
    """How a party's features become feature codes: an optional PCA, then one coding per column."""

    columns: tuple[ColumnCoding, ...]
    components: Components | None = None

    def feature_codes(self, columns: Mapping[str, Column]) -> list[Codes]:
        """One code column per feature (or component) of these rows.

        Raises:
            InputError: A column is missing, or holds what its coding has not seen.
        """
        if self.components is not None:
            columns = self.components.scores(columns)
        absent = [coding.name for coding in self.columns if coding.name not in columns]
        if absent:
            raise InputError(f"expected the columns {absent}, got {list(columns)}")
        return [coding.codes(columns[coding.name]) for coding in self.columns]

    def to_dict(self) -> dict[str, Any]:
        """This coding as JSON-ready data. Floats keep every bit."""
        found: dict[str, Any] = {"columns": [coding.to_dict() for coding in self.columns]}
        if self.components is not None:
            found["components"] = self.components.to_dict()
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PartyCoding:
        """The coding that `to_dict` wrote.

        Raises:
            InputError: The data is no coding.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("columns"), list):
            raise InputError("expected the coding of a party, got something else")
        components = data.get("components")
        return cls(
            columns=tuple(ColumnCoding.from_dict(item) for item in data["columns"]),
            components=None if components is None else Components.from_dict(components),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PartyTable:
    """One code per sample, and where it comes from.

    Args:
        name: The party.
        codes: Dense codes, shape (n_samples,).
        n_codes: Number of distinct codes.
        features: The columns behind the codes.
        notes: What a person should know about the coding, one sentence each.
        coding: How other rows get feature codes of the same meaning; None when there is no feature.
    """

    name: str
    codes: Codes = field(repr=False)
    n_codes: int
    features: tuple[str, ...]
    notes: tuple[str, ...] = ()
    coding: PartyCoding | None = field(default=None, repr=False)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.codes)


def party_table(
    name: str, X: object, *, bins: int = 5, binning: Binning = "width", pca: int | None = None
) -> PartyTable:
    """The codes of one party.

    Args:
        name: The party.
        X: Its features (see `columns_of`).
        bins: Bins per numeric feature, at least 2.
        binning: "width" or "quantile".
        pca: Replace the features by so many principal components before binning.

    Raises:
        InputError: No samples, a bad argument, or a column that cannot be coded.
    """
    check_binning(bins, binning)
    columns = columns_of(X, name=name)
    features = tuple(columns)
    n_samples = len(columns[features[0]])
    if n_samples == 0:
        raise InputError(f"{name}: expected at least one sample, got none")
    missing = {key: int(column.missing.sum()) for key, column in columns.items()}
    components = None
    reduced: tuple[str, ...] = ()
    if pca is not None:
        components = fit_components(columns, pca, name=name)
        columns = components.scores(columns)
        reduced = (f"{len(columns)} principal components of {len(features)} features",)
    codings = tuple(fit(column, bins=bins, binning=binning) for column in columns.values())
    notes = feature_notes(missing, codings, reduced)
    codes, n_codes = joint_code(
        [coding.codes(column) for coding, column in zip(codings, columns.values(), strict=True)]
    )
    return PartyTable(name, codes, n_codes, features, notes, PartyCoding(codings, components))


def feature_notes(
    missing: Mapping[str, int], codings: Sequence[ColumnCoding], reduced: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """What a person should know about coded features: missing values per column, then constant columns."""
    absent = (
        f"column {name!r} has {n} missing values, a category of their own" for name, n in missing.items() if n
    )
    constant = (f"column {coding.name!r} is constant" for coding in codings if coding.n_codes == 1)
    return (*absent, *reduced, *constant)


def task_table(
    X: object | None,
    n: int,
    *,
    name: str = "task",
    bins: int = 5,
    binning: Binning = "width",
    pca: int | None = None,
) -> PartyTable:
    """The codes of the task party's own features X_t; one code for all `n` samples when it has none."""
    if X is None:
        check_binning(bins, binning)
        return PartyTable(name, np.zeros(n, dtype=np.int64), 1, ())
    return party_table(name, X, bins=bins, binning=binning, pca=pca)


def label_table(y: object, *, bins: int = 5, name: str = "label", binned: bool | None = None) -> PartyTable:
    """The codes of the label Y.

    Text, booleans and whole numbers are classes. Other numbers with more than `bins` distinct
    values, and dates, are a regression label: binned into bins of equal width, which a note says.

    Args:
        y: One column.
        bins: Bins of a regression label, at least 2.
        name: The label's name, for messages.
        binned: True bins whole numbers too, False keeps every distinct number as a class.

    Raises:
        InputError: Missing labels, a constant label, no samples, or more than one column.
    """
    check_bins(bins)
    column = _label_column(y, name)
    summary = label_summary(column.name, bins=bins, binned=binned)
    summary.add(column)
    coding, notes = fit_label(summary, bins=bins)
    codes, n_codes = joint_code([coding.codes(column)])
    check_classes(column.name, n_codes)
    return PartyTable(name, codes, n_codes, (column.name,), notes, PartyCoding((coding,)))


def label_summary(name: str, *, bins: int, binned: bool | None = None) -> Summary:
    """An empty summary of a label, with the rule which numbers are classes (see `label_table`)."""
    check_bins(bins)
    return Summary(name, limit=None if binned is False else bins, keep_integers=not binned)


def fit_label(summary: Summary, *, bins: int) -> tuple[ColumnCoding, tuple[str, ...]]:
    """The coding of a label by its summary, and what to say about it.

    Raises:
        InputError: Missing labels, or no samples.
    """
    check_labels(summary)
    coding = fit_summary(summary, bins=bins)
    if coding.kind == "bins":
        n_bins = len(coding.edges) + 1
        return coding, (
            f"label {summary.name!r} has many distinct numbers and is taken as a regression label: "
            f"binned into {n_bins} bins of equal width",
        )
    if coding.kind == "values" and len(coding.categories) > _MANY_CLASSES:
        return coding, (f"label {summary.name!r} has {len(coding.categories)} whole numbers, each a class",)
    return coding, ()


def check_labels(summary: Summary) -> None:
    """Refuse a label that is not there for every sample.

    Raises:
        InputError: Missing labels, or no samples.
    """
    if summary.n_missing:
        raise InputError(
            f"label {summary.name!r}: expected a label for every sample, got {summary.n_missing} missing"
        )
    if summary.n_samples == 0:
        raise InputError(f"label {summary.name!r}: expected at least one sample, got none")


def check_classes(name: str, n_codes: int) -> None:
    """Refuse a label that tells nothing.

    Raises:
        InputError: It is constant.
    """
    if n_codes < 2:
        raise InputError(f"label {name!r}: expected at least two distinct labels, got a constant one")


def _label_column(y: object, name: str) -> Column:
    if isinstance(y, NumberColumn | TextColumn):
        return y
    if not (isinstance(y, Mapping) or hasattr(y, "__arrow_c_stream__") or hasattr(y, "ndim")):
        return column_of(y, name=name)
    columns = columns_of(y, name=name)
    if len(columns) != 1:
        raise InputError(f"label: expected one column, got {len(columns)}")
    return next(iter(columns.values()))


def joint_code(columns: Sequence[Codes]) -> tuple[Codes, int]:
    """One dense code per distinct tuple, in lexicographic order, and the number of codes.

    Keys are packed into 64 bits and numbered anew whenever the next column would not fit, so any
    number of columns works. Small key ranges are numbered by a table, without sorting.
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        width = int(column.max()) + 1
        if size > 2**62 // width:
            key, size = _dense(key, size)
        key = key * width + column
        size *= width
    return _dense(key, size)


def _dense(key: Codes, size: int) -> tuple[Codes, int]:
    """Keys in 0..size-1, numbered 0, 1, ... in their order."""
    if size <= max(4 * len(key), 1024):
        used = np.zeros(size, dtype=np.bool_)
        used[key] = True
        rank = np.cumsum(used) - 1
        return rank[key], int(rank[-1]) + 1
    distinct, inverse = np.unique(key, return_inverse=True)
    return inverse.astype(np.int64), len(distinct)


def check_ids(ids: object, *, name: str = "id") -> None:
    """Refuse sample ids that do not name each sample once.

    Raises:
        InputError: Some are missing or repeated. The message has their number, never an id.
    """
    column = _label_column(ids, name)
    n_missing = int(column.missing.sum())
    if n_missing:
        raise InputError(f"column {column.name!r}: expected an id for every row, got {n_missing} missing")
    distinct = len(column.categories) if isinstance(column, TextColumn) else len(np.unique(column.values))
    refuse_repeated_ids(column.name, len(column) - distinct, len(column))


def refuse_repeated_ids(name: str, n_repeated: int, n_rows: int) -> None:
    """Refuse ids of which some have been there before.

    Raises:
        InputError: There are such.
    """
    if n_repeated:
        raise InputError(
            f"column {name!r}: expected distinct ids, got {n_repeated} duplicates among {n_rows} rows"
        )
