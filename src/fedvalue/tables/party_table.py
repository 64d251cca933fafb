"""One party's features, or the label, as codes.

A party is one player: its joint code numbers the distinct rows of its feature codes, in lexicographic
order, so equal data gives equal codes on every machine. Its codebook leads from the joint code back to
the feature codes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.contingency import Codebook, pack
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_report import ColumnCoding, fit_feature
from fedvalue.tables.column_summary import ColumnSummary
from fedvalue.tables.columns import (
    Column,
    TextColumn,
    column_of,
    columns_of,
    named_columns,
    with_one_spelling,
)
from fedvalue.tables.label import check_classes, fit_label, label_notes, label_warnings
from fedvalue.tables.pca import kept_variance, principal_components

if TYPE_CHECKING:
    from fedvalue.typing import Codes


@dataclass(frozen=True, slots=True, eq=False)
class PartyTable:
    """One code per sample, and where it comes from.

    Args:
        codes: Dense codes, shape (n_samples,).
        n_codes: Number of distinct codes.
        codebook: The feature codes behind each code; None when there is no feature.
        notes: Remarks on the coding, one sentence each.
        warnings: Of a label, one sentence each.
    """

    name: str
    codes: Codes = field(repr=False)
    n_codes: int
    codebook: Codebook | None = field(default=None, repr=False)
    columns: tuple[ColumnCoding, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.codes)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns behind the codes."""
        return () if self.codebook is None else self.codebook.features


def party_table(name: str, X: object, settings: CodingSettings | None = None) -> PartyTable:
    """The codes of one party's features (see `columns_of`).

    Raises:
        InputError: No samples, or a column that cannot be coded.
    """
    settings = settings or CodingSettings()
    columns = columns_of(X, name=name, categorical=settings.categorical)
    if len(next(iter(columns.values()))) == 0:
        raise InputError(f"{name}: at least one row is needed, got none")
    components: dict[str, Column] = {}
    if settings.pca is not None:
        rotate = settings.binning == "width"
        components = principal_components(columns, settings.pca, name=name, rotate=rotate)
    kept = kept_variance(columns, components) if components else 1.0
    texts: dict[str, Column] = {
        key: column for key, column in columns.items() if isinstance(column, TextColumn)
    }
    n_numbers = len(columns) - len(texts)
    if components:
        columns = components | texts
    codes, codings = [], []
    for key, column in columns.items():
        summary = summary_of(column)
        coder, coding = fit_feature(name, summary, settings, "component" if key in components else None)
        codes.append(coder.codes(column))
        codings.append(coding)
    joint, codebook = joined(tuple(columns), codes)
    notes = column_notes(codings)
    if components:
        notes = (f"{name}: {_variance_note(len(components), n_numbers, kept)}", *notes)
    return PartyTable(name, joint, codebook.n_codes, codebook, tuple(codings), notes)


def _variance_note(n_components: int, n_numbers: int, kept: float) -> str:
    """How much of the variance of a party's numbers its components keep; 100% only if they keep all."""
    keep = "1 principal component" if n_components == 1 else f"{n_components} principal components"
    keep += f" of {n_numbers} columns {'keeps' if n_components == 1 else 'keep'}"
    if kept >= 1 - 1e-9:
        return f"{keep} 100% of their variance"
    rest = "what predicts the label may be in the rest: compare with a valuation without --pca"
    return f"{keep} {min(kept, 0.99):.0%} of their variance; {rest}"


def task_table(
    X: object | None, n: int, settings: CodingSettings | None = None, *, name: str = "task"
) -> PartyTable:
    """The codes of the task party's features X_t; a single code for all `n` samples if it has none."""
    if X is None:
        return PartyTable(name, np.zeros(n, dtype=np.int64), 1)
    return party_table(name, X, settings)


def label_table(y: object, settings: CodingSettings | None = None, *, name: str = "label") -> PartyTable:
    """The codes of the label Y, one column or a table of one (`fedvalue.tables.label` says what is a class).

    Raises:
        InputError: Missing labels, a constant label, no samples, or more than one column.
    """
    settings = settings or CodingSettings()
    column = single_column(y, name, settings.categorical)
    if settings.clean_labels:
        column = with_one_spelling(column)
    summary = summary_of(column)
    coder, coding = fit_label(summary, settings)
    codes = pack([coder.codes(column)])
    n_codes = int(codes.max()) + 1
    check_classes(column.name, n_codes)
    warnings = (*column_notes([coding]), *label_warnings(coding, summary))
    return PartyTable(name, codes, n_codes, columns=(coding,), notes=label_notes(coding), warnings=warnings)


def summary_of(column: Column) -> ColumnSummary:
    """The summary of a whole column."""
    summary = ColumnSummary(column.name)
    summary.add(column)
    return summary


def joined(features: Sequence[str], codes: Sequence[Codes]) -> tuple[Codes, Codebook]:
    """The joint code of feature columns, and the features behind each joint code."""
    joint = pack(codes)
    first = np.empty(int(joint.max()) + 1, dtype=np.int64)
    first[joint[::-1]] = np.arange(len(joint) - 1, -1, -1)
    book = np.column_stack([column[first] for column in codes])
    return joint, Codebook(tuple(features), book)


def column_notes(codings: Iterable[ColumnCoding]) -> tuple[str, ...]:
    """Sentences on the coding of missing values and rare categories."""
    notes = []
    for coding in codings:
        if coding.n_missing:
            notes.append(
                f"column {coding.name!r}: {coding.n_missing:,} missing values are a category of their own"
            )
        if coding.n_merged:
            notes.append(f"column {coding.name!r}: {coding.n_merged:,} rare categories are merged into one")
    return tuple(notes)


def column_warnings(codings: Iterable[ColumnCoding]) -> tuple[str, ...]:
    """The warnings of columns as sentences that name them."""
    return tuple(f"column {coding.name!r}: {text}" for coding in codings for text in coding.warnings)


def single_column(data: object, name: str, categorical: Collection[str]) -> Column:
    """One column, from a column or a table of one."""
    if isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__") or hasattr(data, "ndim"):
        columns = named_columns(data, name)
        if len(columns) != 1:
            raise InputError(f"{name}: expected one column, got {len(columns)}")
        name, data = columns[0]
    return column_of(data, name=name, categorical=name in categorical)


def check_ids(ids: object, *, name: str = "id") -> None:
    """Refuse missing or repeated sample ids. The error has their number, never an id."""
    import pyarrow.compute as pc

    column = column_of(ids, name=name, categorical=True)
    assert isinstance(column, TextColumn)
    blank = pc.indices_nonzero(pc.equal(pc.utf8_trim_whitespace(column.categories), ""))
    n_missing = int(np.isin(column.index, [-1, *blank.to_pylist()]).sum())
    if n_missing:
        raise InputError(f"column {name!r}: {n_missing:,} rows have no id")
    refuse_repeated_ids(name, len(column) - len(column.categories), len(column))


def refuse_repeated_ids(name: str, n_repeated: int, n_rows: int) -> None:
    """Refuse ids that occur more than once."""
    if n_repeated:
        raise InputError(
            f"column {name!r}: ids must be distinct, got {n_repeated:,} duplicates among {n_rows:,} rows; "
            "keep one row per id, such as the latest, or sum up the rows of each"
        )
