"""How each column was coded, for people: the facts and what looks wrong.

Warnings state facts about the values, not verdicts on their owner. They contain numbers and column names,
never a value of a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedvalue.documents import Document
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_coder import ColumnCoder, fit_column
from fedvalue.tables.column_summary import ColumnSummary

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["number", "date", "time", "category", "amount", "class", "component"]

FULL_BIN = 0.95
"""A column with at least this share of its rows in one code says little about the others."""

ID_ROWS = 50
"""Fewest rows in which a column can look like an id."""

ID_SHARE = 0.5
"""A text column with more distinct values per row than this looks like an id."""

MOSTLY_MISSING = 0.5
WORDS = 8
"""Bins or categories that are spelled out in words."""
SHOWN_CODES = 20
"""Codes whose rows and names are listed; a column with more lists the most frequent categories."""

_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)*|[.,]\d+)([eE][-+]?\d+)?\s*")
_SLASHED_DATE = re.compile(r"\s*(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(\s.*)?")
_NAMED_NUMBER = re.compile(
    r"zip|postal|postcode|plz|phone|iban|(^|[_\W])(id|code|key|sku|no|nr)($|[_\W])", re.I
)


class ColumnCoding(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How one column became codes.

    Args:
        party: Its owner; "label" for the label and "task" for the task party's features.
        kind: "number", "date", "time" or "category"; of a label "class" or "amount"; "component" of a PCA.
        n_distinct: Distinct values; None when there are more than 32,768 numbers.
        coding: The bins or categories in words.
        n_missing: Rows without a value; they share one code.
        largest: Fraction of the rows in the most frequent code.
        edges: Inner edges of the bins, closed on the right; dates as ISO text.
        categories: Names of the codes that are not bins, the most frequent where there are many.
        counts: Rows of each bin, or of each of these categories.
        n_merged: Rare categories that share the code "other".
        reproduces_label: It predicts the label nearly without errors, as a leaked label does.
        label_errors_left: Errors of guessing the label by this column alone, as a fraction of those of the
            most frequent label; only where few are left and it does not reproduce the label.
        warnings: One sentence each.
    """

    party: str
    name: str
    kind: Kind
    n_codes: int
    coding: str = ""
    n_distinct: int | None = None
    n_missing: int = 0
    largest: float = 0.0
    edges: tuple[float | str, ...] = ()
    categories: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    n_merged: int = 0
    reproduces_label: bool = False
    label_errors_left: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodedColumns:
    """Coded columns before they are valued; the label comes first."""

    n_samples: int
    columns: tuple[ColumnCoding, ...]
    warnings: tuple[str, ...]


def fit_feature(
    party: str, summary: ColumnSummary, settings: CodingSettings, kind: Kind | None = None
) -> tuple[ColumnCoder, ColumnCoding]:
    """The coder of a column of features, and how it codes."""
    coder = fit_column(summary, bins=settings.bins, binning=settings.binning)
    return coder, describe_column(party, coder, summary, kind)


def describe_column(
    party: str, coder: ColumnCoder, summary: ColumnSummary, kind: Kind | None = None
) -> ColumnCoding:
    """The report of a column that was coded by its summary."""
    rows = coder.rows_per_code(summary)
    names, counts = _names(coder), rows[coder.plain_codes]
    if len(names) > SHOWN_CODES:
        shown = np.argsort(-counts, kind="stable")[:SHOWN_CODES]
        names, counts = [names[k] for k in shown], counts[shown]
    return ColumnCoding(
        party=party,
        name=coder.name,
        kind=kind or ("category" if coder.kind == "categories" else coder.scale or "number"),
        n_codes=coder.n_codes,
        coding=_in_words(coder, summary),
        n_distinct=summary.n_distinct,
        n_missing=summary.n_missing,
        largest=float(rows.max() / rows.sum()) if rows.sum() else 0.0,
        edges=tuple(_shown(edge, coder.scale) for edge in coder.edges),
        categories=tuple(names),
        counts=tuple(counts.tolist()) if len(coder.edges) < SHOWN_CODES else (),
        n_merged=0 if coder.other is None else len(summary.categories) - len(coder.categories),
        warnings=tuple(_warnings(coder, summary, rows, is_label=kind in ("class", "amount"))),
    )


def _in_words(coder: ColumnCoder, summary: ColumnSummary) -> str:
    if coder.kind == "bins":
        edges = [_shown(edge, coder.scale) for edge in coder.edges]
        names = [f"≤ {edge if isinstance(edge, str) else format(edge, ',.6g')}" for edge in edges]
        unit, last = " bins", ["above"]
    else:
        merged = len(summary.categories) - len(coder.categories)
        names, unit = _names(coder), ""
        last = [] if coder.other is None else [f"other ({merged:,} rare)"]
    n_more = len(names) - WORDS
    more = [f"{n_more:,} more{unit}"] if n_more > 0 else []
    return " | ".join([*names[:WORDS], *more, *last])


def _names(coder: ColumnCoder) -> list[str]:
    if coder.kind == "categories":
        return list(coder.categories)
    return [str(_shown(value, coder.scale)) for value in coder.values]


def _shown(number: float, scale: str) -> float | str:
    """A number as people write it."""
    if scale == "date":
        return str(np.datetime64(int(number), "us")).removesuffix("T00:00:00.000000").removesuffix(".000000")
    if scale == "time":
        return str(np.timedelta64(int(number), "us").astype("timedelta64[ms]"))
    return int(number) if float(number).is_integer() and abs(number) < 2**53 else number


def _warnings(
    coder: ColumnCoder, summary: ColumnSummary, rows: np.ndarray, *, is_label: bool
) -> Iterable[str]:
    if coder.n_codes <= 1:
        yield "the same code in every row"
    elif not is_label and rows.max() >= FULL_BIN * rows.sum():
        what = "bin" if coder.kind == "bins" else "category"
        yield f"{_percent(rows.max() / rows.sum())} of the rows in one {what}"
    if summary.n_missing > MOSTLY_MISSING * summary.n_samples:
        yield f"{_percent(summary.n_missing / summary.n_samples)} of the values are missing"
    if summary.is_text:
        yield from _text_warnings(summary)
    elif summary.is_text is False and not summary.scale:
        yield from _number_warnings(coder, summary)


def _text_warnings(summary: ColumnSummary) -> Iterable[str]:
    n_distinct = len(summary.categories)
    n_numbers = sum(_NUMBER.fullmatch(value) is not None for value in summary.categories)
    if n_distinct / 2 <= n_numbers < n_distinct:
        n_words = n_distinct - n_numbers
        yield f"mixed numbers and text: {n_words:,} of {n_distinct:,} different values are not numbers"
    elif n_numbers == n_distinct and any("," in value for value in summary.categories):
        yield "numbers with commas that may separate decimals or thousands: read as text"
    elif order := _date_order(summary.categories):
        yield f"looks like a date in {order}: read as text; write dates as YYYY-MM-DD"
    elif summary.n_present >= ID_ROWS and n_distinct > ID_SHARE * summary.n_present:
        yield f"looks like an id: {n_distinct:,} different values in {summary.n_present:,} rows"


def _date_order(values: Iterable[str]) -> str:
    """The order of day and month in slashed or dotted dates; empty if any value is not such a date."""
    parts = [part.groups() if (part := _SLASHED_DATE.fullmatch(value)) else None for value in values]
    dates = [part for part in parts if part is not None]
    if not dates or len(dates) < len(parts):
        return ""
    mark = dates[0][1]
    firsts, seconds = ([int(date[k]) for date in dates] for k in (0, 2))
    if max(firsts) > 31 or max(seconds) > 31:
        return ""
    day_first, month_first = mark.join(("DD", "MM", "YYYY")), mark.join(("MM", "DD", "YYYY"))
    if max(firsts) > 12:
        return day_first
    return month_first if max(seconds) > 12 else f"{day_first} or {month_first}"


def _number_warnings(coder: ColumnCoder, summary: ColumnSummary) -> Iterable[str]:
    if not summary.numbers.whole or coder.kind != "bins":
        return
    if summary.n_distinct == summary.n_present >= ID_ROWS:
        yield f"looks like an id: a different whole number in each of {summary.n_present:,} rows"
    elif _NAMED_NUMBER.search(summary.name):
        yield "its name suggests codes rather than amounts: list it as categorical to keep each number"


def counted(n: int, noun: str) -> str:
    """A number with its noun, as in "1 column" and "3 categories"."""
    plural = "categories" if noun == "category" else f"{noun}s"
    return f"{n:,} {noun if n == 1 else plural}"


def _percent(share: float) -> str:
    return f"{int(share * 1000) / 10:.1f}%"  # rounded down: 99.96% is not all
