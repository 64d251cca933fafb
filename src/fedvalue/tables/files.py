"""Tables from files and databases, whole or in batches.

A source is a CSV, Parquet or Arrow file, a folder of files of one of these kinds (Parquet folders
may be partitioned as `key=value`), or a database URI (`database.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.tables.parts import BATCH_ROWS, Part, names_of, open_parts, with_types
from fedvalue.tables.sources import Source, find, shown


def read_table(
    source: Source, columns: Sequence[str] | None = None, *, text_columns: Collection[str] = ()
) -> Any:
    """A source as one Arrow table.

    Args:
        source: A file, a folder or a database URI.
        columns: The columns wanted, in this order; all when None.
        text_columns: Columns read as text whatever they look like, such as ids with leading zeros.

    Returns:
        A pyarrow.Table with at least one row.

    Raises:
        InputError: Unreadable, empty, of an unknown kind, or without a wanted column.
    """

    def read(parts: list[Part]) -> Any:
        batches = [batch for part in parts for batch in part.batches()]
        return pa.Table.from_batches(batches, parts[0].schema)

    table = with_types(lambda sure: open_parts(source, columns, text_columns=text_columns, sure=sure), read)
    if table.num_rows == 0:
        raise InputError(f"{shown(source)}: expected at least one row, got none")
    return table


def iter_batches(
    source: Source,
    columns: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    *,
    text_columns: Collection[str] = (),
) -> Iterator[Any]:
    """A source as Arrow record batches, a few at a time in memory. Arguments as in `read_table`."""
    for part in open_parts(source, columns, text_columns=text_columns):
        yield from part.batches(batch_rows)


def column_names(source: Source) -> tuple[str, ...]:
    """The columns of a source (of its first file), without reading rows."""
    part, *_ = find(source)
    return names_of(part)
