"""`fedvalue report` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.statistics.tables import informative_and_not


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("report")
    value_counts(informative_and_not(200), ValuationSettings(coalitions=True)).to_json(where / "result.json")
    (where / "prices.csv").write_text("strong,100\nweak,50\nnoise,5\nrows,5\n")
    (where / "corrupt.json").write_text("{")
    return where


def test_report_is_written(folder):
    ran = fedvalue("report", "result.json", "-o", "report.html", cwd=folder)
    assert (ran.code, ran.out) == (0, "")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<h1>Invite strong" in page
    assert "Whom to invite" in page


def test_prices_and_budget_are_in_the_report(folder):
    ran = fedvalue_here(
        "report", "result.json", "-o", "priced.html", "--prices", "prices.csv", "--budget", "120", cwd=folder
    )
    assert ran.code == 0
    assert "With a budget of 120" in (folder / "priced.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["corrupt.json", "-o", "r.html"], "not valid JSON"),
        (["missing.json", "-o", "r.html"], "cannot read"),
        (["result.json", "-o", "no/such/folder.html"], "cannot write"),
        (["result.json", "-o", "r.docx"], "an .html or a .pdf file"),
        (["result.json", "-o", "r.html", "--peers", "."], "--peers goes with a certificate"),
        (["result.json", "-o", "r.html", "--budget", "5"], "--budget needs --prices"),
        (["result.json", "-o", "r.html", "--prices", "prices.csv", "--budget", "-5"], "must not be negative"),
    ],
)
def test_every_mistake_is_one_clear_line(folder, arguments, message):
    ran = fedvalue_here("report", *arguments, cwd=folder)
    assert ran.code == 3
    assert message in ran.err
    assert not (folder / "r.html").exists()
