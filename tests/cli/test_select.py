"""`fedvalue select` as a user meets it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.statistics.tables import informative_and_not


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result, the table behind it, and prices."""
    where = tmp_path_factory.mktemp("select")
    counts = informative_and_not(300)
    value_counts(counts, ValuationSettings(coalitions=True)).to_json(where / "result.json")
    rows = np.column_stack([counts.label, counts.parties]).tolist()
    lines = ["label,strong,weak,noise,rows", *(f"{a},c{b},c{c},c{d},r{e}" for a, b, c, d, e in rows)]
    (where / "table.csv").write_text("\n".join(lines) + "\n")
    (where / "prices.csv").write_text("party,price\nstrong,1000\nweak,500.50\nnoise,20\nrows,5\n")
    return where


def test_result_says_whom_to_invite(folder):
    ran = fedvalue_here(
        "select", folder / "result.json", "--prices", folder / "prices.csv", "--budget", "1200"
    )
    assert ran.code == 0
    assert ran.out.startswith("With a budget of 1,200, invite strong for 1,000: it ")
    assert "over budget" in ran.out  # weak
    assert "undecided" in ran.out or "adds nothing" in ran.out  # noise and rows
    assert "every set of parties was compared" in ran.out


def test_going_by_the_papers_value_is_warned_about(folder):
    ran = fedvalue_here(
        "select", folder / "result.json", "--prices", folder / "prices.csv", "--budget", "9000",
        "--by", "shapley-cmi",
    )  # fmt: skip
    assert "rows" in ran.out.splitlines()[0]
    assert "Warning: Shapley-CMI also counts what is memorised" in ran.out


@pytest.mark.parametrize("by", ["learnable", "shapley-cmi"])
def test_a_party_with_a_leaked_label_is_to_be_checked_first(tmp_path, by):
    """The table does not say "invite" below a warning not to; by the paper's value there is a warning too."""
    with (tmp_path / "t.csv").open("w") as file:
        file.write("y,loss,other\n" + "".join(f"{k % 2},{k % 2},{k % 3}\n" for k in range(300)))
    (tmp_path / "prices.csv").write_text("loss,1\nother,1\n")
    ran = fedvalue_here(
        "select", "t.csv", "--label", "y", "--each", "--prices", "prices.csv", "--budget", "1", "--by", by,
        cwd=tmp_path,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "column 'loss' of loss reproduces the label" in ran.out
    row = next(line for line in ran.out.splitlines() if line.strip().startswith("loss  "))
    assert row.rstrip().endswith("check first")


def test_json_stands_alone_and_has_the_curve(folder):
    ran = fedvalue(
        "select", folder / "result.json", "--prices", folder / "prices.csv", "--budget", "2000", "--json", "-"
    )
    found = json.loads(ran.out)
    assert found["schema"] == "fedvalue.selection/2"
    assert found["parties"][0] == "strong"
    assert found["parties"] == [step["party"] for step in found["steps"] if step["invited"]]
    assert Decimal(found["cost"]) == sum(Decimal(s["price"]) for s in found["steps"] if s["invited"])
    assert Decimal(found["curve"][0]["cost"]) == 0


def test_table_is_valued_subset_by_subset(folder):
    """The same answer from the table as from the result made of it."""
    arguments = ("--prices", folder / "prices.csv", "--budget", "2000", "--json", "-")
    from_data = fedvalue_here("select", folder / "table.csv", "--label", "label", "--each", *arguments)
    from_result = fedvalue_here("select", folder / "result.json", *arguments)
    assert from_data.code == 0
    one, two = json.loads(from_data.out), json.loads(from_result.out)
    assert one["parties"] == two["parties"]
    assert one["value"] == pytest.approx(two["value"], abs=1e-12)


def test_selection_is_written_to_a_file(folder, tmp_path):
    ran = fedvalue_here(
        "select", folder / "result.json", "--prices", folder / "prices.csv", "--budget", "0",
        "--json", tmp_path / "s.json",
    )  # fmt: skip
    assert ran.out.startswith(
        "With a budget of 0, nobody can be invited: it leaves no room for strong and weak"
    )
    assert json.loads((tmp_path / "s.json").read_text())["parties"] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--budget": "-3"}, "the budget must not be negative, got -3"),
        ({"--budget": "plenty"}, "must be an amount"),
        ({"--prices": "short.csv"}, "no price for 'noise', 'rows'"),
        ({"--prices": "missing.csv"}, "cannot read"),
        ({"source": "corrupt.json"}, "not valid JSON"),
        (
            {"source": "other.json"},
            "expected a document of schema 'fedvalue.result/2', got 'fedval",
        ),
        ({"source": "missing.json"}, "cannot read"),
        ({"--party": "a=b"}, "needs --label too"),
    ],
)
def test_every_mistake_is_one_clear_line(folder, change, message):
    (folder / "short.csv").write_text("strong,1\nweak,1\n")
    (folder / "corrupt.json").write_text('{"schema": "fedvalue.res')
    (folder / "other.json").write_text('{"schema": "fedvalue.result/9"}')
    given = {"source": "result.json", "--prices": "prices.csv", "--budget": "1", **change}
    source = given.pop("source")
    flat = [text for pair in given.items() for text in pair]
    ran = fedvalue_here("select", source, *flat, cwd=folder)
    assert ran.code == 3
    assert message in ran.err
    assert ran.out == ""
