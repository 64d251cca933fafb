"""The label: classes or amounts, and warnings about it.

Text and booleans are classes. Numbers are classes if they are whole and at most `MOST_CLASSES` of them are
distinct, or if no more are distinct than there are bins. Other numbers, and dates, are amounts and are cut
into bins. Naming the label as categorical makes any label classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_coder import ColumnCoder, fit_bins, fit_classes
from fedvalue.tables.column_report import ColumnCoding, describe_column
from fedvalue.tables.column_summary import ColumnSummary
from fedvalue.tables.columns import one_spelling

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts

MOST_CLASSES = 20
"""More different whole numbers are amounts: the digits are 10, school grades and wine scores fewer."""

IMBALANCE = 0.95
"""A class with more than this fraction of the rows gets a warning."""

RARE_CLASS = 10
"""A class with fewer rows gets a warning."""

LEAK = 0.01
"""A column that leaves at most this fraction of the errors of a constant guess reproduces the label."""

NEARLY_LEAK = 0.2
"""A column that leaves more errors than that, but at most this fraction, is remarked on."""


def fit_label(summary: ColumnSummary, settings: CodingSettings) -> tuple[ColumnCoder, ColumnCoding]:
    """The coder of a label, and how it codes.

    Raises:
        InputError: No samples, or missing labels.
    """
    check_labels(summary, cleaned=settings.clean_labels)
    if _is_amount(summary, settings.bins_of_label):
        coder = fit_bins(summary, bins=settings.bins_of_label, binning=settings.binning)
        return coder, describe_column("label", coder, summary, "amount")
    coder = fit_classes(summary)
    return coder, describe_column("label", coder, summary, "class")


def _is_amount(summary: ColumnSummary, bins: int) -> bool:
    if summary.is_text is not False:
        return False
    n_distinct = summary.n_distinct
    whole = summary.numbers.whole and not summary.scale
    return n_distinct is None or n_distinct > (max(bins, MOST_CLASSES) if whole else bins)


def check_labels(summary: ColumnSummary, *, cleaned: bool = False) -> None:
    """Refuse a label without rows, or with missing values.

    The command leaves these rows out of files before; `cleaned` labels that still have some come from Python.
    """
    if summary.n_samples == 0:
        raise InputError(f"label {summary.name!r}: at least one row is needed, got none")
    if summary.n_missing:
        raise InputError(
            f"label {summary.name!r}: {summary.n_missing:,} of {summary.n_samples:,} rows have no label; "
            + ("leave them out of every table" if cleaned else "leave them out, or use --clean-labels")
        )


def check_classes(name: str, n_codes: int) -> None:
    """Refuse a constant label."""
    if n_codes < 2:
        raise InputError(f"label {name!r}: all rows have the same label, so there is nothing to predict")


def label_notes(coding: ColumnCoding) -> tuple[str, ...]:
    """How a label that is an amount was cut."""
    if coding.kind != "amount":
        return ()
    return (
        f"label {coding.name!r} is an amount and was cut into {coding.n_codes} bins; "
        "name it as categorical to keep each value as a class",
    )


def label_warnings(coding: ColumnCoding, summary: ColumnSummary) -> tuple[str, ...]:
    """Dirty labels, heavy imbalance and rare classes, one sentence each."""
    warnings = list(_dirty(summary))
    if coding.kind == "class" and coding.largest > IMBALANCE:
        most = coding.categories[int(np.argmax(coding.counts))]
        warnings.append(f"label {coding.name!r}: {coding.largest:.1%} of the rows are {most!r}")
    rare = [
        f"{name!r} ({count})"
        for name, count in zip(coding.categories, coding.counts, strict=False)
        if count < RARE_CLASS and coding.n_codes <= MOST_CLASSES and summary.n_samples >= 10 * RARE_CLASS
    ]
    if coding.kind == "class" and rare:
        warnings.append(f"label {coding.name!r}: few rows have the classes {', '.join(rare)}")
    return tuple(warnings)


def _dirty(summary: ColumnSummary) -> list[str]:
    """Classes that differ only in case or blanks."""
    alike: dict[str, list[str]] = {}
    for category in sorted(summary.categories):
        alike.setdefault(one_spelling(category), []).append(category)
    return [
        f"label {summary.name!r}: {', '.join(map(repr, spellings))} differ only in case or blanks and "
        f"count as {len(spellings)} classes; --clean-labels makes them one"
        for spellings in alike.values()
        if len(spellings) > 1
    ]


def with_leaks(codings: Sequence[ColumnCoding], counts: JointCounts) -> tuple[ColumnCoding, ...]:
    """Mark the columns of data parties that give the label away; the label comes first.

    Each row's label is guessed as the most frequent one among the other rows of the same code. A column
    that leaves at most `LEAK` of the errors of guessing the most frequent label of all reproduces it; one
    that leaves at most `NEARLY_LEAK` of them is remarked on. Labels that differ only in case or blanks are
    one class here, cleaned or not.
    """
    label = merged_spellings(counts.label, codings[0].categories)
    left = _errors_left(counts, label) if label.any() else {}
    return tuple(with_errors_left(coding, left.get((coding.party, coding.name), 1.0)) for coding in codings)


def with_errors_left(coding: ColumnCoding, errors: float) -> ColumnCoding:
    """Mark a column if it leaves few errors (see `errors_left`)."""
    if errors <= LEAK:
        return replace(coding, reproduces_label=True)
    return replace(coding, label_errors_left=errors) if errors <= NEARLY_LEAK else coding


def leak_warnings(codings: Iterable[ColumnCoding]) -> tuple[str, ...]:
    """The columns of data parties that give the label away, one sentence each."""
    warnings = []
    for coding in codings:
        column = f"column {coding.name!r}" + (f" of party {coding.party!r}" if coding.party else "")
        if coding.reproduces_label:
            warnings.append(f"{column} reproduces the label: check that it is known before the label is")
        elif coding.label_errors_left is not None:
            warnings.append(
                f"{column} alone avoids {1 - coding.label_errors_left:.0%} of the errors of guessing the "
                "label: is it too good to be known beforehand?"
            )
    return tuple(warnings)


def merged_spellings(label: np.ndarray, categories: Sequence[str]) -> np.ndarray:
    """Codes from 0 on, the same for all spellings of a class; codes without a name stay apart."""
    if int(label.max()) < len(categories):
        _, classes = np.unique([one_spelling(name) for name in categories], return_inverse=True)
        label = classes[label]
    return np.unique(label, return_inverse=True)[1]


def _errors_left(counts: JointCounts, label: np.ndarray) -> dict[tuple[str, str], float]:
    """`errors_left` of each column, by party and name."""
    left: dict[tuple[str, str], float] = {}
    n_labels = int(label.max()) + 1
    for k, party in enumerate(counts.names):
        cell = counts.parties[:, k].astype(np.int64) * n_labels + label
        rows = np.bincount(cell, counts.count).astype(np.int64)
        present = np.flatnonzero(rows)
        codes, labels = np.divmod(present, n_labels)
        book = None if counts.codebooks is None else counts.codebooks[k]
        columns = [(party, codes)] if book is None else zip(book.features, book.codes[codes].T, strict=True)
        left |= {(party, name): errors_left(code, labels, rows[present]) for name, code in columns}
    return left


def errors_left(code: np.ndarray, label: np.ndarray, rows: np.ndarray) -> float:
    """Errors of guessing the label by a column, as a fraction of those of the most frequent label.

    Labels are numbered from 0 on, at least two of them; `rows` is the number of rows with each pair of code
    and label.
    """
    place = np.unique(code, return_inverse=True)[1]
    table = np.zeros((int(place.max()) + 1, int(label.max()) + 1), dtype=np.int64)
    np.add.at(table, (place, label), rows)
    ordered = np.sort(table, axis=1)
    most, second = ordered[:, -1:], ordered[:, -2:-1]
    # Without the row itself, its label still wins if its count minus one exceeds every other label's.
    others = np.where(table == most, second, most)
    n_right = np.where(table - 1 > others, table, 0).sum()
    return float((table.sum() - n_right) / (table.sum() - table.sum(axis=0).max()))
