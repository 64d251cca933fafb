"""Tables from a PostgreSQL database, through ADBC, as Arrow batches.

A source is a connection URI with the table or query after a `#`:
`postgresql://user@host:5432/base#schema.table` or `postgresql://…/base#select a, b from t`. The
password may come from PGPASSWORD or a password file, as for every PostgreSQL client. A password in the
URI appears in no message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from fedvalue.errors import InputError

_TABLE = re.compile(r'(?:"[^"]+"|[^\s".();]+)(?:\.(?:"[^"]+"|[^\s".();]+))*')


def is_database(source: object) -> bool:
    """Whether a source is a connection URI."""
    return isinstance(source, str) and source.startswith(("postgresql://", "postgres://"))


def database_schema(source: str) -> Any:
    """The columns of the table or query and their plain types, without reading rows.

    Raises:
        InputError: The database cannot be reached, or does not answer the query.
    """
    with _reader(source, None, limit=0) as reader:
        return _plain(pa.Table.from_batches([], reader.schema)).schema


def database_batches(source: str, columns: Collection[str] | None) -> Iterator[Any]:
    """Record batches as the database sends them.

    Raises:
        InputError: The database cannot be reached, or does not answer the query.
    """
    with _reader(source, columns) as reader:
        for batch in reader:
            yield _plain(batch)


def public_name(source: str) -> str:
    """The source as it may be shown: no password."""
    head, query = _cut(source)
    try:
        parts = urlsplit(head)
        port = f":{parts.port}" if parts.port else ""
        who = f"{parts.username}@" if parts.username else ""
        where = f"postgresql://{who}{parts.hostname or ''}{port}{parts.path}"
    except ValueError:
        where = "postgresql://…"
    return f"{where}#{query}" if query else where


@contextmanager
def _reader(source: str, columns: Collection[str] | None, *, limit: int | None = None) -> Iterator[Any]:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise InputError(
            "reading from PostgreSQL needs the extra [postgres]: pip install 'fedvalue[postgres]'"
        ) from error
    uri, what = _cut(source)
    statement = _statement(what, columns, limit, source)
    # The driver's errors may quote the URI: they are shown without it, and not chained.
    try:
        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            with cursor.fetch_record_batch() as reader:
                yield reader
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        reason = _without_secrets(str(error), uri)
        raise InputError(f"{public_name(source)}: the database returned no rows: {reason}") from None


def _cut(source: str) -> tuple[str, str]:
    """The URI and what stands behind its `#`; a `#` before the `@` belongs to the password."""
    start = source.index("://") + 3
    authority = source[start:].partition("/")[0]
    mark = source.find("#", start + authority.rfind("@") + 1)
    return (source, "") if mark < 0 else (source[:mark], source[mark + 1 :])


def _statement(what: str, columns: Collection[str] | None, limit: int | None, source: str) -> str:
    what = what.strip().rstrip(";")
    if not what:
        raise InputError(
            f"{public_name(source)}: name a table or query after '#', as in postgresql://host/base#table"
        )
    wanted = "*" if columns is None else ", ".join(_quoted(name) for name in columns)
    if _TABLE.fullmatch(what):
        origin = ".".join(part if part.startswith('"') else _quoted(part) for part in _split(what))
    else:
        origin = f"({what}) AS source"
    tail = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT {wanted} FROM {origin}{tail}"  # noqa: S608  the query is the user's own; names are quoted


def _split(table: str) -> list[str]:
    return re.findall(r'"[^"]+"|[^".]+', table)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _without_secrets(message: str, uri: str) -> str:
    """A driver's message in one line, without the URI and the password."""
    secrets = [uri]
    raw = re.search(r"://[^:/@]*:(.*)@", uri)
    if raw:
        secrets += [raw.group(1), unquote(raw.group(1))]
    secrets += [unquote(found) for found in re.findall(r"[?&]password=([^&]*)", uri)]
    for secret in secrets:
        if secret:
            message = message.replace(secret, "***")
    return " ".join(message.split())


def _plain(rows: Any) -> Any:
    """A batch or table with PostgreSQL's own types as plain ones: `numeric`, sent as text, is a number."""
    return type(rows).from_arrays([_plain_array(array) for array in rows.columns], names=rows.schema.names)


def _plain_array(array: Any) -> Any:
    kind = array.type
    if not isinstance(kind, pa.OpaqueType):
        return array
    if isinstance(array, pa.ChunkedArray):
        plain = [_plain_array(chunk) for chunk in array.chunks] or [_plain_array(pa.array([], kind))]
        return pa.chunked_array(plain)
    return array.storage.cast(pa.float64()) if kind.type_name == "numeric" else array.storage
