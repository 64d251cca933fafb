"""Tables from databases and object stores: one seam, tried with real SQLite, DuckDB and files behind URIs.

Snowflake and BigQuery need accounts: their drivers' `connect` is replaced by one to SQLite that keeps what it
was asked.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.party_table import party_table
from fedvalue.tables.sources import column_names, read_table
from fedvalue.tables.sql_source import public_name

ROWS = [("001", 30, 1.5, "Bonn"), ("002", None, 2.5, "Köln"), ("003", 50, 3.5, None)]
NAMES = ["id", "age", "rate", "Home town"]


def check_table(source: str) -> None:
    """What every source must give."""
    table = read_table(source, text_columns=["id"])
    assert table.column_names == NAMES
    assert table["id"].to_pylist() == ["001", "002", "003"]
    assert table["age"].to_pylist() == [30, None, 50]
    assert table["rate"].to_pylist() == [1.5, 2.5, 3.5]
    assert read_table(source, ["Home town", "id"]).column_names == ["Home town", "id"]
    assert column_names(source) == tuple(NAMES)
    assert party_table("shop", table).n_codes == 3
    with pytest.raises(InputError, match=r"column 'agee' not found; did you mean 'age'\?"):
        read_table(source, ["agee"])


@pytest.fixture
def lite(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute('CREATE TABLE customers (id TEXT, age INTEGER, rate REAL, "Home town" TEXT)')
        db.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", ROWS)
        db.commit()
    return path


def test_sqlite_through_its_adbc_driver(lite: Path) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    check_table(f"sqlite://{lite}#customers")
    table = read_table(f"sqlite://{lite}#select id, rate * 2 as twice from customers where age > 40")
    assert table["twice"].to_pylist() == [7.0]


def test_duckdb_files(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute('CREATE TABLE customers (id TEXT, age INTEGER, rate DECIMAL(6, 2), "Home town" TEXT)')
        db.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", ROWS)
    check_table(f"duckdb://{path}#customers")
    before = path.read_bytes()
    with pytest.raises(InputError, match="returned no rows"):
        read_table(f"duckdb://{path}#select * from customers; drop table customers")
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_that_is_missing_is_named_and_not_created(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_table(f"{kind}://{tmp_path}/none.db#t")
    assert list(tmp_path.iterdir()) == []


def arrow_table() -> pa.Table:
    return pa.table(dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True)))


def test_files_behind_a_uri_that_pyarrow_reads(tmp_path: Path) -> None:
    """`file://` takes the way of `s3://`: FileSystem.from_uri, then a dataset."""
    pyarrow.parquet.write_table(arrow_table(), tmp_path / "a.parquet")
    check_table(f"file://{tmp_path}/a.parquet")
    pyarrow.feather.write_feather(arrow_table(), tmp_path / "a.arrow")
    check_table(f"file://{tmp_path}/a.arrow")
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        pyarrow.parquet.write_table(arrow_table().slice(k, 1), folder / f"{k}.parquet")
    check_table(f"file://{folder}")


def test_what_cannot_be_read_from_a_store_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(InputError, match="only Parquet and Arrow"):
        read_table(f"file://{tmp_path}/a.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(f"file://{tmp_path}/none.parquet")
    with pytest.raises(InputError, match=r"ftp://… is not supported; use a file, a folder, or a URI"):
        read_table("ftp://user:hush@host/x")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("snowflake://ann:hush@account/base/schema?warehouse=w#t", "snowflake://ann@account/base/schema#t"),
        ("bigquery://project/dataset#t", "bigquery://project/dataset#t"),
        ("s3://key:hush@bucket/folder/a.parquet", "s3://bucket/folder/a.parquet"),
        ("duckdb:///a/b.duckdb#select 1", "duckdb:///a/b.duckdb#select 1"),
        ("duckdb:///a@b/c.duckdb#t", "duckdb:///a@b/c.duckdb#t"),
        (
            "postgresql://host:5432/base#select a @> b from t",
            "postgresql://host:5432/base#select a @> b from t",
        ),
        # A slash or a hash in a password that should have been escaped.
        ("postgresql://ann:12/hush@host/base#t", "postgresql://…"),
        ("postgresql://ann:/hush@host/base#t", "postgresql://…"),
        ("postgresql://ann:a/b#hush@host/base#t", "postgresql://…"),
        ("postgresql://ann:12/b#hush@host/base#t", "postgresql://…"),
        ("s3://key:12/hush@bucket/a.parquet", "s3://…"),
    ],
)
def test_a_source_is_shown_without_its_secrets(source: str, shown: str) -> None:
    assert public_name(source) == shown


@pytest.mark.parametrize("password", ["12/hush", "hush/x", "/hush", "a/b#hush"])
def test_a_password_with_a_slash_reaches_no_driver_and_no_message(password: str) -> None:
    with pytest.raises(InputError, match="write / as %2F") as caught:
        read_table(f"postgresql://ann:{password}@host/base#t")
    assert "hush" not in str(caught.value)


class Kept:
    """A driver whose `connect` answers with a SQLite connection and keeps its arguments and statements."""

    def __init__(self, path: Path) -> None:
        import adbc_driver_sqlite.dbapi as lite

        self.Error = lite.Error
        self.asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.statements: list[str] = []
        self._lite, self._path = lite, path

    def connect(self, *arguments: Any, **options: Any) -> Any:
        self.asked.append((arguments, options))
        connection = self._lite.connect(f"file:{self._path}?mode=ro")
        make = connection.cursor

        def cursor() -> Any:
            made = make()
            execute = made.execute

            def kept(statement: str) -> None:
                self.statements.append(statement)
                execute(statement.removesuffix(" LIMIT 0"))  # without rows SQLite has no types

            made.execute = kept
            return made

        connection.cursor = cursor
        return connection


@pytest.mark.parametrize("kind", ["snowflake", "bigquery"])
def test_snowflake_and_bigquery_through_the_same_seam(lite: Path, monkeypatch, kind: str) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    import sys

    driver = Kept(lite)
    monkeypatch.setitem(sys.modules, f"adbc_driver_{kind}.dbapi", driver)
    monkeypatch.setitem(sys.modules, f"adbc_driver_{kind}", driver)
    uri = {
        "snowflake": "snowflake://ann:hush@account/base/schema?warehouse=w",
        "bigquery": "bigquery://project/dataset",
    }[kind]
    check_table(f"{uri}#customers")
    arguments, options = driver.asked[0]
    mark, table = ('"', "customers") if kind == "snowflake" else ("`", "`customers`")
    assert f"SELECT {mark}Home town{mark}, {mark}id{mark} FROM {table}" in driver.statements
    assert driver.statements[0].endswith(" LIMIT 0")
    if kind == "snowflake":
        assert arguments == ("ann:hush@account/base/schema?warehouse=w",)
    else:
        assert options["db_kwargs"] == {
            "adbc.bigquery.sql.project_id": "project", "adbc.bigquery.sql.dataset_id": "dataset",
        }  # fmt: skip
        with pytest.raises(InputError, match="write bigquery://project/dataset#table"):
            read_table("bigquery://project#t")
    with pytest.raises(InputError) as caught:
        read_table(f"{uri}#none")
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("source", "named"),
    [("snowflake://a/b#t", r"fedvalue\[snowflake\]"), ("bigquery://a/b#t", r"fedvalue\[bigquery\]")],
)
def test_without_the_driver_the_extra_is_named(monkeypatch, source: str, named: str) -> None:
    import sys

    monkeypatch.setitem(sys.modules, f"adbc_driver_{source.partition(':')[0]}.dbapi", None)
    with pytest.raises(InputError, match=named):
        read_table(source)


@pytest.mark.network
def test_a_party_takes_part_with_a_database(tmp_path: Path) -> None:
    """The whole way: a run in which one party's table is in SQLite."""
    pytest.importorskip("adbc_driver_sqlite")
    import csv

    from tests.support.town import Town, ended_well, values_of

    town = Town(tmp_path, parties=("telco",))
    folder = town.member("telco").folder
    with (folder / "table.csv").open() as file, closing(sqlite3.connect(folder / "t.sqlite")) as db:
        db.execute("CREATE TABLE t (id TEXT, x TEXT)")
        db.executemany("INSERT INTO t VALUES (?, ?)", list(csv.reader(file))[1:])
        db.commit()
    config = folder / "party.toml"
    config.write_text(config.read_text().replace('"table.csv"', f'"sqlite://{folder}/t.sqlite#t"'))
    town.start()
    try:
        assert ended_well(town.join())
    finally:
        town.stop()
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
