"""The label: classes or amounts, and what is wrong with it.

Text and booleans are classes. Numbers are classes when they are whole and at most `MOST_CLASSES` of
them are different, or when there are no more different ones than bins. Other numbers, and dates, are
amounts and are cut into bins. Naming the label as categorical makes any label classes.
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
"""A class with more than this part of the rows is pointed out."""

RARE_CLASS = 10
"""A class with fewer rows is pointed out."""

LEAK = 0.01
"""A column that leaves at most this part of the errors of guessing the most frequent label reproduces it."""


def fit_label(summary: ColumnSummary, settings: CodingSettings) -> tuple[ColumnCoder, ColumnCoding]:
    """The coder of a label, and how it codes.

    Raises:
        InputError: No samples, or missing labels.
    """
    check_labels(summary)
    if _is_amount(summary, settings.bins_of_label):
        coder = fit_bins(summary, bins=settings.bins_of_label, binning=settings.binning)
        return coder, describe_column("label", coder, summary, "amount")
    coder = fit_classes(summary)
    return coder, describe_column("label", coder, summary, "class")


def _is_amount(summary: ColumnSummary, bins: int) -> bool:
    if summary.is_text is not False:
        return False
    n_distinct = summary.n_distinct
    whole = summary.whole and not summary.scale
    return n_distinct is None or n_distinct > (max(bins, MOST_CLASSES) if whole else bins)


def check_labels(summary: ColumnSummary) -> None:
    """Refuse a label that some samples lack.

    Raises:
        InputError: Missing labels, or no samples.
    """
    if summary.n_samples == 0:
        raise InputError(f"label {summary.name!r}: at least one row is needed, got none")
    if summary.n_missing:
        raise InputError(
            f"label {summary.name!r}: {summary.n_missing:,} of {summary.n_samples:,} rows have no label; "
            "leave them out, or use --clean-labels"
        )


def check_classes(name: str, n_codes: int) -> None:
    """Refuse a constant label.

    Raises:
        InputError: It is constant.
    """
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
    """Mark the columns of data parties that reproduce the label, which comes first.

    Each row's label is guessed as the most frequent one among the other rows of the same code. A column
    that leaves at most `LEAK` of the errors of guessing the most frequent label of all reproduces it. Labels
    that differ only in case or blanks count as one here, whether or not they are cleaned.
    """
    leaks = _leaks(counts, one_spelling_each(counts.label, codings[0].categories))
    return tuple(
        replace(coding, reproduces_label=True) if (coding.party, coding.name) in leaks else coding
        for coding in codings
    )


def leak_warnings(codings: Iterable[ColumnCoding]) -> tuple[str, ...]:
    """The columns of data parties that reproduce the label, one sentence each."""
    return tuple(
        f"column {coding.name!r} of party {coding.party!r} reproduces the label: check that it is known "
        "before the label is"
        for coding in codings
        if coding.reproduces_label
    )


def one_spelling_each(label: np.ndarray, categories: Sequence[str]) -> np.ndarray:
    """One code for all spellings of a class; codes stay as they are where some have no name."""
    if int(label.max()) >= len(categories):
        return label
    _, classes = np.unique([one_spelling(name) for name in categories], return_inverse=True)
    return np.asarray(classes[label])


def _leaks(counts: JointCounts, label: np.ndarray) -> set[tuple[str, str]]:
    """Party and name of each column that reproduces the label."""
    label, weight = np.unique(label, return_inverse=True)[1], counts.count
    n_labels = int(label.max()) + 1
    errors = counts.n_samples - int(np.bincount(label, weight).max())
    leaks = set()
    for k, party in enumerate(counts.names):
        codes = counts.parties[:, k]
        book = None if counts.codebooks is None else counts.codebooks[k]
        columns = [(party, codes)] if book is None else zip(book.features, book.codes[codes].T, strict=True)
        for feature, code in columns:
            if n_labels > 1 and _errors_left_out(code, label, weight, n_labels) <= LEAK * errors:
                leaks.add((party, feature))
    return leaks


def reproduces_label(code: np.ndarray, label: np.ndarray) -> bool:
    """Whether a column leaves at most `LEAK` of the errors of guessing the most frequent label."""
    _, classes = np.unique(label, return_inverse=True)
    n_labels = int(classes.max()) + 1
    errors = len(label) - int(np.bincount(classes).max())
    weight = np.ones(len(label), dtype=np.int64)
    return _errors_left_out(code, classes, weight, n_labels) <= LEAK * errors


def _errors_left_out(code: np.ndarray, label: np.ndarray, weight: np.ndarray, n_labels: int) -> int:
    """Rows whose label is not the most frequent one among the other rows of their code."""
    place = np.unique(code, return_inverse=True)[1]
    table = np.zeros((int(place.max()) + 1, n_labels), dtype=np.int64)
    np.add.at(table, (place, label), weight)
    ordered = np.sort(table, axis=1)
    most, second = ordered[:, -1:], ordered[:, -2:-1]
    # Without the row itself, its label still wins if its count minus one exceeds every other label's.
    others = np.where(table == most, second, most)
    right = np.where(table - 1 > others, table, 0)
    return int(table.sum() - right.sum())
