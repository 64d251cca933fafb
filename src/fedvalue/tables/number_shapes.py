"""Numbers as people and programs write them: decimal points or commas, and marks between thousands.

A value votes for a decimal mark if no other fits: 3.5, 1,250,000 and 1,250.75 for the point; 3,5, 1.250.000
and 1.250,75 for the comma. 1.250 and 1,250 can be either; 17, 1 250 and 1'250 have none.

Amounts may have a unit, a currency or a percent sign, the same in every value; it is dropped. (12.50) and
12.50- are -12.50, as accountants write it.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

NumberReading = Literal["number", "grouped number", "decimal comma"]
Mark = Literal[".", ","]

_OTHER: dict[Mark, Mark] = {".": ",", ",": "."}
_BLANKS = r" \x{00a0}\x{202f}'\x{2019}"  # blanks and apostrophes between thousands
_SIGN, _EXPONENT = r"^[-+]?", r"(?:[eE][-+]?\d+)?$"
_UNIT = r"(?:[€$£¥%]|EUR|USD|GBP|CHF)"
_BEFORE, _AFTER = rf"^([-+]?)\s*{_UNIT}\s*", rf"\s*{_UNIT}$"
_ACCOUNTANT = r"^\((.*\d.*)\)$|^([^-+]*\d[^-+]*)-$"
_HEAD = 64


def _grouped(mark: str) -> str:
    return rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})"


def _shape(point: str, comma: str) -> str:
    """A number with this decimal mark, its thousands perhaps separated by the other mark or by blanks."""
    whole = rf"\d+|{_grouped(comma)}+|{_grouped(f'[{_BLANKS}]')}+"
    return rf"{_SIGN}(?:(?:{whole})(?:{point}\d*)?|{point}\d+){_EXPONENT}"


def _vote(point: str, comma: str) -> str:
    """A number that can only have this decimal mark."""
    fraction = rf"\d*{point}(?:\d{{0,2}}|\d{{4,}})|(?:0|\d{{4,}})?{point}\d+"
    grouped = rf"{_grouped(comma)}{{2,}}|(?:{_grouped(comma)}+|{_grouped(f'[{_BLANKS}]')}+){point}\d*"
    return rf"{_SIGN}(?:(?:{fraction}|{grouped}){_EXPONENT}|\d*{point}\d*[eE])"


_SHAPES: dict[Mark, str] = {".": _shape(r"\.", ","), ",": _shape(",", r"\.")}
_VOTES: dict[Mark, str] = {".": _vote(r"\.", ","), ",": _vote(",", r"\.")}
NUMBER = f"{_SHAPES['.']}|{_SHAPES[',']}"
"""A number with either decimal mark and without a unit."""


class NumberShapes:
    """The decimal and thousands marks of a column, from any number of chunks.

    Args:
        decimal: The file's decimal mark, "." or ","; "?" when it may be either; "" when a point is decimal
            unless a value shows otherwise.
    """

    def __init__(self, decimal: str = "") -> None:
        self._decimals = {decimal}
        self._votes: dict[Mark, bool] = {".": False, ",": False}
        self._marked: dict[Mark, bool] = {".": False, ",": False}
        self._odd = False  # blanks between thousands, or minus signs of accountants
        self._units: set[str] = set()

    @property
    def mixed(self) -> bool:
        """Values have different units, so they are not numbers of one column."""
        return len(self._units) > 1

    @property
    def decimal(self) -> Mark | None:
        """The decimal mark of all numbers so far; None where they leave it open or disagree."""
        if self.proven:
            return self.proven[0] if len(self.proven) == 1 else None
        if not any(self._marked.values()) or self._decimals == {"."}:
            return "."
        if self._decimals == {","}:
            return ","
        return "." if self._decimals == {""} and not self._marked[","] else None

    @property
    def proven(self) -> tuple[Mark, ...]:
        """The decimal marks of values that fit no other mark."""
        return tuple(mark for mark, vote in self._votes.items() if vote)

    @property
    def reading(self) -> NumberReading | None:
        """How to read all numbers so far; None where there is a `problem`."""
        if self.decimal == ",":
            return "decimal comma"
        if self.decimal == ".":
            plain = not self._odd and not self._marked[","] and self._units <= {""}
            return "number" if plain else "grouped number"
        return None

    @property
    def problem(self) -> str | None:
        """Why the numbers cannot be read without help."""
        if self.decimal is not None:
            return None
        if all(self._votes.values()):
            return (
                "some numbers have a decimal comma and others a decimal point; write all of them with the "
                "same mark, or list the column as categorical"
            )
        return (
            "numbers such as 1,250 or 1.250 can be read as 1250 (a mark between thousands) or as 1.25 (a "
            "decimal mark), and no other number of the file settles it; give its decimal mark with --decimal"
        )

    def look(self, array: Any) -> Any | None:
        """Add a chunk of text.

        Returns:
            Its numbers under the reading so far, or the text while there is none. None if a value is not a
            number or has a leading zero.
        """
        typed = _cast(array)
        if typed is None:
            array = pc.utf8_trim_whitespace(array)
            typed = _cast(array)
        if typed is None and _any_match(array, _ACCOUNTANT):
            array = _with_minus(array)
            self._odd = True
        unit = _unit(array) if typed is None else ""
        if unit is None or _leading_zero(array) or not self._units <= {unit}:
            return None
        self._units.add(unit)
        array = _without_unit(array) if unit else array
        fitting: NumberReading = "number"
        if typed is None:
            fitting, typed = "decimal comma", _simple_commas(array)
        if typed is None and not (all_match(array[:_HEAD], NUMBER) and all_match(array, NUMBER)):
            return None
        if typed is None:
            self._odd |= _any_match(array, f"[{_BLANKS}]")
        self._note(array)
        if self.reading == fitting and typed is not None:
            return typed
        return array if self.reading is None else read_numbers(array, self.reading)

    def merge(self, other: NumberShapes) -> None:
        """Add the marks of another part of the column."""
        self._decimals |= other._decimals
        self._odd |= other._odd
        self._units |= other._units
        for mark in _OTHER:
            self._votes[mark] |= other._votes[mark]
            self._marked[mark] |= other._marked[mark]

    def _note(self, array: Any) -> None:
        """Record the marks of these numbers, and the decimal mark they vote for."""
        marked = {mark: any_true(pc.match_substring(array, mark)) for mark in _OTHER}
        for mark in _OTHER:
            self._marked[mark] |= marked[mark]
            # Two marks between thousands vote for the other one, which need not be there.
            if any(marked.values()) and not self._votes[mark]:
                self._votes[mark] = _any_match(array[:_HEAD], _VOTES[mark]) or _any_match(array, _VOTES[mark])


def read_numbers(array: Any, reading: NumberReading) -> Any | None:
    """The text as float64; None where a value does not fit."""
    if reading == "number" and not _leading_zero(array) and (typed := _cast(array)) is not None:
        return typed
    array = pc.utf8_trim_whitespace(array)
    array = array if reading == "number" else bare_numbers(array)
    if _leading_zero(array):
        return None
    if reading == "number":
        return _cast(array)
    if reading == "decimal comma" and (typed := _simple_commas(array)) is not None:
        return typed
    mark: Mark = "," if reading == "decimal comma" else "."
    if not all_match(array, _SHAPES[mark]):
        return None
    thousands = rf"[{_BLANKS}{_OTHER[mark]}]"
    return _cast(pc.replace_substring(pc.replace_substring_regex(array, thousands, ""), ",", "."))


def bare_numbers(array: Any) -> Any:
    """Trimmed text without units, and with the minus sign in front."""
    return _without_unit(_with_minus(array))


def _with_minus(array: Any) -> Any:
    return pc.replace_substring_regex(array, _ACCOUNTANT, r"-\1\2")


def _unit(array: Any) -> str | None:
    """The unit that all values have; "" when none has one, None when some have."""
    first = array.drop_null()[0].as_py()
    match = re.match(rf"[-+]?\s*({_UNIT})|.*?({_UNIT})$", first)
    if match is None:
        return None if _any_match(array, f"{_BEFORE}|{_AFTER}") else ""
    unit = match[1] or match[2]
    shape = re.escape(unit)
    return unit if all_match(array, rf"^[-+]?\s*{shape}|{shape}$") else None


def _without_unit(array: Any) -> Any:
    return pc.replace_substring_regex(pc.replace_substring_regex(array, _BEFORE, r"\1"), _AFTER, "")


def _simple_commas(array: Any) -> Any | None:
    """Numbers with at most one comma and no point; the comma is decimal."""
    if any_true(pc.match_substring(array, ".")):
        return None
    return _cast(pc.replace_substring(array, ",", "."))


def _leading_zero(array: Any) -> bool:
    return _any_match(array.filter(pc.starts_with(array, "0")), "^0[0-9]")


def cast_or_none(array: Any, kind: Any) -> Any | None:
    """The array in another type; None where a value does not fit."""
    try:
        array[:_HEAD].cast(kind)  # Arrow's cast goes on after an error, and each one costs a microsecond
        return array.cast(kind)
    except pa.ArrowInvalid:
        return None


def any_true(mask: Any) -> bool:
    """A mask is true anywhere; null is false."""
    return bool(pc.any(mask, min_count=0).as_py())


def _cast(array: Any) -> Any | None:
    return cast_or_none(array, pa.float64())


def _any_match(array: Any, pattern: str) -> bool:
    return any_true(pc.match_substring_regex(array, pattern))


def all_match(array: Any, pattern: str) -> bool:
    """Every value matches; null does."""
    return bool(pc.all(pc.match_substring_regex(array, pattern), min_count=0).as_py())
