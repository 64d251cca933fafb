"""Problems of a first use that concern files, columns and arguments, each with what happens now.

The numbers are those of the list of problems found when the software was tried as a new user would.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedvalue
from fedvalue.cli.progress import time_text
from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import label_table, party_table
from fedvalue.tables.sources import read_table
from tests.cli.here import fedvalue_here

N = 1500


def world(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A label, and a strong score for it."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=N)
    return (score + rng.normal(size=N) > 0).astype(int), score


def test_4_a_wide_party_is_worth_what_its_two_strong_columns_are():
    """200 columns, two of them strong; the joint code is unique per row."""
    y, score = world()
    rng = np.random.default_rng(1)
    columns = {f"c{k}": rng.normal(size=N) for k in range(198)}
    columns |= {"s1": score + rng.normal(size=N), "s2": score + rng.normal(size=N)}
    parties = {"wide": columns, "other": {"x": rng.normal(size=N)}}
    valuation = fedvalue.value(label=y, parties=parties)
    narrow = fedvalue.value(label=y, parties={"narrow": {key: columns[key] for key in ("s1", "s2")}})
    assert valuation["wide"].learnable > 0.8 * narrow["narrow"].learnable
    by_pca = fedvalue.value(label=y, parties=parties, pca=2, statistics=False)  # another party has one column
    assert [column.kind for column in by_pca.columns if column.party == "other"] == ["number"]


def test_5_money_does_not_end_in_one_bin():
    """A skewed balance keeps its value; with equal widths its full bin is pointed out."""
    y, score = world()
    balance = np.exp(3 * score) * 100
    balance[0] = 1e9
    parties = {"bank": {"Balance": balance}}
    by_quantile = fedvalue.value(label=y, parties=parties)
    by_width = fedvalue.value(label=y, parties=parties, binning="width")
    assert by_quantile.learnable_total > 0.1 > 10 * by_width.learnable_total
    assert any("of the rows in one bin" in warning for warning in by_width.columns[1].warnings)


def test_6_amounts_are_labels():
    """Many whole numbers are an amount in equally filled bins, as many as asked for."""
    rng = np.random.default_rng(2)
    progression = rng.permutation(np.arange(25, 346))[:300]
    table = label_table({"progression": progression}, CodingSettings(label_bins=4))
    assert (table.columns[0].kind, table.n_codes) == ("amount", 4)
    assert max(table.columns[0].counts) - min(table.columns[0].counts) <= 1
    valuation = fedvalue.value(label=progression, parties={"a": {"x": progression + rng.normal(0, 20, 300)}})
    assert valuation.learnable_total > 0.5


def test_8_pandas_rows_are_matched_by_their_index():
    """A reversed frame gives the same value; foreign indexes are refused."""
    import pandas as pd

    y, score = world()
    data = pd.DataFrame({"y": y, "Balance": score})
    straight = fedvalue.value(label=data["y"], parties={"a": data[["Balance"]]})
    reverse = fedvalue.value(label=data["y"], parties={"a": data[["Balance"]].iloc[::-1]})
    assert reverse.learnable == straight.learnable
    with pytest.raises(InputError, match="index values are not in the index of the label"):
        fedvalue.value(label=data["y"], parties={"a": data[["Balance"]].set_axis(range(1, N + 1))})


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
def test_9_and_10_files_of_spreadsheets_are_read(tmp_path, encoding):
    """Semicolons, decimal commas, a comma in a name; one cell with a point is refused, not made text."""
    path = tmp_path / "t.csv"
    y, score = world()
    text = "größe, cm;label\n" + "\n".join(
        f"{100 + 10 * s:.2f};{label}".replace(".", ",") for s, label in zip(score, y, strict=True)
    )
    path.write_bytes(text.encode(encoding))
    expected = fedvalue.value(label=y, parties={"a": {"x": np.round(100 + 10 * score, 2)}})
    found = fedvalue.value(data=path, label="label", parties={"a": ["größe, cm"]})
    assert found.learnable == expected.learnable
    path.write_bytes((text + "\n0.212;1\n").encode(encoding))
    with pytest.raises(InputError, match="some numbers have a decimal comma and others a decimal point"):
        fedvalue.value(data=path, label="label", parties={"a": ["größe, cm"]})


def test_10_help_lists_the_options_that_were_missing():
    """--delimiter, --decimal, --encoding, and a sheet."""
    text = fedvalue_here("value", "--help").out
    assert all(option in text for option in ("--delimiter", "--decimal", "--encoding", "--sheet", "--dates"))


def test_11_the_type_of_each_column_is_shown_and_the_same_everywhere(tmp_path):
    """A zip code has the same codes from CSV and Parquet; MM/DD/YYYY is a date."""
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    rows = [
        f"{rng.integers(10_000, 99_999)},{rng.integers(1, 13):02}/{rng.integers(1, 29):02}/2024"
        for _ in range(400)
    ]
    (tmp_path / "t.csv").write_text("zip,since\n" + "\n".join(rows) + "\n")
    table = read_table(tmp_path / "t.csv", text_columns=["zip", "since"])
    pq.write_table(table, tmp_path / "t.parquet")
    pq.write_table(table.set_column(0, "zip", table["zip"].cast("int64")), tmp_path / "typed.parquet")
    codings = [
        party_table("a", read_table(tmp_path / name)).columns
        for name in ("t.csv", "t.parquet", "typed.parquet")
    ]
    assert codings[0] == codings[1] == codings[2]
    assert [coding.kind for coding in codings[0]] == ["number", "date"]
    named = [
        party_table("a", read_table(tmp_path / name, ["zip"]), CodingSettings(categorical=("zip",)))
        for name in ("t.csv", "typed.parquet")
    ]
    assert named[0].columns == named[1].columns
    ran = fedvalue_here("check", tmp_path / "t.csv")
    assert "its name suggests codes rather than amounts" in ran.out


def test_12_a_result_says_how_it_came_about(tmp_path):
    """Binning, label, columns, file, date: enough to repeat it."""
    y, score = world()
    rows = "\n".join(f"{label},{s:.3f}" for label, s in zip(y, score, strict=True))
    (tmp_path / "t.csv").write_text(f"y,x\n{rows}\n")
    ran = fedvalue_here("value", "t.csv", "--label", "y", "--party", "a=x", "--json", "r.json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    result = json.loads((tmp_path / "r.json").read_text())
    record = result["provenance"]
    assert result["settings"]["coding"]["binning"] == "quantile"
    assert (record["request"]["label"], record["sources"][0]["name"]) == ("y", "t.csv")
    assert {"created", "software", "command"} <= set(record)
    again = fedvalue_here("value", "--from", "r.json", "--json", "-", cwd=tmp_path)
    assert json.loads(again.out)["parties"] == result["parties"]


def test_23_time_so_far_is_not_called_time_left():
    """Before anything is done, a bar cannot know the rest."""
    assert time_text(27.0, None, 0.0) == "0:27 so far"
    assert time_text(27.0, 42.0, 10.0) == "0:42 left"


def test_25_names_and_wrong_arguments():
    """A label by name with its table; a wrong argument answered with the right one."""
    import pandas as pd

    y, score = world()
    data = pd.DataFrame({"default": y, "x": score})
    named = fedvalue.value(data=data, label="default", parties={"a": ["x"]})
    assert named.learnable == fedvalue.value(label=y, parties={"a": {"x": score}}).learnable
    with pytest.raises(InputError, match="label 'default' is a name: pass the column itself, or the table"):
        fedvalue.value(label="default", parties={"a": {"x": score}})
    with pytest.raises(TypeError, match=r"value has no argument 'lable'; did you mean label\?"):
        fedvalue.value(lable=y, parties={"a": {"x": score}})
    with pytest.raises(TypeError, match=r"value has no argument 'y'; did you mean label\?"):
        fedvalue.value(y=y, parties={"a": {"x": score}})
    with pytest.raises(TypeError, match="value takes its arguments by name"):
        fedvalue.value(y, {"a": {"x": score}})
