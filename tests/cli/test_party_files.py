"""A file per party, the same advice from every kind of file, and results that can be repeated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fedvalue
from fedvalue.cli.shared_options import public_command
from tests.cli.here import fedvalue_here

LENDING = Path(__file__).parents[2] / "examples" / "lending"
PARTIES = [
    "--party", "telco=telco.csv", "--party", "shop=shop.xlsx", "--party", "vendor=vendor.parquet",
    "--party", "utility=utility.tsv",
]  # fmt: skip
LOANS = ["loans.csv", "--label", "defaulted", "--clean-labels", "--id", "customer", "--task", "income,branch"]
N = 300


def customers() -> pa.Table:
    """Two useful parties and a useless one; text, money, zip codes, dates and holes."""
    rng = np.random.default_rng(5)
    y = rng.random(N) < 0.4
    return pa.table(
        {
            "customer": [f"{k:05}" for k in range(N)],
            "left": np.where(y, "yes", "no"),
            "age": rng.integers(18, 90, N),
            "bill": np.round(np.where(y, 40.0, 20.0) + rng.gamma(2.0, 10.0, N), 2),
            "zip": [f"{k:05}" for k in rng.choice([1067, 50667, 80331], N)],
            "spend": pa.array(
                np.round(np.where(y, 0.0, 900.0) + rng.gamma(1.0, 1500.0, N), 2), mask=rng.random(N) < 0.1
            ),
            "kwh": np.round(rng.gamma(4.0, 500.0, N), 1),
        }
    )


OWNERS = {"telco": ["bill", "zip"], "shop": ["spend"], "utility": ["kwh"]}
ASKED = ["--label", "left", "--id", "customer", "--task", "age"]
SHARED = [word for name, columns in OWNERS.items() for word in ("--party", f"{name}={','.join(columns)}")]


def write_excel(table: pa.Table, path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(table.column_names)
    for row in zip(*table.to_pydict().values(), strict=True):
        book.active.append(row)
    book.save(path)


def write_german(table: pa.Table, path: Path) -> None:
    table.to_pandas().to_csv(path, sep=";", decimal=",", index=False, encoding="utf-16")


def numbers(ran) -> tuple[object, ...]:
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    parties = [(one["name"], one["learnable"], one["value"], one["n_codes"]) for one in result["parties"]]
    return result["n_samples"], result["learnable_total"], result["uplift"], parties


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "t.csv"
    customers().to_pandas().to_csv(path, index=False)
    return numbers(fedvalue_here("value", path, *ASKED, *SHARED, "--json", "-"))


@pytest.mark.parametrize("kind", ["german.csv", "t.xlsx", "t.parquet", "t.feather"])
def test_the_same_advice_comes_out_of_every_kind_of_file(tmp_path, expected, kind):
    """To the last digit."""
    import pyarrow.feather as feather

    writers = {
        "german.csv": write_german, "t.xlsx": write_excel, "t.parquet": pq.write_table,
        "t.feather": feather.write_feather,
    }  # fmt: skip
    writers[kind](customers(), tmp_path / kind)
    assert numbers(fedvalue_here("value", tmp_path / kind, *ASKED, *SHARED, "--json", "-")) == expected


def test_the_same_advice_comes_out_of_a_database(expected, postgres):
    """And its password is nowhere in the result."""
    postgres.store("leavers", customers())
    ran = fedvalue_here("value", f"{postgres.uri}#leavers", *ASKED, *SHARED, "--json", "-")
    assert numbers(ran) == expected
    assert postgres.password not in ran.out
    record = json.loads(ran.out)["provenance"]
    assert record["request"]["source"].endswith("/postgres#leavers")


def test_the_same_advice_comes_out_of_a_file_per_party(tmp_path, expected):
    """Shuffled, in different formats, one with another name for the id."""
    table, rng = customers(), np.random.default_rng(1)
    table.select(["customer", "left", "age"]).to_pandas().to_csv(tmp_path / "main.csv", index=False)
    telco = (
        table.select(["customer", "bill", "zip"])
        .take(rng.permutation(N))
        .rename_columns(["who", "bill", "zip"])
    )
    pq.write_table(telco, tmp_path / "telco.parquet")
    write_excel(table.select(["customer", "spend"]).take(rng.permutation(N)), tmp_path / "shop.xlsx")
    write_german(table.select(["customer", "kwh"]).take(rng.permutation(N)), tmp_path / "utility.csv")
    files = [
        "--party",
        "telco=telco.parquet",
        "--id",
        "telco=who",
        "--party",
        "shop=shop.xlsx",
        "--party",
        "utility=utility.csv",
    ]
    ran = fedvalue_here("value", "main.csv", *ASKED, *files, "--json", "-", cwd=tmp_path)
    assert numbers(ran) == expected
    frames = {
        "telco": telco.rename_columns(["customer", "bill", "zip"]).to_pandas(),
        "shop": tmp_path / "shop.xlsx", "utility": tmp_path / "utility.csv",
    }  # fmt: skip
    valuation = fedvalue.value(
        data=tmp_path / "main.csv", label="left", task=["age"], parties=frames, ids="customer"
    )
    assert [(p.name, p.learnable, p.value, p.n_codes) for p in valuation.parties] == expected[3]


def test_the_match_of_each_party_is_shown_and_kept():
    """The rows are those whose id everybody has."""
    ran = fedvalue_here("value", *LOANS, *PARTIES, cwd=LENDING)
    assert ran.code == 0, ran.err
    assert "note: telco: 2,307 of 2,400 ids matched (96.1%)" in ran.out
    assert "note: utility: 2,184 of 2,400 ids matched (91.0%)" in ran.out
    assert "2,097 rows, values in nats" in ran.out


def test_whole_numbers_with_a_decimal_point_match_those_without(tmp_path):
    """Spreadsheets and data frames write them where another id is missing; a word among them keeps it."""
    ids = [str(1000 + k) for k in range(60)]
    label = [k % 2 for k in range(60)]
    pq.write_table(pa.table({"customer": ids, "left": label, "age": label}), tmp_path / "main.parquet")
    arguments = ("value", "main.parquet", *ASKED, "--party", "telco=telco.csv")
    rows = [f"{one}.0,{k}" for k, one in enumerate(ids)]
    cases = (
        (rows, "60 of 60 ids matched"),
        (["A.5,0", *rows[1:]], "without a decimal .0"),
        (["1000.00,0", *rows], "without a decimal .0"),  # two ids, which must not become one
    )
    for changed, words in cases:
        (tmp_path / "telco.csv").write_text("\n".join(["customer,bill", *changed]) + "\n")
        ran = fedvalue_here(*arguments, cwd=tmp_path)
        assert words in ran.out + ran.err


def test_a_folder_without_a_slash_is_named(tmp_path):
    """A column may have the name of a folder, so the slash decides."""
    table = customers()
    pq.write_table(table.select(["customer", "left", "age"]), tmp_path / "main.parquet")
    (tmp_path / "telco").mkdir()
    (tmp_path / "telco.dat").write_text("customer,bill\n")
    for party, words in (("telco", "with a slash: telco/"), ("telco.dat", "ends in .csv, .xlsx")):
        ran = fedvalue_here("value", "main.parquet", *ASKED, "--party", f"telco={party}", cwd=tmp_path)
        assert ran.code == 3
        assert words in ran.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids: ids[::2], None),
        (
            lambda ids: [f" {one}" for one in ids],
            "0 of 300 ids matched (0.0%); 300 would match without blanks at either end: write the ids",
        ),
        (lambda ids: [str(int(one)) for one in ids], "300 would match without leading zeros: write"),
        (lambda ids: [f"{int(one)}.0" for one in ids], "300 would match without leading zeros: write"),
        (
            lambda ids: ["x.0", *(f" {int(one)}.0" for one in ids[1:])],
            "299 would match without blanks, leading zeros, a decimal .0 and differences of case: write",
        ),
        (
            lambda ids: [f"x{one}" for one in ids],
            "files: telco: 0 of 300 ids matched (0.0%); is 'customer' the right id? [E_INPUT]",
        ),
        (lambda ids: ["", " ", *ids[2:]], "party 'telco': column 'customer': 2 rows have no id"),
        (lambda ids: [*ids[:-1], ids[0]], "party 'telco': column 'customer': ids must be distinct"),
    ],
)
def test_ids_that_do_not_match_are_explained(tmp_path, change, message):
    """Half of them is a smaller table; none is an error with its likely reason."""
    table = customers()
    pq.write_table(table.select(["customer", "left", "age"]), tmp_path / "main.parquet")
    ids = change(table["customer"].to_pylist())
    telco = table.select(["customer", "bill"])
    telco = telco.take(np.arange(0, N, 2)) if len(ids) < N else telco
    pq.write_table(telco.set_column(0, "customer", pa.array(ids)), tmp_path / "telco.parquet")
    ran = fedvalue_here("value", "main.parquet", *ASKED, "--party", "telco=telco.parquet", cwd=tmp_path)
    if message is None:
        assert "note: telco: 150 of 300 ids matched (50.0%)" in ran.out
    else:
        assert ran.code == 3
        assert message in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--party", "telco=telco.csv"], "name the column of its ids with --id"),
        (["--party", "telco=telco.csv", "--id", "kunde"], "column 'kunde' not found"),
        (["--party", "telco=nowhere.csv", "--id", "customer"], "nowhere.csv: no such file"),
        (
            ["--party", "telco=income", "--id", "customer", "--id", "telco=x"],
            "party 'telco' has no file of its own",
        ),
        (["--party", "telco=telco.csv", "--id", "customer", "--decimal", "shop=,"], "'shop' is not a party"),
        (
            ["--party", "telco=telco.csv", "--id", "customer", "--state", "s"],
            "--state adds the rows of one source",
        ),
        (["--party", "telco=telco.csv", "--id", "customer", "--id", "x"], "--id is given twice"),
    ],
)
def test_wrong_words_about_files_get_a_message(arguments, message):
    """Before anything is read."""
    ran = fedvalue_here("value", "loans.csv", "--label", "defaulted", *arguments, cwd=LENDING)
    assert (ran.code, message in ran.err) == (3, True), ran.err


def test_a_result_says_where_it_comes_from_and_can_be_repeated(tmp_path):
    """File names and digests, columns, label, settings, software, date and command."""
    for name in ("loans.csv", "telco.csv"):
        shutil.copy(LENDING / name, tmp_path / name)
    asked = ["value", *LOANS, "--party", "telco=telco.csv", "--bins", "4", "--json", "result.json"]
    assert fedvalue_here(*asked, cwd=tmp_path).code == 0
    result = json.loads((tmp_path / "result.json").read_text())
    record = result["provenance"]
    assert record["software"] == f"fedvalue {fedvalue.__version__}"
    assert record["command"] == "fedvalue " + " ".join(asked)
    assert record["created"].endswith("Z")
    loans, telco = record["sources"]
    assert (loans["name"], loans["n_rows"], loans["size"]) == (
        "loans.csv",
        2400,
        (LENDING / "loans.csv").stat().st_size,
    )
    assert (telco["party"], telco["n_matched"], len(telco["sha256"])) == ("telco", 2307, 64)
    assert record["request"]["parties"][0]["columns"] == [
        "contract_since",
        "monthly_bill",
        "late_payments",
        "plan",
    ]
    assert result["settings"]["coding"]["bins"] == 4
    again = fedvalue_here("value", "--from", tmp_path / "result.json", "--json", "again.json", cwd=tmp_path)
    assert again.code == 0, again.err
    assert "repeated: every value is the same" in again.err
    with (tmp_path / "telco.csv").open("a") as file:
        file.write("C1,01/31/2020,1.00,0,S\n")
    changed = fedvalue_here("value", "--from", tmp_path / "result.json", cwd=tmp_path)
    assert (changed.code, "telco.csv: has changed since" in changed.err) == (3, True)
    both = fedvalue_here("value", "--from", tmp_path / "result.json", "--label", "loss", cwd=tmp_path)
    assert "takes the label, the parties and all settings from the result: leave out --label" in both.err


@pytest.mark.parametrize(
    "option",
    [
        ("--bins", "8"), ("--accept", "auc_gain=0.1"), ("--decimal", ","), ("--no-statistics",),
        ("--protocol", "mirror"), ("--drop", "a"), ("--seed", "0"), ("--clean-labels",), ("--each",),
    ],
)  # fmt: skip
def test_an_option_that_would_change_a_repeated_question_is_refused(tmp_path, option):
    """It was ignored, and the result called the same. A default counts too if somebody writes it."""
    (tmp_path / "result.json").write_text("{}")
    ran = fedvalue_here("value", "--from", "result.json", *option, cwd=tmp_path)
    assert ran.code == 3
    assert f"leave out {option[0].replace('--no-statistics', '--statistics')}," in ran.err


@pytest.mark.parametrize("option", [("--bins", "8"), ("--each",), ("--task", "a"), ("--columns", "joint")])
def test_select_refuses_options_that_describe_a_table_beside_a_result(tmp_path, option):
    (tmp_path / "prices.csv").write_text("party,price\na,1\n")
    ran = fedvalue_here(
        "select", "result.json", "--prices", "prices.csv", "--budget", "1", *option, cwd=tmp_path
    )
    assert (ran.code, f"{option[0]} describes a table, which needs --label too" in ran.err) == (3, True)


def test_the_question_of_a_result_can_be_put_to_another_file(tmp_path):
    """With what changed beyond its error."""
    table = customers()
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.slice(0, 200), tmp_path / "b.parquet")
    fedvalue_here("value", "a.parquet", *ASKED, *SHARED, "--json", "a.json", cwd=tmp_path)
    ran = fedvalue_here("value", "b.parquet", "--from", "a.json", "--json", "b.json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert "rows: 300 -> 200" in ran.err
    assert json.loads((tmp_path / "b.json").read_text())["n_samples"] == 200
    told = fedvalue_here("compare", "a.json", "b.json", cwd=tmp_path)
    assert told.code == 0, told.err
    assert "rows: 300 -> 200" in told.out
    assert "the results come from different rows" in told.out
    data = json.loads(fedvalue_here("compare", "a.json", "a.json", "--json", "-", cwd=tmp_path).out)
    assert data["same_rows"] is True
    assert not any(change["beyond_error"] for change in data["parties"])


def test_a_result_of_python_cannot_be_repeated_by_the_command(tmp_path):
    """It says so, and why."""
    valuation = fedvalue.value(label=[0, 1] * 20, parties={"a": {"x": [0, 1] * 20}})
    assert valuation.provenance.software == f"fedvalue {fedvalue.__version__}"
    valuation.to_json(tmp_path / "r.json")
    ran = fedvalue_here("value", "--from", tmp_path / "r.json")
    assert (ran.code, "does not say which files it comes from" in ran.err) == (3, True)


def test_rows_without_a_label_are_left_out_on_request(tmp_path):
    """In memory and streamed alike; otherwise they are refused with that remedy."""
    table = customers().to_pandas()
    table.loc[[3, 50], "left"] = [None, " "]
    table.to_csv(tmp_path / "t.csv", index=False)
    refused = fedvalue_here("value", tmp_path / "t.csv", *ASKED, *SHARED)
    assert (refused.code, "--clean-labels" in refused.err) == (3, True)
    whole = fedvalue_here("value", tmp_path / "t.csv", *ASKED, *SHARED, "--clean-labels", "--json", "-")
    assert json.loads(whole.out)["n_samples"] == N - 2
    state = ["--state", tmp_path / "s"]
    streamed = fedvalue_here(
        "value", tmp_path / "t.csv", *ASKED, *SHARED, "--clean-labels", "--json", "-", *state
    )
    assert numbers(streamed) == numbers(whole)
    table.drop(index=[3, 50]).to_csv(tmp_path / "u.csv", index=False)
    clean = fedvalue_here("value", tmp_path / "u.csv", *ASKED, *SHARED, "--json", "-")
    assert numbers(clean) == numbers(whole)


def test_files_of_a_folder_need_the_wanted_columns_only(tmp_path):
    """The first file has one column more than the others."""
    table = customers()
    (tmp_path / "parts").mkdir()
    pq.write_table(table.slice(0, 150), tmp_path / "parts" / "a.parquet")
    pq.write_table(table.slice(150).drop_columns(["kwh"]), tmp_path / "parts" / "b.parquet")
    ran = fedvalue_here("value", tmp_path / "parts", *ASKED, "--party", "telco=bill", "--json", "-")
    assert ran.code == 0, ran.err
    (source,) = json.loads(ran.out)["provenance"]["sources"]
    assert (source["format"], source["n_rows"]) == ("Parquet, 2 files", N)


@pytest.mark.parametrize("before", ["", "telco=", "--party=telco=", "--party=", "x=y="])
def test_a_password_stays_out_of_the_stored_command(before):
    """Wherever in the command line the database stands."""
    words = ["fedvalue", "value", f"{before}postgresql://me:se=cret@host/base?x=1#select a from t"]
    command = public_command(words)
    assert "cret" not in command
    assert f"{before}postgresql://me@host/base" in command
