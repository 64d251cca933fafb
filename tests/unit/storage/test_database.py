"""The database: transactions, broken files, and files of another version."""

from __future__ import annotations

import contextlib

import pytest

from fedvalue.errors import EngineError
from fedvalue.storage.database import Database


def test_a_transaction_is_all_or_nothing(tmp_path):
    database = Database(tmp_path / "state" / "x.sqlite", "CREATE TABLE IF NOT EXISTS t (a)")
    with contextlib.suppress(ZeroDivisionError), database.transaction() as db:
        db.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with database.transaction() as db:
        db.execute("INSERT INTO t VALUES (2)")
    assert database.rows("SELECT a FROM t") == [(2,)]
    assert database.one("PRAGMA synchronous") == (2,)
    assert database.one("PRAGMA journal_mode") == ("wal",)
    database.close()
    assert (tmp_path / "state" / "x.sqlite").stat().st_mode & 0o077 == 0
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_a_broken_database_is_a_storage_error(tmp_path):
    (tmp_path / "x.sqlite").write_bytes(b"not a database at all, but long enough to look at" * 100)
    with pytest.raises(EngineError) as caught:
        Database(tmp_path / "x.sqlite", "CREATE TABLE t (a)")
    assert caught.value.code == "E_STORAGE"


def test_a_first_start_that_was_killed_between_its_tables_is_completed(tmp_path):
    """What it left is no other version."""
    path = tmp_path / "x.sqlite"
    with pytest.raises(EngineError):
        Database(path, "CREATE TABLE IF NOT EXISTS a (x); NONSENSE;")
    whole = Database(path, "CREATE TABLE IF NOT EXISTS a (x); CREATE TABLE IF NOT EXISTS b (x);")
    assert whole.rows("SELECT name FROM sqlite_master ORDER BY name") == [("a",), ("b",)]
    whole.close()
