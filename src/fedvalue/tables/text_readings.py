"""Text that is numbers, dates or times: the same rule for every file and database.

A CSV file contains only text; a Parquet file or a database may have the same values as text or as numbers.
The rule looks at the values, so the same table gives the same codes wherever it comes from:

- Missing: empty text and the usual spellings of "not available" (`MISSING`).
- Numbers: every value is a number, with one decimal mark in all of them (`number_shapes`).
- Names: one number with a leading zero ("02139") makes the whole column categories, as zip codes,
  phone numbers and ids are.
- Dates and times of day in ISO 8601, and dates as 31.12.2024, 12/31/2024, 2024/12/31 or 31-Dec-2024.
- Categories: everything else.

Values with two readings (1,250 is 1250 or 1.25; 03/04/2024 is in March or in April) are settled by other
values of the column, then by the file's decimal mark. If nothing settles them, or they contradict each other,
the column has a `problem` and is refused; so is a column of numbers or dates with a few other texts
(`mixed_values`).
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.errors import InputError
from fedvalue.tables.arrow_columns import one_array
from fedvalue.tables.file_options import DateOrder
from fedvalue.tables.mixed_values import MixedValues
from fedvalue.tables.number_shapes import (
    NumberReading,
    NumberShapes,
    all_match,
    any_true,
    cast_or_none,
    read_numbers,
)

DateReading = Literal["date", "instant", "time", "DD/MM/YYYY", "MM/DD/YYYY", "YYYY/MM/DD", "DD Mon YYYY"]
Reading = NumberReading | DateReading | Literal["text"]

_DATES: tuple[DateReading, ...] = (
    "date", "instant", "time", "YYYY/MM/DD", "DD/MM/YYYY", "MM/DD/YYYY", "DD Mon YYYY"
)  # fmt: skip

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A",
    "NA", "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
"""Text that stands for a missing value: Arrow's list, which is close to that of pandas."""

_HEAD = 64
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MISSING = pa.array(MISSING)
# Each shape with its replacement by year, month and day. Points are never used with the month first.
_WRITTEN_DATES: dict[DateReading, tuple[str, str]] = {
    "DD/MM/YYYY": (r"^\s*(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})", r"\3-0\2-0\1"),
    "MM/DD/YYYY": (r"^\s*(\d{1,2})[/-](\d{1,2})[/-](\d{4})", r"\3-0\1-0\2"),
    "DD Mon YYYY": (r"^\s*(\d{1,2})[/. -]([A-Za-z]{3,9})[/. -](\d{4})", r"\3-0\2-0\1"),
    "YYYY/MM/DD": (r"^\s*(\d{4})[/.](\d{1,2})[/.](\d{1,2})", r"\1-0\2-0\3"),
}


class TextReadings:
    """The readings that fit all text of a column seen so far, in any number of chunks.

    Args:
        decimal: The file's decimal mark (see `CsvDialect.decimal`).
        dates: The order of day and month, if the user has set it.
    """

    def __init__(self, decimal: str = "", dates: DateOrder | None = None) -> None:
        self._numbers: NumberShapes | None = NumberShapes(decimal)
        self._dates = list(_DATES)
        self._order = dates
        self._mixed = MixedValues()
        self._seen = False

    @property
    def reading(self) -> Reading | None:
        """The preferred reading; None before the first value, "text" where there is a `problem`."""
        if not self._seen:
            return None
        if self._numbers is not None:
            return self._numbers.reading or "text"
        if self._order in self._dates:
            return self._order
        return self._dates[0] if self._dates and self.problem is None else "text"

    @property
    def problem(self) -> str | None:
        """Why the column cannot be read without help."""
        if not self._seen:
            return None
        if self._numbers is not None:
            return self._numbers.problem
        if {"DD/MM/YYYY", "MM/DD/YYYY"} <= set(self._dates) and self._order is None:
            return (
                "dates such as 03/04/2024 can be read as 3 April (DD/MM/YYYY) or as March 4 (MM/DD/YYYY); "
                "say which with --dates DD/MM/YYYY or --dates MM/DD/YYYY"
            )
        return None if self._dates else self._mixed.problem

    def look(self, array: Any) -> Any | None:
        """Add a chunk, an Arrow array of text whose missing values are null.

        Returns:
            The chunk as `read_text` gives it under the preferred reading; None without a value.
        """
        if array.null_count == len(array):
            return None
        self._seen = True
        if self._numbers is not None:
            typed = self._numbers.look(array)
            if typed is not None:
                self._dates = []
                self._mixed.add(array, "number")
                return typed if self._numbers.reading is not None else array
            self._numbers = None
        fitting = {reading: read_text(array, reading) for reading in self._dates}
        self._dates = [reading for reading in self._dates if fitting[reading] is not None]
        if self._dates:
            self._mixed.add(array, "date")
        else:
            self._mixed.look(array)
        return next((fitting[reading] for reading in self._dates if reading == self.reading), array)

    def merge(self, other: TextReadings) -> None:
        """Add the values of another part of the column."""
        if not other._seen:
            return
        if not self._seen:
            self._numbers, self._dates, self._order, self._mixed, self._seen = (
                other._numbers, other._dates, other._order, other._mixed, True
            )  # fmt: skip
            return
        if self._numbers is not None and other._numbers is not None:
            self._numbers.merge(other._numbers)
            self._numbers = None if self._numbers.mixed else self._numbers
        else:
            self._numbers = None
        self._dates = [reading for reading in self._dates if reading in other._dates]
        self._mixed.merge(other._mixed)


def read_by_values(array: Any, name: str, decimal: str = "", dates: DateOrder | None = None) -> Any:
    """A column of text as numbers, dates or times if all its values are; otherwise as text.

    Raises:
        InputError: The values have two readings.
    """
    text = without_missing_spellings(one_array(array))
    readings = TextReadings(decimal, dates)
    typed = readings.look(text)
    if readings.problem:
        raise InputError(f"column {name!r}: {readings.problem}")
    return text if typed is None else typed


def without_missing_spellings(array: Any) -> Any:
    """The text with nulls for the spellings of a missing value."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    absent = pc.is_in(array, value_set=_MISSING.cast(array.type))
    return pc.if_else(absent, pa.scalar(None, array.type), array) if any_true(absent) else array


def read_text(array: Any, reading: Reading) -> Any | None:
    """The text as float64, timestamps or durations since midnight; None where a value does not fit."""
    if reading == "text":
        return array
    if reading == "number" or reading == "grouped number" or reading == "decimal comma":  # noqa: PLR1714  mypy
        return read_numbers(array, reading)
    if reading == "date":
        return _instants(array, None)
    if reading == "instant":
        return _instants(array, "UTC")
    if reading == "time":
        midnight, nothing = (pa.scalar(text, array.type) for text in ("1970-01-01 ", ""))
        dates = _instants(pc.binary_join_element_wise(midnight, array, nothing), None)
        return None if dates is None else dates.cast(pa.int64()).cast(pa.duration("us"))
    return _written_dates(array, reading)


def _written_dates(array: Any, reading: DateReading) -> Any | None:
    """Dates with slashes, points or dashes, with or without a time."""
    shape, iso = _WRITTEN_DATES[reading]
    if not all_match(array[:_HEAD], shape):
        return None
    encoded = pc.dictionary_encode(array)
    texts = encoded.dictionary
    if not all_match(texts, shape):
        return None
    texts = pc.replace_substring_regex(texts, shape, iso)
    if reading == "DD Mon YYYY":
        for k, month in enumerate(_MONTHS, start=1):
            texts = pc.replace_substring_regex(texts, rf"(?i)-0{month}[a-z]*-", f"-0{k}-")
    texts = pc.replace_substring_regex(texts, r"-0(\d\d)", r"-\1")
    texts = pc.replace_substring_regex(texts, r" (\d):", r" 0\1:")
    dates = _instants(pc.utf8_trim_whitespace(texts), None)
    return None if dates is None else dates.take(encoded.indices)


def _instants(array: Any, zone: str | None) -> Any | None:
    instants = cast_or_none(array, pa.timestamp("us", tz=zone))
    if instants is not None:
        return instants
    finer = cast_or_none(array, pa.timestamp("ns", tz=zone))
    return None if finer is None else finer.cast(pa.timestamp("us", tz=zone), safe=False)
