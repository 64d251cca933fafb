"""`fedvalue value` as a user meets it: the table, the JSON, and a clear answer to every mistake."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import naive
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue

N = 40


@pytest.fixture(scope="module")
def columns() -> dict[str, list[int]]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, N)
    flip = rng.random((3, N)) < np.array([[0.1], [0.3], [0.5]])
    return {
        "id": list(range(100, 100 + N)),
        "age": rng.integers(0, 3, N).tolist(),
        "bill": (y ^ flip[0]).tolist(),
        "calls": (y ^ flip[1]).tolist(),
        "spend": (y ^ flip[2]).tolist(),
        "label": y.tolist(),
    }


@pytest.fixture(scope="module")
def loans(columns: dict[str, list[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "loans.csv"
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


GOOD = [
    "--label",
    "label",
    "--id",
    "id",
    "--task",
    "age",
    "--party",
    "telco=bill,calls",
    "--party",
    "shop=spend",
]


def test_json_holds_the_brute_force_values_and_the_documented_keys(
    loans: Path, columns: dict[str, list[int]]
) -> None:
    ran = fedvalue("value", loans, *GOOD, "--json", "-")
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    telco = [2 * a + b for a, b in zip(columns["bill"], columns["calls"], strict=True)]
    expected = naive.shapley_cmi([telco, columns["spend"]], columns["label"], columns["age"])
    assert [party["value"] for party in result["parties"]] == pytest.approx(expected, abs=1e-12)
    assert result["schema"] == "fedvalue.result/2"
    assert result["unit"] == "nats"
    assert result["n_samples"] == N
    assert result["method"] == "exact"
    assert result["bins"] == 5
    assert result["total"] == pytest.approx(math.fsum(expected), abs=1e-12)
    for key in ("name", "value", "share", "learnable", "se_sampling", "se_data", "alone", "last", "n_codes"):
        assert key in result["parties"][0]
    assert {"n_permutations", "seed", "label_entropy", "learnable_total"} <= set(result)


def test_table_names_every_party_and_how_it_was_computed(loans: Path) -> None:
    ran = fedvalue_here("value", loans, *GOOD)
    assert ran.code == 0, ran.err
    assert "telco" in ran.out
    assert "shop" in ran.out
    assert "learnable" in ran.out
    assert "exact" in ran.out
    assert f"{N} rows" in ran.out


def test_each_makes_every_remaining_column_a_party(loans: Path) -> None:
    ran = fedvalue_here("value", loans, "--label", "label", "--id", "id", "--each", "--json", "-")
    assert [party["name"] for party in json.loads(ran.out)["parties"]] == ["age", "bill", "calls", "spend"]


def test_files_are_written_where_asked(loans: Path, tmp_path: Path) -> None:
    ran = fedvalue_here("value", loans, *GOOD, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "r.json").read_text())["n_samples"] == N
    assert "<html" in (tmp_path / "r.html").read_text()


def test_other_bins_are_tried_and_the_report_says_whether_the_advice_changes(
    tmp_path: Path,
) -> None:
    """A strong and a useless column: the same advice whatever the bins."""
    rng = np.random.default_rng(2)
    strong, useless = rng.normal(size=(2, 600))
    label = (strong + 0.3 * rng.normal(size=600) > 0).astype(int)
    path = tmp_path / "numbers.csv"
    rows = [f"{a},{b},{y}" for a, b, y in zip(strong, useless, label, strict=True)]
    path.write_text("\n".join(["strong,useless,label", *rows]) + "\n")
    ran = fedvalue_here(
        "value", path, "--label", "label", "--each", "--sensitivity", "--json", tmp_path / "r.json", "--html",
        tmp_path / "r.html",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "The advice does not depend on how numbers are cut into bins" in ran.out
    found = json.loads((tmp_path / "r.json").read_text())["details"]["sensitivity"]
    assert [run["invite"] for run in found["runs"]] == [["strong"]] * 6
    assert "Does the coding of columns matter?" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("extra", [["--state", "s"], ["--protocol", "mirror"], ["--no-statistics"]])
def test_other_bins_are_tried_for_plain_tables_only(loans: Path, extra: list[str]) -> None:
    ran = fedvalue_here("value", loans, *GOOD, "--sensitivity", *extra)
    assert ran.code == 3
    assert "--sensitivity values the table several times" in ran.err


def test_settings_of_columns_reach_the_result(loans: Path) -> None:
    ran = fedvalue_here(
        "value", loans, *GOOD, "--columns", "joint", "--binning", "width", "--categorical", "bill,calls",
        "--label-bins", "4", "--json", "-",
    )  # fmt: skip
    settings = json.loads(ran.out)["settings"]
    assert settings["columns"] == "joint"
    assert settings["coding"] == {
        "bins": 5, "binning": "width", "label_bins": 4, "pca": None, "categorical": ["bill", "calls"],
        "clean_labels": False,
    }  # fmt: skip
    assert fedvalue_here("value", loans, *GOOD, "--columns", "rows").code == 3


def test_sampled_method_says_how_many_permutations(loans: Path) -> None:
    ran = fedvalue_here(
        "value", loans, *GOOD, "--method", "sampled", "--permutations", "200", "--seed", "7", "--json", "-"
    )
    result = json.loads(ran.out)
    assert (result["method"], result["n_permutations"], result["seed"]) == ("sampled", 200, 7)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--label", "nope", "--party", "a=bill"], 3, "nope"),
        (["--label", "label", "--party", "a=bil"], 3, "bill"),
        (
            ["--label", "label", "--party", "a=bill", "--party", "b=bill"],
            3,
            "belongs to party 'a' and to party 'b'",
        ),
        (["--label", "label", "--task", "bill", "--party", "b=bill"], 3, "the task party and to party 'b'"),
        (["--label", "label", "--party", "a=bill,bill"], 3, "column 'bill' is given to party 'a' twice"),
        (["--label", "label", "--party", "a=label"], 3, "the label and to party 'a'"),
        (["--label", "label", "--party", "a=bill", "--party", "a=calls"], 3, "given twice"),
        (["--label", "label", "--party", "bill"], 3, "NAME=COL"),
        (["--label", "label"], 3, "at least one data party"),
        (["--label", "label", "--each", "--party", "bill=calls"], 3, "--each would make a second party"),
        (["--label", "label", "--party", "a=bill", "--time-limit", "nan"], 3, "positive number of seconds"),
        (["--label", "label", "--party", "a=bill", "--json", "."], 3, "it is a folder, not a file"),
        (["--label", "label", "--party", "a=bill", "--cluster", "here"], 5, "such as tcp://host:8786"),
        (
            ["--label", "label", "--party", "a=bill", "--bins", "1"],
            3,
            "bins must be a whole number from 2 to 65536, got 1",
        ),
        (["--label", "label", "--party", "a=bill", "--binning", "odd"], 3, "odd"),
        (["--label", "label", "--party", "a=bill", "--method", "best"], 3, "auto, exact, sampled"),
        (["--label", "label", "--party", "a=bill", "--permutations", "0"], 3, "at least 2, got 0"),
        (["--label", "label", "--party", "a=bill", "--precision", "2"], 3, "between 0 and 1, got 2"),
        (["--label", "label", "--party", "a=bill", "--seed", "-1"], 3, "negative"),
        (["--label", "label", "--party", "a=bill", "--pca", "0"], 3, "pca must be a whole number from 1"),
        (["--label", "label", "--party", "a=bill", "--q", "3"], 3, "only with --protocol"),
        (["--label", "label", "--party", "a=bill", "--protocol", "magic"], 3, "magic"),
        (["--label", "label", "--party", "a=bill", "--drop", "cals"], 3, "--drop: column 'cals' not found"),
        (
            ["--label", "label", "--party", "a=bill", "--categorical", "bil"],
            3,
            "--categorical: column 'bil' not found; did you mean 'bill'",
        ),
        (["--party", "a=bill"], 2, "--label"),
        (["--label", "label", "--party", "a=bill", "--json", "/nowhere/at/all.json"], 3, "cannot write"),
        (["--label", "label", "--party", "a=bill", "--html", "/nowhere/at/all.html"], 3, "cannot write"),
    ],
)
def test_wrong_arguments_get_a_message_and_an_exit_code(
    loans: Path, arguments: list[str], code: int, message: str
) -> None:
    ran = fedvalue_here("value", loans, *arguments)
    assert ran.code == code, ran.err
    assert message in " ".join(ran.err.split())


def test_a_cluster_that_does_not_answer_is_named(loans: Path) -> None:
    """In a process of its own, as a user sees it: one message, and nothing from the cluster's client."""
    ran = fedvalue("value", loans, "--label", "label", "--party", "a=bill", "--cluster", "tcp://127.0.0.1:9")
    assert ran.code == 5
    assert "127.0.0.1:9" in ran.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("id,x,label\n", "the table has no rows"),
        ("id,x,label\n1,0,1\n2,1,1\n", "label 'label': all rows have the same label"),
        ("id,x,label\n1,0,1\n1,1,0\n", "column 'id': ids must be distinct, got 1 duplicates"),
        ("id,x,label\n1,inf,1\n2,1,0\n", "infinite"),
        ("id,x,label\n1,0,1\n2,1\n", "row"),
        ("id,x,x,label\n1,0,0,1\n2,1,1,0\n", "x"),
        ("id,x,label\n1,0,\n2,1,0\n", "1 of 2 rows have no label"),
    ],
)
def test_wrong_files_get_a_message_and_exit_code_3(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    ran = fedvalue_here("value", path, "--label", "label", "--id", "id", "--party", "a=x")
    assert ran.code == 3, ran.err
    assert message in ran.err


def test_a_wrong_file_in_a_process_of_its_own_is_one_line_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("id,x,label\n1,0,1\n2,1,1\n")
    ran = fedvalue("value", path, "--label", "label", "--id", "id", "--party", "a=x")
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert ran.err.startswith("fedvalue: ")


def test_messages_name_the_columns_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("who,x,paid\n1,0,1\n1,1,1\n")
    ran = fedvalue_here("value", path, "--label", "paid", "--party", "a=x")
    assert "label 'paid'" in ran.err
    ran = fedvalue_here("value", path, "--label", "paid", "--id", "who", "--party", "a=x")
    assert "column 'who'" in ran.err


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    """Brackets are no markup; a name with a comma or outer spaces stands in double quotes."""
    path = tmp_path / "names.csv"
    path.write_text('" x","k, l",y\n0,1,0\n1,1,1\n0,0,0\n')
    parties = ["--party", '[/b]=" x"', "--party", ':smile:[red]="k, l"']
    ran = fedvalue_here("value", path, "--label", "y", *parties, "--no-statistics")
    assert ran.code == 0, ran.err
    assert "[/b]" in ran.out
    assert ":smile:[red]" in ran.out


def test_a_warning_about_many_parties_is_one_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    path = tmp_path / "noise.csv"
    header = ",".join([*(f"f{k}" for k in range(12)), "y"])
    rows = [",".join(map(str, row)) for row in rng.integers(0, 2, (300, 13))]
    path.write_text("\n".join([header, *rows]) + "\n")
    ran = fedvalue_here("value", path, "--label", "y", "--each")
    assert ran.code == 0, ran.err
    assert ran.out.count("Shapley-CMI is mostly memorised") == 1
    assert "more: Shapley-CMI is mostly memorised" in ran.out


def test_a_warning_about_a_column_is_printed_once(tmp_path: Path) -> None:
    path = tmp_path / "constant.csv"
    path.write_text("y,a,b\n" + "".join(f"{k % 2},{k % 3},7\n" for k in range(30)))
    ran = fedvalue_here("value", path, "--label", "y", "--party", "shop=a,b")
    assert ran.code == 0, ran.err
    assert ran.out.count("the same code in every row") == 1


def test_figures_are_whole_in_a_narrow_terminal(loans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    ran = fedvalue("value", loans, *GOOD)
    assert ran.code == 0, ran.err
    assert "…" not in ran.out


def test_a_reader_that_goes_away_is_no_error(loans: Path) -> None:
    command = [sys.executable, "-m", "fedvalue", "value", loans, *GOOD, "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_reader_that_goes_away_does_not_cost_the_files(loans: Path, tmp_path: Path) -> None:
    files = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
    command = [sys.executable, "-m", "fedvalue", "value", loans, *GOOD, *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 0
    assert json.loads((tmp_path / "r.json").read_text())["n_samples"] == N
    assert (tmp_path / "r.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_exit_code_5(loans: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fedvalue", "value", loans, *GOOD]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (5, "fedvalue: No space left on device [E_STORAGE]\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ran = fedvalue_here("value", tmp_path / "none.csv", "--label", "y", "--party", "a=x")
    assert ran.code == 3
    assert "none.csv" in ran.err


def test_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(b"this is no Parquet file")
    ran = fedvalue_here("value", path, "--label", "y", "--party", "a=x")
    assert ran.code == 3
    assert "table.parquet" in ran.err


def test_more_than_64_parties_have_exact_values(tmp_path: Path) -> None:
    """Ten distinct rows: all parties together tell the label, so the values add up to its entropy."""
    rng = np.random.default_rng(3)
    columns = [f"f{k}" for k in range(70)]
    path = tmp_path / "wide.csv"
    table = rng.integers(0, 2, (10, 71))
    assert len(np.unique(table[:, :70], axis=0)) == 10
    rows = [",".join(map(str, row)) for row in table]
    path.write_text("\n".join([",".join([*columns, "label"]), *rows]) + "\n")
    ran = fedvalue_here(
        "value", path, "--label", "label", "--each", "--method", "exact", "--no-statistics", "--json", "-"
    )
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    values = [party["value"] for party in result["parties"]]
    shares = np.bincount(table[:, 70]) / 10
    entropy = -(shares * np.log(shares)).sum()
    assert (result["method"], len(values)) == ("exact", 70)
    assert (result["total"], math.fsum(values)) == pytest.approx((entropy, entropy), rel=1e-12)


def test_help() -> None:
    ran = fedvalue("--help")
    assert ran.code == 0
    assert "value" in ran.out


def test_version() -> None:
    from fedvalue import __version__

    assert fedvalue("--version").out == f"fedvalue {__version__}\n"


def test_a_folder_of_parquet_files_is_streamed_to_the_same_values(
    loans: Path, columns: dict[str, list[int]], tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns)
    folder = tmp_path / "loans"
    folder.mkdir()
    pq.write_table(table.slice(0, 15), folder / "a.parquet")
    pq.write_table(table.slice(15), folder / "b.parquet")
    whole, parts = (fedvalue_here("value", source, *GOOD, "--json", "-") for source in (loans, folder))
    assert parts.code == 0, parts.err
    values = [[party["value"] for party in json.loads(ran.out)["parties"]] for ran in (whole, parts)]
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_a_state_adds_rows_once_and_tells_what_changed(loans: Path, tmp_path: Path) -> None:
    header, *rows = loans.read_text().splitlines()
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("\n".join([header, *rows[:25]]) + "\n")
    second.write_text("\n".join([header, *rows[25:]]) + "\n")
    state = tmp_path / "counts.state"
    good = [*GOOD, "--binning", "width"]
    assert fedvalue_here("value", first, *good, "--state", state).code == 0
    ran = fedvalue_here("value", second, *good, "--state", state)
    assert ran.code == 0, ran.err
    assert f"{N} rows" in ran.out
    line = r"since last time \w+: learnable -?[0-9.]+ -> -?[0-9.]+; Shapley-CMI [0-9.]+ -> [0-9.]+, "
    assert re.search(line, " ".join(ran.out.split()))
    again = fedvalue_here("value", second, *good, "--state", state)
    assert f"{N} rows" in again.out
    ran = fedvalue_here("value", second, *good, "--state", state, "--bins", "4")
    assert ran.code == 3
    assert "bins" in ran.err
    assert fedvalue_here("value", second, *good, "--state", state, "--protocol", "mirror").code == 3


@pytest.mark.parametrize("protocol", ["single", "paper", "mirror"])
def test_a_protocol_gives_the_plain_values(loans: Path, protocol: str) -> None:
    plain, federated = (
        json.loads(fedvalue_here("value", loans, *GOOD, *extra, "--json", "-").out)
        for extra in ((), ("--protocol", protocol))
    )
    assert federated["protocol"] == protocol
    for a, b in zip(plain["parties"], federated["parties"], strict=True):
        for key in ("value", "learnable", "se_data", "alone", "last"):
            assert b[key] == pytest.approx(a[key], abs=1e-9)


def test_columns_that_no_option_names_are_listed_on_stderr(tmp_path: Path) -> None:
    rows = [f"{k % 2},{k % 3},{k % 5},{k % 7}" for k in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["y,a,b,c", *rows]) + "\n")
    command = ["value", "table.csv", "--label", "y", "--party", "one=a", "--json", "-"]
    ran = fedvalue_here(*command, cwd=tmp_path)
    assert ran.err == "not used, because no option names them: 'b' and 'c'\n"
    assert fedvalue_here(*command, "--task", "b", "--drop", "c", cwd=tmp_path).err == ""
