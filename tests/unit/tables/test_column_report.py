"""What is said about each column: how it was coded, and what looks wrong."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import party_table


def report(data, name="x", **settings):
    (coding,) = party_table("shop", {name: data}, CodingSettings(**settings)).columns
    return coding


def test_bins_are_described_by_their_edges_and_rows():
    """Ten numbers and two missing values in five bins of two."""
    coding = report([*range(10), None, None])
    assert (coding.party, coding.name, coding.kind) == ("shop", "x", "number")
    assert (coding.n_codes, coding.n_distinct, coding.n_missing) == (6, 10, 2)
    assert coding.edges == (1, 3, 5, 7)
    assert coding.counts == (2, 2, 2, 2, 2)
    assert coding.coding == "≤ 1 | ≤ 3 | ≤ 5 | ≤ 7 | above"
    assert coding.largest == pytest.approx(1 / 6)
    assert coding.warnings == ()


def test_categories_are_described_by_their_names_and_rows():
    """Few numbers are named, too."""
    coding = report(["b", "a", "b", None])
    assert (coding.kind, coding.categories, coding.counts) == ("category", ("a", "b"), (1, 2))
    assert coding.coding == "a | b"
    assert report([2, 1.5, 2]).categories == ("1.5", "2")


def test_of_many_categories_the_most_frequent_are_listed():
    """Thirty levels of 10 to 39 rows: the twenty with most rows; none is rare."""
    levels = [f"l{k:02}" for k in range(30) for _ in range(10 + k)]
    coding = report(levels)
    assert coding.categories[0] == "l29"
    assert coding.counts == tuple(range(39, 19, -1))
    assert (coding.n_codes, coding.n_merged) == (30, 0)


def test_merged_categories_are_counted():
    """Three of 33 levels have four rows each."""
    levels = [f"l{k:02}" for k in range(33) for _ in range(4 if k < 3 else 10)]
    coding = report(levels)
    assert (coding.n_distinct, coding.n_codes, coding.n_merged) == (33, 31, 3)
    assert coding.coding.startswith("l03 | l04 | ")
    assert coding.coding.endswith(" | l10 | 22 more | other (3 rare)")


def test_dates_have_edges_that_people_read():
    """ISO text, without a time where there is none."""
    days = np.arange("2020-01-01", "2020-01-11", dtype="datetime64[D]")
    coding = report(days)
    assert coding.kind == "date"
    assert coding.edges == ("2020-01-02", "2020-01-04", "2020-01-06", "2020-01-08")


RNG = np.random.default_rng(0)
MONEY = np.append(RNG.gamma(1.0, 100.0, 9_999), 10_000_000.0)


@pytest.mark.parametrize(
    ("name", "data", "settings", "warning"),
    [
        ("balance", MONEY, {"binning": "width"}, "99.9% of the rows in one bin"),
        ("late", [0] * 96 + list(range(1, 5)), {}, "96.0% of the rows in one category"),
        ("x", [7, 7, 7], {}, "the same code in every row"),
        ("x", [None] * 6 + [1, 2, 3, 4], {}, "60.0% of the values are missing"),
        ("ref", [f"c-{k}" for k in range(60)], {}, "looks like an id: 60 different values in 60 rows"),
        ("ref", range(60), {}, "looks like an id: a different whole number in each of 60 rows"),
        ("since", ["01/31/2024", "12/01/2023"], {}, "looks like a date in MM/DD/YYYY"),
        ("since", ["31.01.2024", "01.12.2023"], {}, "looks like a date in DD.MM.YYYY"),
        ("since", ["01/02/24", "03/04/24"], {}, "looks like a date in DD/MM/YYYY or MM/DD/YYYY"),
        ("since", [f"03/{k:02d}/21" for k in range(1, 29)] * 2, {}, "looks like a date in MM/DD/YYYY"),
        (
            "since",
            [f"{k % 12 + 1}/{k % 28 + 1}/{k:02d}" for k in range(60)],
            {},
            "looks like a date in MM/DD/YYYY",
        ),
        ("x", ["1", "2", "3", "n/k"], {}, "mixed numbers and text: 1 of 4 different values are not numbers"),
        ("x", ["1,250", "2,000"], {}, "numbers with commas that may separate decimals or thousands"),
        ("zip_code", [10115, 20095, 50667, 80331, 60311, 70173] * 2, {}, "its name suggests codes"),
        ("PLZ", [10115, 20095, 50667, 80331, 60311, 70173] * 2, {}, "its name suggests codes"),
    ],
)
def test_what_looks_wrong_is_said(name, data, settings, warning):
    """One sentence each, with numbers and without a value of a row."""
    assert any(text.startswith(warning) for text in report(data, name, **settings).warnings)


def test_quantile_bins_leave_nothing_to_say_about_money():
    """The same amounts in quantile bins; a fraction is no id, and 'income' is no code."""
    assert report(MONEY, "balance").warnings == ()
    assert report(np.arange(100) + 0.5, "income").warnings == ()
    assert report(np.repeat(np.arange(50), 2), "income").warnings == ()
