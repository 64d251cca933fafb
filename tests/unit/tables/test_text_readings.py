"""Text is numbers, dates or categories by its values alone, in one chunk or many."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from fedvalue.tables.text_readings import MISSING, TextReadings, read_text, without_missing_spellings

CASES = {
    "whole numbers": (["1", "-20", "300"], "number", [1.0, -20.0, 300.0]),
    "fractions": (["1", "2.5", ".5", "5.", "-1e3"], "number", [1.0, 2.5, 0.5, 5.0, -1000.0]),
    "blanks around": ([" 1", "2 ", "3"], "number", [1.0, 2.0, 3.0]),
    "beyond 64 bits": (["1", "99999999999999999999"], "number", [1.0, 1e20]),
    "zero and a fraction": (["0", "0.5"], "number", [0.0, 0.5]),
    "zip codes": (["02139", "94110"], "text", ["02139", "94110"]),
    "zip codes with blanks": ([" 02139", "94110"], "text", [" 02139", "94110"]),
    "decimal commas": (["1,5", "2", "1,250"], "decimal comma", [1.5, 2.0, 1.25]),
    "small decimal commas": (["0,125", "0,250"], "decimal comma", [0.125, 0.25]),
    "thousands or decimals": (["950", "1,250", "2,000"], "text", ["950", "1,250", "2,000"]),
    "points and commas": (["0,5", "0.212"], "text", ["0,5", "0.212"]),
    "both marks": (["1.234,5"], "text", ["1.234,5"]),
    "a word among numbers": (["1", "2", "n/k"], "text", ["1", "2", "n/k"]),
    "hexadecimal": (["0x10", "0x20"], "text", ["0x10", "0x20"]),
    "words": (["b", "a"], "text", ["b", "a"]),
    "slashed dates": (["01/31/2024"], "text", ["01/31/2024"]),
    "a date and a number": (["2024-01-31", "5"], "text", ["2024-01-31", "5"]),
}


@pytest.mark.parametrize(("values", "reading", "expected"), CASES.values(), ids=CASES)
def test_text_reads_as_its_values_suggest(values, reading, expected):
    """In one chunk, and value by value in either order: only the last value may settle it."""
    whole = TextReadings()
    whole.look(pa.array(values))
    assert whole.reading == reading
    assert read_text(pa.array(values), reading).to_pylist() == expected
    for order in (values, values[::-1]):
        one_by_one, merged = TextReadings(), TextReadings()
        for value in order:
            one_by_one.look(pa.array([value]))
            alone = TextReadings()
            alone.look(pa.array([value]))
            merged.merge(alone)
        assert one_by_one.reading == merged.reading == reading


@pytest.mark.parametrize(
    ("values", "reading", "microseconds"),
    [
        (["1970-01-02"], "date", 86_400_000_000),
        (["1970-01-01 00:00:02"], "date", 2_000_000),
        (["1970-01-01T00:00:02.000001999"], "date", 2_000_001),
        (["1970-01-01T01:00:00+01:00"], "instant", 0),
        (["1970-01-01 00:00:02Z"], "instant", 2_000_000),
    ],
)
def test_iso_dates_are_dates(values, reading, microseconds):
    """With time, fraction and zone; nanoseconds are cut off."""
    readings = TextReadings()
    readings.look(pa.array(values))
    assert readings.reading == reading
    assert read_text(pa.array(values), reading).cast(pa.int64()).to_pylist() == [microseconds]


def test_times_of_day_are_times():
    """Minutes or seconds, as time since midnight."""
    readings = TextReadings()
    readings.look(pa.array(["00:01", "00:00:02", None]))
    assert readings.reading == "time"
    times = read_text(pa.array(["00:01", "00:00:02", None]), "time")
    assert times.cast(pa.int64()).to_pylist() == [60_000_000, 2_000_000, None]


def test_spellings_of_missing_values_are_missing():
    """Also where a column has no other value, which then has no reading."""
    text = without_missing_spellings(pa.array([*MISSING, None, "na", "0"]))
    assert text.to_pylist() == [None] * (len(MISSING) + 1) + ["na", "0"]
    readings = TextReadings()
    readings.look(text[: len(MISSING)])
    assert readings.reading is None


def test_a_reading_does_not_depend_on_the_order_of_chunks():
    """Whole numbers fit both decimal marks until a later chunk has one; two marks make text."""
    chunks = [["1", "2"], ["1,5"], ["1,250"], ["2.5"], ["x"]]
    for n in range(1, len(chunks) + 1):
        for some in itertools.combinations(chunks, n):
            found = set()
            for order in itertools.permutations(some):
                readings = TextReadings()
                for chunk in order:
                    readings.look(pa.array(chunk))
                found.add(readings.reading)
            whole = TextReadings()
            whole.look(pa.array([value for chunk in some for value in chunk]))
            assert found == {whole.reading}
