"""A result as a spreadsheet, with names that no program runs."""

from __future__ import annotations

import csv
import io

import openpyxl
import pytest

import fedvalue
from fedvalue.errors import InputError


@pytest.fixture(scope="module")
def result():
    y = [0, 1] * 30
    return fedvalue.value(label=y, parties={"=HYPERLINK(1)": {"x": y}, "b\x07": {"x": [0, 0, 1] * 20}})


def test_the_workbook_holds_values_uplift_columns_and_origin(tmp_path, result):
    """Numbers as numbers."""
    book = openpyxl.load_workbook(result.to_table(tmp_path / "t.xlsx"))
    assert book.sheetnames == ["values", "uplift", "columns", "origin"]
    head, first, _ = list(book["values"].values)
    row = dict(zip(head, first, strict=True))
    assert (row["name"], row["learnable"]) == ("=HYPERLINK(1)", result.parties[0].learnable)
    assert book["values"]["A2"].data_type == "s"
    assert next(iter(book["uplift"].values))[0] == "parties"
    assert ("software", f"fedvalue {fedvalue.__version__}") in list(book["origin"].values)


def test_the_workbook_holds_ks_and_the_intervals_of_gains(tmp_path, result):
    """As the result has them; the whole has its interval beside its origin."""
    book = openpyxl.load_workbook(result.to_table(tmp_path / "t.xlsx"))
    head, *rows = book["uplift"].values
    cells = dict(zip(head, rows[-1], strict=True))
    row = result.uplift[-1]
    assert cells["ks"] == row.ks
    for what, interval in (
        ("log loss lower by", row.log_loss_gain_interval),
        ("auc higher by", row.auc_gain_interval),
        ("ks higher by", row.ks_gain_interval),
        ("errors avoided per 1,000", row.errors_avoided_interval),
    ):
        assert interval is not None
        assert (cells[f"{what}, 95% from"], cells[f"{what}, 95% to"]) == pytest.approx(interval)
    facts = dict(book["origin"].values)
    assert facts["learnable value of all parties"] == pytest.approx(result.learnable_total)
    assert facts["its 95% interval from"] == pytest.approx(result.learnable_total_interval[0])


def test_a_csv_file_has_one_row_per_party(tmp_path, result):
    """With the mark by which Excel sees UTF-8, and no formula."""
    path = result.to_table(tmp_path / "t.csv")
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    assert [row["name"] for row in rows] == ["'=HYPERLINK(1)", "b\x07"]
    assert float(rows[0]["learnable"]) == result.parties[0].learnable


def test_other_files_are_refused(tmp_path, result):
    """By name."""
    with pytest.raises(InputError, match=r"t\.pdf: a table is written as \.xlsx or \.csv"):
        result.to_table(tmp_path / "t.pdf")
    with pytest.raises(InputError, match="cannot write"):
        result.to_table(tmp_path / "no" / "t.csv")
