"""`fedvalue payout` as a bookkeeper meets it."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest

from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.statistics.tables import informative_and_not


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("payout") / "result.json"
    value_counts(informative_and_not(300), ValuationSettings(coalitions=True)).to_json(path)
    return path


def test_pot_is_divided_to_the_cent_and_memorisers_get_nothing(result):
    ran = fedvalue("payout", result, "--pot", "100000", "--csv", "-")
    rows = {row["party"]: row for row in csv.DictReader(io.StringIO(ran.out))}
    assert sum(Decimal(row["amount"]) for row in rows.values()) == Decimal("100000.00")
    assert rows["rows"]["amount"] == "0.00"
    assert rows["strong"]["rank"] == "1"


def test_paying_by_the_papers_value_warns_who_is_paid_for_memorised_value(result):
    ran = fedvalue_here("payout", result, "--pot", "100000", "--by", "shapley-cmi")
    assert "Warning: rows would be paid" in ran.out
    assert "Warning: strong" not in ran.out


def test_paper_value_pays_row_numbers_most(result):
    """What the default protects from."""
    ran = fedvalue_here("payout", result, "--pot", "100000", "--by", "shapley-cmi", "--json", "-")
    shares = {share["name"]: Decimal(share["amount"]) for share in json.loads(ran.out)["shares"]}
    assert max(shares, key=shares.get) == "rows"


def test_table_shows_amounts_ties_and_stability(result, tmp_path):
    ran = fedvalue_here(
        "payout", result, "--pot", "1000", "--floor", "10", "--cap", "900",
        "--csv", tmp_path / "p.csv", "--json", tmp_path / "p.json",
    )  # fmt: skip
    assert ran.code == 0
    assert "1,000.00" in ran.out
    assert "floor" in ran.out
    assert "would bring without the others" in ran.out
    assert json.loads((tmp_path / "p.json").read_text())["pot"] == "1000.00"
    assert (tmp_path / "p.csv").read_text().startswith("party,amount")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pot", "-1"], "the pot must not be negative"),
        (["--pot", "1.001"], "whole cents"),
        (["--pot", "100", "--cap", "1"], "less than the pot of 100.00"),
        (["--pot", "100", "--floor", "30"], "more than the pot of 100.00"),
        (["--pot", "100", "--by", "votes"], "by must be one of learnable, shapley-cmi"),
        (["--pot", "100", "--csv", "-", "--json", "-"], "only one of --csv and --json"),
    ],
)
def test_every_mistake_is_one_clear_line(result, arguments, message):
    ran = fedvalue_here("payout", result, *arguments)
    assert ran.code == 3
    assert message in ran.err
    assert ran.out == ""


def test_result_without_learnable_values_says_what_to_do(tmp_path):
    value_counts(informative_and_not(60), ValuationSettings(statistics=False)).to_json(
        tmp_path / "plain.json"
    )
    ran = fedvalue_here("payout", tmp_path / "plain.json", "--pot", "10")
    assert ran.code == 3
    assert "decide by shapley-cmi" in ran.err


def test_a_table_in_place_of_a_result_is_named_with_the_remedy(tmp_path):
    (tmp_path / "bank.csv").write_text("customer,defaulted\nA,no\n")
    for command in (
        ["payout", "bank.csv", "--pot", "10"],
        ["compare", "bank.csv", "bank.csv"],
        ["report", "bank.csv", "-o", "page.html"],
    ):
        ran = fedvalue_here(*command, cwd=tmp_path)
        assert ran.code == 3
        assert "bank.csv is a table: `fedvalue value` with --json FILE makes a result of it" in ran.err


def test_a_table_in_place_of_a_certificate_is_named(tmp_path):
    (tmp_path / "bank.csv").write_text("customer,defaulted\nA,no\n")
    ran = fedvalue_here("audit", "verify", "bank.csv", cwd=tmp_path)
    assert ran.code == 4
    assert "bank.csv is neither an audit log (*.jsonl) nor a certificate" in ran.err


def test_broken_results_are_refused(tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("not json")
    ran = fedvalue_here("payout", broken, "--pot", "10")
    assert ran.code == 3
    assert "not valid JSON" in ran.err
    broken.write_text('{"schema": "fedvalue.result/2"}')
    ran = fedvalue_here("payout", broken, "--pot", "10")
    assert ran.code == 3
    assert "missing required field" in ran.err
