"""Text that is numbers, dates or times: one rule for every file and database.

A CSV file holds nothing but text; a Parquet file or a database may hold the same values as text or as
numbers. The rule looks at the values, so the same table gives the same codes wherever it comes from:

- Missing: empty text and the usual spellings of "not available" (`MISSING`).
- Numbers: every value is a decimal number. A comma is the decimal mark when no value has a point and
  at least one comma cannot separate thousands ("1,5"; "1,250" could be either and proves nothing).
- Names: one number with a leading zero ("02139") makes the whole column categories, as zip codes,
  phone numbers and ids are.
- Dates and times of day in ISO 8601.
- Categories: everything else.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.tables.arrow_columns import one_array

Reading = Literal["number", "decimal comma", "date", "instant", "time", "text"]

# In the order of preference; text always fits.
_READINGS: tuple[Reading, ...] = ("number", "decimal comma", "date", "instant", "time")

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A",
    "NA", "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
"""Text that stands for a missing value: Arrow's list, which is close to that of pandas."""

_HEAD = 64
_MISSING = pa.array(MISSING)
_DECIMAL_COMMA = r"^\s*[-+]?(?:\d*,(?:\d{1,2}|\d{4,})|\d{4,},\d+|0?,\d+)(?:[eE][-+]?\d+)?\s*$"


class TextReadings:
    """The readings that fit all text of a column seen so far, in any number of chunks."""

    def __init__(self) -> None:
        self._fitting = list(_READINGS)
        self._comma_proven = False
        self._seen = False

    @property
    def reading(self) -> Reading | None:
        """The preferred reading; None before the first value."""
        if not self._seen:
            return None
        for reading in self._fitting:
            if reading != "decimal comma" or self._comma_proven:
                return reading
        return "text"

    def look(self, array: Any) -> Any | None:
        """Take in one more chunk, an Arrow array of text whose missing values are null.

        Returns:
            The chunk as `read_text` gives it under the preferred reading; None without a value.
        """
        if array.null_count == len(array):
            return None
        self._seen = True
        numbers = read_text(array, "number") if "number" in self._fitting else None
        if numbers is not None:
            commas = "decimal comma" in self._fitting and not _any(pc.match_substring(array, "."))
            self._fitting = ["number", "decimal comma"] if commas else ["number"]
            return numbers
        others: list[Reading] = [reading for reading in self._fitting if reading != "number"]
        fitting = {reading: read_text(array, reading) for reading in others}
        self._fitting = [reading for reading, typed in fitting.items() if typed is not None]
        if "decimal comma" in self._fitting and not self._comma_proven:
            self._comma_proven = _any(pc.match_substring_regex(array, _DECIMAL_COMMA))
        assert self.reading is not None
        return fitting.get(self.reading, array)

    def merge(self, other: TextReadings) -> None:
        """Take in what another part of the column has shown."""
        self._fitting = [reading for reading in self._fitting if reading in other._fitting]
        self._comma_proven |= other._comma_proven
        self._seen |= other._seen


def read_by_values(array: Any) -> Any:
    """A whole column of text as numbers, dates or times where its values are such; else as text."""
    text = without_missing_spellings(one_array(array))
    typed = TextReadings().look(text)
    return text if typed is None else typed


def without_missing_spellings(array: Any) -> Any:
    """The text with null for every spelling of a missing value."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    absent = pc.is_in(array, value_set=_MISSING.cast(array.type))
    return pc.if_else(absent, pa.scalar(None, array.type), array) if _any(absent) else array


def read_text(array: Any, reading: Reading) -> Any | None:
    """The text as float64, timestamps or durations since midnight; None where a value does not fit."""
    if reading == "text":
        return array
    if reading == "number":
        return _numbers(array)
    if reading == "decimal comma":
        points = _any(pc.match_substring(array, "."))
        return None if points else _numbers(pc.replace_substring(array, ",", "."))
    if reading == "date":
        return _instants(array, None)
    if reading == "instant":
        return _instants(array, "UTC")
    midnight, nothing = (pa.scalar(text, array.type) for text in ("1970-01-01 ", ""))
    dates = _instants(pc.binary_join_element_wise(midnight, array, nothing), None)
    return None if dates is None else dates.cast(pa.int64()).cast(pa.duration("us"))


def _numbers(array: Any) -> Any | None:
    zeros = array.filter(pc.starts_with(array, "0"))
    if _any(pc.match_substring_regex(zeros, "^0[0-9]")):
        return None
    numbers = _cast(array, pa.float64())
    if numbers is not None:
        return numbers
    trimmed = pc.utf8_trim_whitespace(array)
    return None if trimmed.equals(array) else _numbers(trimmed)


def _instants(array: Any, zone: str | None) -> Any | None:
    instants = _cast(array, pa.timestamp("us", tz=zone))
    if instants is not None:
        return instants
    finer = _cast(array, pa.timestamp("ns", tz=zone))
    return None if finer is None else finer.cast(pa.timestamp("us", tz=zone), safe=False)


def _cast(array: Any, kind: Any) -> Any | None:
    try:
        array[:_HEAD].cast(kind)  # Arrow's cast goes on after an error, and each one costs a microsecond
        return array.cast(kind)
    except pa.ArrowInvalid:
        return None


def _any(mask: Any) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())
