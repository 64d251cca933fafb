"""Tables in databases and object stores, as Arrow batches.

A database is a URI with the table or query after a `#`:

    postgresql://user@host:5432/base#schema.table        the password from PGPASSWORD or a password file
    snowflake://user@account/base/schema?warehouse=w#select a, b from t
    bigquery://project/dataset#table                     with Google's application default credentials
    duckdb:///path/file.duckdb#table
    sqlite:///path/file.sqlite#table

Parquet and Arrow files in an object store are a URI that pyarrow reads, with the credentials of the
environment: `s3://bucket/folder/`, `gs://bucket/file.parquet`, `abfss://…`, `hdfs://…`.

A password in a URI appears in no message.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from fedvalue.errors import InputError

_TABLE = re.compile(r'(?:"[^"]+"|[^\s".();]+)(?:\.(?:"[^"]+"|[^\s".();]+))*')
_SCHEMES = {
    "postgresql": "postgresql", "postgres": "postgresql", "snowflake": "snowflake", "bigquery": "bigquery",
    "duckdb": "duckdb", "sqlite": "sqlite",
    "s3": "store", "gs": "store", "gcs": "store", "abfs": "store", "abfss": "store", "hdfs": "store",
    "file": "store",
}  # fmt: skip
"""What reads a URI, by its scheme."""
_DRIVERS = {
    "postgresql": ("adbc_driver_postgresql.dbapi", "the extra [postgres]: pip install 'fedvalue[postgres]'"),
    "snowflake": ("adbc_driver_snowflake.dbapi", "the extra [snowflake]: pip install 'fedvalue[snowflake]'"),
    "bigquery": ("adbc_driver_bigquery.dbapi", "the extra [bigquery]: pip install 'fedvalue[bigquery]'"),
    "sqlite": ("adbc_driver_sqlite.dbapi", "its driver: pip install adbc-driver-sqlite"),
    "duckdb": ("duckdb", "its library: pip install duckdb"),
}
_TITLES = {
    "postgresql": "PostgreSQL", "snowflake": "Snowflake", "bigquery": "BigQuery", "sqlite": "SQLite",
    "duckdb": "DuckDB",
}  # fmt: skip


def is_database(source: object) -> bool:
    """Recognise the URI of a database or an object store."""
    return isinstance(source, str) and source.partition("://")[0] in _SCHEMES and "://" in source


def known_schemes() -> str:
    """The schemes of URIs, for messages."""
    return ", ".join(f"{scheme}://" for scheme in _SCHEMES if scheme not in ("postgres", "gcs", "file"))


def database_schema(source: str) -> Any:
    """The columns of the table or query and their plain types, without reading rows."""
    # SQLite has types by value: only rows show them.
    with _reader(source, None, limit=None if _kind(source) == "sqlite" else 0) as reader:
        return _plain(pa.Table.from_batches([], reader.schema)).schema


def database_batches(source: str, columns: Collection[str] | None) -> Iterator[Any]:
    """Record batches as the database sends them."""
    with _reader(source, columns) as reader:
        for batch in reader:
            yield _plain(batch)


def public_name(source: str) -> str:
    """The source for messages, without a password."""
    head, query = _cut(source)
    kind, scheme = _kind(source), head.partition("://")[0]
    scheme = "postgresql" if kind == "postgresql" else scheme
    if _is_unclear(source):
        return f"{scheme}://…"
    parts = urlsplit(head)
    port = f":{parts.port}" if parts.port else ""
    # An object store's user is an access key.
    user = f"{parts.username}@" if parts.username and kind != "store" else ""
    address = f"{scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
    return f"{address}#{query}" if query else address


def _is_unclear(source: str) -> bool:
    """Part of a password may be in the place of the port, the path or the query.

    A `/` or a `#` in a password must be escaped. If it is not, no part of the URI may be shown.
    """
    head, query = _cut(source)
    try:
        parts = urlsplit(head)
        port_given = parts.port is not None or parts.netloc.endswith(":")
    except ValueError:
        return True
    return (port_given and "@" in parts.path) or re.search("@[^#]*#", query) is not None


def _kind(source: str) -> str:
    return _SCHEMES[source.partition("://")[0]]


@contextmanager
def _reader(source: str, columns: Collection[str] | None, *, limit: int | None = None) -> Iterator[Any]:
    kind, (uri, what) = _kind(source), _cut(source)
    if kind == "store":
        with _stored_files(source, columns) as reader:
            yield reader
        return
    if kind in ("postgresql", "snowflake") and _is_unclear(source):
        # A driver would take a part of the password for a port, and name it in its message.
        raise InputError(
            f"{public_name(source)}: the address cannot be read; in a password write / as %2F, # as %23, "
            "@ as %40 and ? as %3F, or keep the password in the environment"
        )
    module, remedy = _DRIVERS[kind]
    try:
        importlib.import_module(module.partition(".")[0])
        driver = importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"reading from {_TITLES[kind]} needs {remedy}") from error
    statement = _statement(kind, what, columns, limit, source)
    # The driver's errors may quote the URI: they are shown without it, and not chained.
    try:
        with _connected(kind, driver, uri, source) as connection:
            if kind == "duckdb":
                rows = connection.sql(statement)
                # Its name before version 2.
                yield (getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader)(1 << 16)
                return
            with connection.cursor() as cursor:
                cursor.execute(statement)
                with cursor.fetch_record_batch() as reader:
                    yield reader
    except (driver.Error, pa.ArrowException, OSError) as error:
        reason = _without_secrets(str(error), uri)
        raise InputError(f"{public_name(source)}: the database returned no rows: {reason}") from None


def _connected(kind: str, driver: Any, uri: str, source: str) -> Any:
    """A connection, read-only where the driver supports it."""
    if kind == "postgresql":
        return driver.connect(uri)
    if kind == "snowflake":
        return driver.connect(uri.removeprefix("snowflake://"))
    parts = urlsplit(uri)
    if kind in ("duckdb", "sqlite"):
        path = unquote(parts.netloc + parts.path)
        if not Path(path).is_file():
            raise InputError(f"{public_name(source)}: there is no file {path}")
        # Both would create a file that is missing.
        read_only = (f"file:{path}?mode=ro",) if kind == "sqlite" else (path, True)
        return driver.connect(*read_only)
    dataset = parts.path.strip("/")
    if not parts.netloc or not dataset or "/" in dataset:
        raise InputError(f"{public_name(source)}: write bigquery://project/dataset#table")
    options = {"adbc.bigquery.sql.project_id": parts.netloc, "adbc.bigquery.sql.dataset_id": dataset}
    return driver.connect(db_kwargs=options)


@contextmanager
def _stored_files(source: str, columns: Collection[str] | None) -> Iterator[Any]:
    """Parquet or Arrow files behind a URI. CSV is refused: reading it needs the whole file first."""
    import pyarrow.dataset as ds
    from pyarrow import fs

    form = "feather" if source.endswith((".arrow", ".feather", ".ipc")) else "parquet"
    if source.endswith((".csv", ".csv.gz", ".tsv", ".txt", ".xlsx")):
        raise InputError(
            f"{public_name(source)}: only Parquet and Arrow are read from there; copy the file first"
        )
    try:
        store, path = fs.FileSystem.from_uri(source)
        files = ds.dataset(path, filesystem=store, format=form)
        yield files.scanner(columns=None if columns is None else list(columns)).to_reader()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = _without_secrets(str(error), source)
        raise InputError(f"{public_name(source)}: cannot be read: {reason}") from None


def _cut(source: str) -> tuple[str, str]:
    """The URI and the text after its `#`; a `#` before the `@` belongs to the password."""
    start = source.index("://") + 3
    authority = source[start:].partition("/")[0]
    mark = source.find("#", start + authority.rfind("@") + 1)
    return (source, "") if mark < 0 else (source[:mark], source[mark + 1 :])


def _statement(kind: str, what: str, columns: Collection[str] | None, limit: int | None, source: str) -> str:
    what = what.strip().rstrip(";")
    if not what:
        raise InputError(
            f"{public_name(source)}: name a table or query after '#', as in postgresql://host/base#table"
        )
    mark = "`" if kind == "bigquery" else '"'
    wanted = "*" if columns is None else ", ".join(_quoted(name, mark) for name in columns)
    if _TABLE.fullmatch(what) and kind == "snowflake":
        origin = what  # Snowflake's names are upper case unless quoted: as the user wrote it
    elif _TABLE.fullmatch(what):
        steps = re.findall(r'"[^"]+"|[^".]+', what)
        origin = ".".join(step if step.startswith('"') else _quoted(step, mark) for step in steps)
    else:
        origin = f"({what}) AS source"
    tail = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT {wanted} FROM {origin}{tail}"  # noqa: S608  the query is the user's own; names are quoted


def _quoted(name: str, mark: str) -> str:
    return mark + name.replace(mark, "\\" + mark if mark == "`" else mark * 2) + mark


def _without_secrets(message: str, uri: str) -> str:
    """A driver's message in one line, without the URI and the password."""
    secrets = [uri]
    raw = re.search(r"://[^:/@]*:(.*)@", uri)
    if raw:
        secrets += [raw.group(1), unquote(raw.group(1))]
    secrets += [unquote(password) for password in re.findall(r"[?&]password=([^&]*)", uri)]
    for secret in filter(None, secrets):
        message = message.replace(secret, "***")
    return " ".join(message.split())


def _plain(rows: Any) -> Any:
    """A batch or table with a database's own types as plain ones: a decimal, or text of one, is a number."""
    return type(rows).from_arrays([_plain_array(array) for array in rows.columns], names=rows.schema.names)


def _plain_array(array: Any) -> Any:
    kind = array.type
    if isinstance(kind, pa.OpaqueType):
        array = array.cast(kind.storage_type)
        return array.cast(pa.float64()) if kind.type_name == "numeric" else array
    return array.cast(pa.float64()) if pa.types.is_decimal(kind) else array
