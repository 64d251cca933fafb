"""`fedvalue check`: what was understood of files, as a person and a script see it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.here import fedvalue_here

LENDING = Path(__file__).parents[2] / "examples" / "lending"


def column(file: dict[str, object], name: str) -> dict[str, object]:
    return next(one for one in file["columns"] if one["name"] == name)  # type: ignore[attr-defined,no-any-return]


def test_the_lending_files_are_understood_and_their_traps_named():
    """Types, bins with their fill, label balance, dirty labels, confidence and the match of ids."""
    ran = fedvalue_here(
        "check", "loans.csv", "telco.csv", "shop.xlsx", "vendor.parquet", "utility.tsv",
        "--label", "defaulted", "--id", "customer", "--json", "-", cwd=LENDING,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["schema"] == "fedvalue.check/1"
    loans, telco, shop, vendor, utility = found["files"]
    assert loans["format"] == "CSV, cp1252, semicolon, decimal comma"
    assert loans["confidence"] == {"encoding": "fair", "delimiter": "high", "decimal": "high"}
    kinds = {one["name"]: one["kind"] for one in loans["columns"]}
    assert kinds == {
        "applied": "date", "amount, €": "number", "income": "number", "branch": "category",
        "defaulted": "class", "loss": "number",
    }  # fmt: skip
    income = column(loans, "income")
    assert (len(income["edges"]), sum(income["counts"]), income["largest"]) == (4, 2400, 0.2)
    assert any("'YES', 'yes', 'yes ' differ only in case or blanks" in text for text in loans["warnings"])
    assert (telco["n_rows"], telco["n_matched"]) == (2307, 2307)
    assert column(telco, "contract_since")["kind"] == "date"
    assert shop["n_matched"] == 2400
    assert column(shop, "returns")["n_missing"] == 271
    assert len(vendor["columns"]) == 60
    assert column(utility, "zip")["kind"] == "category"
    assert column(utility, "kwh")["kind"] == "number"


def test_the_table_leads_with_what_was_read_and_ends_with_how_it_is_read():
    """Readable at 80 columns."""
    ran = fedvalue_here("check", "loans.csv", "--label", "defaulted", cwd=LENDING)
    lines = ran.out.splitlines()
    assert lines[0] == "loans.csv: 2,400 rows, 7 columns; CSV, cp1252, semicolon, decimal comma"
    assert lines[1] == "confidence: encoding fair, delimiter high, decimal high"
    assert lines[2].startswith("label 'defaulted': 5 classes: no 77.7%, yes 19.8%")
    assert any("column 'loss' reproduces the label" in line for line in lines)
    assert lines[-1] == "a valuation reads it into memory"
    assert any(
        line.startswith("warning: customer: looks like an id: 2,400 different values") for line in lines
    )
    assert all(len(line) <= 80 for line in lines if "─" in line)


def test_leaks_balance_and_full_bins_are_pointed_out(tmp_path):
    """A column that repeats the label, a rare class, and a bin with nearly all rows."""
    rng = np.random.default_rng(3)
    n = 3000
    y = (rng.random(n) < 0.03).astype(int)
    money = np.append(rng.gamma(1.0, 100.0, n - 1), 1e8)
    lines = [f"{y[k]},{'lost' if y[k] else 'kept'},{money[k]:.2f},{rng.normal():.3f}" for k in range(n)]
    (tmp_path / "t.csv").write_text("y,status,money,x\n" + "\n".join(lines) + "\n")
    ran = fedvalue_here("check", tmp_path / "t.csv", "--label", "y", "--binning", "width")
    assert "column 'status' reproduces the label" in ran.out
    assert "'x' reproduces" not in ran.out
    assert "warning: money: 99.9% of the rows in one bin" in ran.out
    assert "label 'y': 2 classes: 0 9" in ran.out
    assert "of the rows are '0'" in ran.out


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("a;b\n950;1\n1,250;2\n", [], "refused: column 'a': numbers such as 1,250"),
        ("a,b\n1,\n2,x\n", ["--label", "b"], "refused: label 'b': 1 of 2 rows have no label"),
        ("a,b\n1,x\n2,x\n", ["--label", "b"], "refused: label 'b': all rows have the same label"),
        ("a,b\n1,x\n1,y\n", ["--id", "a"], "refused: id 'a': 1 rows repeat an id"),
        ("a,b\n1,x\n,y\n ,z\n", ["--id", "a"], "refused: id 'a': 2 rows have no id"),
        ("day\n03/04/2024\n05/06/2024\n", [], "refused: column 'day': dates such as 03/04/2024"),
    ],
)
def test_what_a_valuation_would_refuse_is_said_with_the_rest(tmp_path, content, arguments, message):
    """And the exit code says so."""
    (tmp_path / "t.csv").write_text(content)
    ran = fedvalue_here("check", tmp_path / "t.csv", *arguments)
    assert ran.code == 3
    assert message in ran.out


def test_files_that_cannot_be_read_at_all_are_refused(tmp_path):
    """By name, with a remedy."""
    (tmp_path / "t.csv").write_text('a,b\n1,"x\n')
    assert "has a quote" in fedvalue_here("check", tmp_path / "t.csv").err
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    ran = fedvalue_here("check", tmp_path / "t.csv", "--label", "bb")
    assert (ran.code, "did you mean 'b'" in ran.err) == (3, True)
    ran = fedvalue_here("check", tmp_path / "t.csv", "--categorical", "aa")
    assert (ran.code, "--categorical: column 'aa' not found; did you mean 'a'" in ran.err) == (3, True)


def test_a_reading_that_changes_far_down_is_the_reading_of_the_whole_column(tmp_path):
    """Whole numbers for three batches, then a word; and numbers of which one has another decimal mark."""
    rows = ["1;0,5"] * 200_000 + ["n/k;0.212"]
    (tmp_path / "t.csv").write_text("a;b\n" + "\n".join(rows) + "\n")
    ran = fedvalue_here("check", tmp_path / "t.csv", "--json", "-")
    (file,) = json.loads(ran.out)["files"]
    assert column(file, "a")["categories"] == ["1", "n/k"]
    assert column(file, "a")["counts"] == [200_000, 1]
    assert "some numbers have a decimal comma and others a decimal point" in file["problems"][0]
    assert column(file, "b")["n_distinct"] == 2


def test_ids_do_not_fill_the_memory(tmp_path):
    """A text that is different in each of many rows is not counted to its end."""
    rows = "\n".join(f"c{k},{k % 7}" for k in range(150_000))
    (tmp_path / "t.csv").write_text(f"who,x\n{rows}\n")
    ran = fedvalue_here("check", tmp_path / "t.csv", "--json", "-")
    (file,) = json.loads(ran.out)["files"]
    assert column(file, "who")["warnings"][0].startswith("looks like an id: more than 1")
    assert column(file, "x")["n_distinct"] == 7


def test_a_file_without_a_common_id_is_refused_as_by_a_valuation(tmp_path):
    (tmp_path / "bank.csv").write_text("customer,y\nA1,no\nA2,yes\nA3,no\n")
    (tmp_path / "other.csv").write_text("customer,x\nB1,1\nB2,2\nB3,1\n")
    (tmp_path / "one.csv").write_text("customer,x\nA3,1\n")
    ran = fedvalue_here("check", "bank.csv", "other.csv", "one.csv", "--id", "customer", cwd=tmp_path)
    assert ran.code == 3
    assert ran.out.count("refused: ") == 1
    assert "refused: id 'customer': none of its ids is in the first file" in ran.out
    assert "one.csv: 1 row, 1 column; " in ran.out
    valued = fedvalue_here(
        "value", "bank.csv", "--label", "y", "--id", "customer", "--party", "o=other.csv", cwd=tmp_path
    )
    assert valued.code == 3


def test_a_column_that_is_too_good_is_remarked_on(tmp_path):
    rows = [f"{'yes' if k % 2 else 'no'},{'c' if (k % 2) ^ (k % 20 == 0) else 'o'}" for k in range(200)]
    (tmp_path / "loans.csv").write_text("\n".join(["y,closed", *rows]) + "\n")
    ran = fedvalue_here("check", "loans.csv", "--label", "y", cwd=tmp_path)
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "warning: column 'closed' alone avoids 90% of the errors of guessing the label" in said
