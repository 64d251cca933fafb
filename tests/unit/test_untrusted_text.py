"""Text written by others, in terminals, logs and spreadsheets."""

from __future__ import annotations

import pytest

from fedvalue.untrusted_text import printable, without_formula


@pytest.mark.parametrize(
    "name",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u00a0=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff201",
    ],
)
def test_a_name_that_a_spreadsheet_would_run_gets_a_quote(name):
    """The list of OWASP, and its members behind a blank."""
    assert without_formula(name) == f"'{name}"


@pytest.mark.parametrize("name", ["", "shop", "a=b", "a - b", "'=1", " shop"])
def test_other_names_stay_as_they_are(name):
    assert without_formula(name) == name


def test_nothing_that_is_not_printable_is_left():
    assert printable("a\x1b[31m\u202e\u2028\x9bb") == "a\\x1b[31m\\u202e\\u2028\\x9bb"
