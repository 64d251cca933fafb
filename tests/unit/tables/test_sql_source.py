"""Tables from PostgreSQL: a real server answers, and no message holds the password."""

from __future__ import annotations

import sys
import traceback

import pyarrow as pa
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.party_table import check_ids, party_table
from fedvalue.tables.sources import column_names, open_parts, read_table
from fedvalue.tables.sql_source import public_name

pytestmark = pytest.mark.postgres
PASSWORD = "correct horse:battery@staple#1"
ENCODED = "correct%20horse%3Abattery%40staple%231"


@pytest.fixture
def customers(postgres):
    """A table with the types that a customer table has."""
    postgres.run(
        "DROP TABLE IF EXISTS customers",
        """CREATE TABLE customers (
            id text PRIMARY KEY, key uuid, age smallint, income numeric(12, 2), rate real, vip boolean,
            since date, seen timestamptz, "Home town" varchar(20), grade char(1))""",
        """INSERT INTO customers VALUES
            ('001', '00000000-0000-0000-0000-000000000001', 30, 1234.50, 0.5, true,
             '1970-01-02', '1970-01-01 01:00+01', 'Bonn', 'a'),
            ('002', '00000000-0000-0000-0000-000000000002', null, 99999.99, 1.5, false,
             '1970-01-03', '1970-01-01 00:00+00', 'Köln', 'b'),
            ('003', '00000000-0000-0000-0000-000000000003', 50, null, 2.5, null, null, null, null, null)""",
    )
    return f"{postgres.uri}#customers"


def test_a_database_table_is_a_table(customers):
    """Every plain type of PostgreSQL arrives as numbers, booleans, dates or text."""
    table = read_table(customers)
    assert table.column_names == [
        "id", "key", "age", "income", "rate", "vip", "since", "seen", "Home town", "grade",
    ]  # fmt: skip
    assert table["income"].to_pylist() == [1234.5, 99999.99, None]
    assert table["age"].to_pylist() == [30, None, 50]
    assert table["Home town"].to_pylist() == ["Bonn", "Köln", None]
    coded = party_table("shop", table)
    assert coded.n_codes == 3
    assert party_table("shop", table.select(["seen"])).codes.tolist() == [0, 0, 1]
    check_ids(table["id"])
    check_ids(read_table(customers, ["key"], text_columns=["key"])["key"])


def test_wanted_columns_are_selected_in_order(customers):
    """Also by names that need quotes."""
    assert read_table(customers, ["Home town", "id"]).column_names == ["Home town", "id"]
    assert column_names(customers)[-2:] == ("Home town", "grade")
    with pytest.raises(InputError, match=r"column 'Home twon' not found; did you mean 'Home town'\?"):
        read_table(customers, ["Home twon"])


def test_a_query_is_a_table(postgres, customers):
    """With a semicolon at the end or not; a table may be named with its schema."""
    for what in (
        "select id, age from customers where age is not null order by id;",
        "WITH grown AS (SELECT id, age FROM customers WHERE age > 1) SELECT * FROM grown ORDER BY id",
    ):
        assert read_table(f"{postgres.uri}#{what}").to_pydict() == {"id": ["001", "003"], "age": [30, 50]}
    assert read_table(f'{postgres.uri}#public."customers"', ["id"]).num_rows == 3


def test_a_large_table_comes_in_batches(postgres):
    """No batch is larger than asked for, and no row is lost."""
    n = 300_000
    postgres.store("large", pa.table({"x": pa.array(range(n)), "w": pa.array(["a", "b", None] * (n // 3))}))
    (part,) = open_parts(f"{postgres.uri}#large", ["x", "w"])
    batches = list(part.batches(50_000))
    assert max(batch.num_rows for batch in batches) <= 50_000
    table = pa.Table.from_batches(batches)
    assert sorted(table["x"].to_pylist()) == list(range(n))
    assert table["w"].null_count == n // 3


def test_an_empty_table_is_refused(postgres, customers):
    """No rows are no data."""
    with pytest.raises(InputError, match="the table has no rows"):
        read_table(f"{postgres.uri}#select id from customers where false")


def test_what_the_database_refuses_is_said(postgres):
    """The database's reason is in the message, the password is not."""
    for what, reason in (("nowhere", "nowhere"), ("select broken from", "syntax|broken")):
        with pytest.raises(InputError, match=reason) as error:
            read_table(f"{postgres.uri}#{what}")
        assert postgres.password not in _everything(error.value)
    with pytest.raises(InputError, match="name a table or query after '#'") as error:
        read_table(postgres.uri)
    assert postgres.password not in _everything(error.value)


def test_a_wrong_password_is_not_repeated(postgres):
    """Authentication fails with the user's name and without the password, plain or encoded."""
    uri = postgres.uri.replace(postgres.password, ENCODED)
    with pytest.raises(InputError, match="password authentication failed") as error:
        read_table(f"{uri}#customers")
    for secret in (PASSWORD, ENCODED):
        assert secret not in _everything(error.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://ann:hush hush@127.0.0.1:1/base",
        "postgresql://ann:hush hush@127.0.0.1:not-a-port/base",
        "postgresql://ann:hush hush@[::1/base",
        "postgresql://ann@127.0.0.1:1/base?password=hush%20hush&nonsense=1",
        "postgresql://ann:hush hush@127.0.0.1:1/base?nonsense",
        "postgresql://ann:hush#hush@127.0.0.1:1/base",
        "postgresql://ann:#hush@127.0.0.1:1",
    ],
)
def test_a_malformed_uri_is_not_repeated(uri):
    """The driver quotes what it cannot parse; the message does not."""
    with pytest.raises(InputError) as error:
        read_table(f"{uri}#customers")
    assert "hush" not in _everything(error.value)
    assert "hush" not in public_name(uri)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("postgresql://ann:hush@db:5432/base#t", "postgresql://ann@db:5432/base#t"),
        ("postgresql://ann:hu#sh@db/base#select a@b", "postgresql://…"),
        ("postgres://db/base?password=hush#t", "postgresql://db/base#t"),
        ("postgresql://db#select a/b", "postgresql://db#select a/b"),
    ],
)
def test_a_source_is_shown_without_its_password(source, shown):
    """User, host, base and query stay readable; nothing does where a password was not percent-encoded."""
    assert public_name(source) == shown


def test_without_the_driver_the_extra_is_named(monkeypatch):
    """A plain install says what to install."""
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(InputError, match=r"needs the extra \[postgres\]"):
        read_table("postgresql://127.0.0.1/base#table")


def _everything(error):
    """The message and all that a traceback would show of its causes."""
    return "".join(traceback.format_exception(error))


def test_a_uri_of_another_kind_is_not_repeated():
    with pytest.raises(InputError, match=r"^mysql://… is not supported; use .* postgresql://") as caught:
        read_table("mysql://bank:secret@host/base#loans")
    assert "secret" not in str(caught.value)
