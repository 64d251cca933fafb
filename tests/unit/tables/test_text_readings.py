"""Text is numbers, dates or categories by its values alone, in one chunk or many."""

from __future__ import annotations

import datetime as dt
import itertools

import pyarrow as pa
import pytest

from fedvalue.tables.text_readings import (
    MISSING,
    TextReadings,
    read_by_values,
    read_text,
    without_missing_spellings,
)

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
    "points between thousands": (["1.234,5", "1.250", "7"], "decimal comma", [1234.5, 1250.0, 7.0]),
    "commas between thousands": (["1,234.5", "1,250", "7"], "grouped number", [1234.5, 1250.0, 7.0]),
    "millions": (["1,250,000", "1,250"], "grouped number", [1_250_000.0, 1250.0]),
    "blanks between thousands": (["1 250", "1\u202f250,5"], "decimal comma", [1250.0, 1250.5]),
    "Swiss": (["1'250.50", "-3"], "grouped number", [1250.5, -3.0]),
    "dollars": (["$1,250.50", "-$3", "$ 7"], "grouped number", [1250.5, -3.0, 7.0]),
    "euros": (["1.250,50 €", "3 €", "-7€"], "decimal comma", [1250.5, 3.0, -7.0]),
    "percent": (["5%", "12.5 %"], "grouped number", [5.0, 12.5]),
    "Swiss francs": (["CHF 1'250.50", "CHF 3"], "grouped number", [1250.5, 3.0]),
    "percent and fractions": (["5%", "0.12"], "text", ["5%", "0.12"]),
    "two currencies": (["$5", "€7"], "text", ["$5", "€7"]),
    "a unit alone": (["$", "$5"], "text", ["$", "$5"]),
    "three numbers in one": (["1,2,3"], "text", ["1,2,3"]),
    "a word among numbers": (["1", "2", "n/k"], "text", ["1", "2", "n/k"]),
    "hexadecimal": (["0x10", "0x20"], "text", ["0x10", "0x20"]),
    "words": (["b", "a"], "text", ["b", "a"]),
    "American dates": (
        ["01/31/2024", "1/2/2024"],
        "MM/DD/YYYY",
        [dt.datetime(2024, 1, 31), dt.datetime(2024, 1, 2)],
    ),
    "European dates": (
        ["31.01.2024", "1.2.2024"],
        "DD/MM/YYYY",
        [dt.datetime(2024, 1, 31), dt.datetime(2024, 2, 1)],
    ),
    "Chinese dates": (["2024/1/31 9:30"], "YYYY/MM/DD", [dt.datetime(2024, 1, 31, 9, 30)]),
    "no such day": (["31.02.2024"], "text", ["31.02.2024"]),
    "years of two digits": (["01/31/24"], "text", ["01/31/24"]),
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


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["950", "1,250"], "1250"),
        (["1.250", "1,250"], "1250"),
        (["0,5", "0.212"], "some numbers have a decimal comma and others a decimal point"),
        (["03/04/2024", "01/02/2023"], "3 April"),
    ],
)
def test_values_with_two_readings_are_a_problem(values, problem):
    """Whichever chunk they come in; a value that is neither ends the doubt."""
    for chunks in ([values], [[value] for value in values], [[value] for value in values[::-1]]):
        readings = TextReadings()
        for chunk in chunks:
            readings.look(pa.array(chunk))
        assert problem in str(readings.problem)
        readings.look(pa.array(["word"]))
        assert readings.problem is None
        assert readings.reading == "text"


@pytest.mark.parametrize(
    ("values", "decimal", "expected"),
    [
        (["1,250", "2"], ".", [1250.0, 2.0]),
        (["1,250", "2"], ",", [1.25, 2.0]),
        (["1.250", "2"], ",", [1250.0, 2.0]),
        (["1.250", "2"], "", [1.25, 2.0]),
        (["3.5", "1.250"], ",", [3.5, 1.25]),  # a value that can be read in one way only stands
    ],
)
def test_the_decimal_mark_of_the_file_settles_what_its_numbers_leave_open(values, decimal, expected):
    """Never against a number that has one reading only."""
    assert read_by_values(pa.array(values), "x", decimal).to_pylist() == expected


def test_a_person_settles_the_order_of_day_and_month():
    """Unless the month would be beyond 12."""
    text = pa.array(["03/04/2024", "05/06/2024"])
    assert read_by_values(text, "x", dates="MM/DD/YYYY").to_pylist()[0] == dt.datetime(2024, 3, 4)
    assert read_by_values(text, "x", dates="DD/MM/YYYY").to_pylist()[0] == dt.datetime(2024, 4, 3)
    sure = read_by_values(pa.array(["13/04/2024"]), "x", dates="MM/DD/YYYY")
    assert sure.to_pylist() == [dt.datetime(2024, 4, 13)]
