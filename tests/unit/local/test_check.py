"""The summary that precedes a valuation on a terminal, and the sample in which leaks are looked for."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedvalue.local.check import SAMPLE_ROWS, Check, _Sample, check_sources, label_text, summary_lines
from fedvalue.local.streaming import value_files
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_report import CodedColumns, ColumnCoding
from fedvalue.tables.party_table import label_table
from fedvalue.valuation.provenance import PartyRequest, Request

LENDING = Path(__file__).parents[3] / "examples" / "lending"


def test_the_summary_names_rows_label_columns_and_what_looks_wrong():
    """In four lines."""
    label = label_table({"left": ["yes"] * 30 + ["no"] * 70}).columns[0]
    columns = (
        label,
        ColumnCoding(party="a", name="x", kind="number", n_codes=5),
        ColumnCoding(party="a", name="z", kind="number", n_codes=5, warnings=("looks odd",)),
        ColumnCoding(party="b", name="c", kind="category", n_codes=2),
    )
    request = Request(
        source="t.csv", label="left", parties=(PartyRequest(name="a", columns=("x", "z")),), id="who"
    )
    assert summary_lines(CodedColumns(100, columns, ("label 'left': odd",)), request) == [
        "t.csv: 100 rows; label 'left': 2 classes: no 70.0%, yes 30.0%",
        "3 columns: 2 numbers, 1 category",
        "label 'left': odd",
        "warnings about 1 column: see `fedvalue check`",
    ]


def test_an_amount_is_described_by_its_bins_and_many_classes_by_the_largest():
    """For the line about the label."""
    amount = label_table({"loss": np.arange(100.0)}).columns[0]
    assert label_text(amount).startswith("an amount in 5 bins: ≤ 19 | ≤ 39")
    digits = label_table({"digit": [str(k % 10) for k in range(100)]}).columns[0]
    assert label_text(digits).endswith("and 5 more")


def test_the_summary_comes_before_the_values_on_a_terminal():
    """And on a terminal alone: a script sees messages that matter only."""
    command = [
        sys.executable, "-m", "fedvalue", "value", "loans.csv", "--label", "defaulted", "--clean-labels",
        "--party", "bank=income", "--no-statistics",
    ]  # fmt: skip
    master, slave = pty.openpty()
    with subprocess.Popen(command, cwd=LENDING, stdout=subprocess.PIPE, stderr=slave) as running:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(master, 1 << 16):
                shown += part
        out, _ = running.communicate()
    os.close(master)
    assert running.returncode == 0
    assert b"loans.csv: 2,400 rows; label 'defaulted': 2 classes: no" in shown
    assert b"loans.csv: 2,400 rows" not in out
    piped = subprocess.run(command, cwd=LENDING, capture_output=True, check=True)
    assert b"2,400 rows; label" not in piped.stderr


def test_the_sample_is_spread_over_the_file_and_bounded():
    """The last batches are in it too."""
    sample = _Sample()
    for k in range(100):
        sample.add(pa.record_batch({"k": np.full(5_000, k)}))
    rows = sample.rows()
    assert rows.num_rows <= 2 * SAMPLE_ROWS
    kept = set(rows.column("k").to_pylist())
    assert min(kept) == 0
    assert max(kept) > 75


def test_a_column_without_values_has_one_code(tmp_path):
    """In the pass for leaks and in the second pass of a stream, too."""
    rows = [f"{k % 7},,{'yes' if k % 2 else 'no'}," for k in range(100)]
    path = tmp_path / "t.csv"
    path.write_text("x,notes,y,\n" + "\n".join(rows) + "\n")
    (file,) = check_sources([str(path)], label="y").files
    assert file.problems == ()
    assert [(column.name, column.n_codes) for column in file.columns] == [("x", 5), ("notes", 1), ("y", 2)]
    assert file.notes == ("column 4 has no name in the header and was left out",)
    assert value_files(path, label="y", parties={"a": ["x", "notes"]}).n_samples == 100


def test_rows_without_a_label_are_no_problem_where_labels_are_cleaned(tmp_path):
    """As in a valuation, which leaves them out."""
    rows = [f"{k % 7},{('yes', 'no', '', 'NO ')[k % 4]},{('a', 'b', 'c', 'b')[k % 4]}" for k in range(100)]
    path = tmp_path / "t.csv"
    path.write_text("x,y,copy\n" + "\n".join(rows) + "\n")
    assert "25 of 100 rows have no label" in check_sources([str(path)], label="y").files[0].problems[0]
    (file,) = check_sources([str(path)], label="y", coding=CodingSettings(clean_labels=True)).files
    assert file.problems == ()
    assert file.notes == ("a valuation leaves out 25 rows without a label",)
    assert [(column.categories, column.counts) for column in file.columns if column.name == "y"] == [
        (("no", "yes"), (50, 25))
    ]
    assert any("'copy' reproduces the label" in warning for warning in file.warnings)


def test_parts_of_a_folder_are_one_table(tmp_path):
    """Numbers in one file and a word in another make categories."""
    for name, value in (("a", "1.5"), ("b", "n/k")):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + f"{value},2\n" * 50)
    found = check_sources([str(tmp_path)])
    assert isinstance(found, Check)
    (file,) = found.files
    assert file.n_rows == 100
    assert [(column.kind, column.categories) for column in file.columns] == [
        ("category", ("1.5", "n/k")), ("number", ("2",)),
    ]  # fmt: skip
