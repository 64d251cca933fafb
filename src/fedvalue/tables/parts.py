"""One file or query of a source: readable by itself, in pieces, and in another process.

Files are fragments of a pyarrow dataset. The columns of a CSV file and the keys of partitions are text.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.errors import InputError
from fedvalue.tables import sql_source
from fedvalue.tables.arrow_columns import as_names, is_text
from fedvalue.tables.csv_encoding import is_utf8
from fedvalue.tables.csv_files import CsvDialect, csv_problem, transcoded_batches
from fedvalue.tables.excel import sheet_table
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.text_readings import MISSING

Source: TypeAlias = str | os.PathLike[str]
Format = Literal["csv", "parquet", "arrow", "arrow stream", "excel", "database"]

BATCH_ROWS = 1 << 16
"""Rows per batch: half a megabyte per column. One that spans two row groups of a file has both in memory."""

PIECE_ROWS = 1 << 20
"""Rows of a piece: half a second of work, so that workers are kept busy and starting one costs little."""

_KINDS = {
    "csv": "a CSV file", "parquet": "a Parquet file", "excel": "an Excel workbook", "database": "rows"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """One file (or query) of a source, readable by itself and in another process.

    Args:
        path: The file, or the database URI (which may contain a password, so it is not shown).
        stored: The columns as they are stored, partition keys included.
        schema: The wanted columns and their types, the same for all parts of a source.
        file_format: How pyarrow.dataset reads it; None for databases and Arrow streams.
        partition: The values of the partition keys, as an expression.
        row_groups: Range of row groups of a Parquet file; all when None.
        dialect: Of a CSV file.
        options: The user's, which override detection.
        labelled: Label column; rows without a label are left out.
    """

    path: str = field(repr=False)
    format: Format
    stored: Any = field(repr=False)
    schema: Any
    file_format: Any = field(default=None, repr=False)
    partition: Any = field(default=None, repr=False)
    row_groups: tuple[int, int] | None = None
    dialect: CsvDialect | None = field(default=None, repr=False)
    options: FileOptions = AS_DETECTED
    labelled: str | None = None

    @property
    def decimal(self) -> str:
        """The decimal mark of numbers in text, as `TextReadings` takes it."""
        return (self.options.decimal or "") if self.dialect is None else self.dialect.decimal

    @property
    def fragment(self) -> Any:
        """The file as a fragment of a dataset, opened for each use: it may have changed."""
        from pyarrow.fs import LocalFileSystem

        whole = self.file_format.make_fragment(self.path, LocalFileSystem(), self.partition)
        if self.row_groups is None:
            return whole
        return whole.subset(row_group_ids=list(range(*self.row_groups)))

    @property
    def description(self) -> str:
        """As in "Parquet" or "Excel, sheet '2024'"."""
        if self.dialect is not None:
            return self.dialect.description
        if self.format == "excel":
            sheet = "" if self.options.sheet is None else f", sheet {self.options.sheet!r}"
            names = "" if self.options.header is None else f", names in row {self.options.header}"
            return f"Excel{sheet}{names}"
        return self.format if self.format == "database" else self.format.capitalize()

    @property
    def name(self) -> str:
        """For messages, without a password."""
        return shown(self.path)

    def pieces(self, piece_rows: int = PIECE_ROWS) -> list[Part]:
        """This file in pieces of about `piece_rows` rows, where its format allows: Parquet."""
        if self.format != "parquet":
            return [self]
        cuts, rows = [0], 0
        with readable(self.path, self.format):
            groups = self.fragment.row_groups
        for k, group in enumerate(groups):
            rows += group.num_rows
            if rows >= piece_rows:
                cuts.append(k + 1)
                rows = 0
        if rows or len(cuts) == 1:
            cuts.append(len(groups))
        return [replace(self, row_groups=cut) for cut in pairwise(cuts)]

    def selected(self, columns: Collection[str]) -> Part:
        """The part with some of its columns."""
        return replace(self, schema=pa.schema([known for known in self.schema if known.name in columns]))

    def with_numbers(self, columns: Collection[str]) -> Part:
        """The part with these text columns of a CSV file parsed as numbers, which is faster than casting."""
        if self.format != "csv" or self.options.missing:  # Arrow would miss such texts with blanks around
            return self
        import pyarrow.dataset as ds

        columns = set(columns) - set(ds.get_partition_keys(self.partition))

        def typed(schema: Any) -> Any:
            return pa.schema(
                [pa.field(known.name, pa.float64()) if known.name in columns else known for known in schema]
            )

        return replace(self, stored=typed(self.stored), schema=typed(self.schema))

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Record batches of at most `batch_rows` rows with the columns of `schema`.

        Raises:
            InputError: The file cannot be read, or has changed since it was opened.
        """
        for batch in _stored_batches(self, batch_rows):
            whole = _conform(batch, self)
            if self.labelled is not None and self.labelled in whole.schema.names:
                whole = with_labels(whole, self.labelled)
            for start in range(0, whole.num_rows, batch_rows):
                yield whole.slice(start, batch_rows)


def with_labels(rows: Any, label: str) -> Any:
    """The rows of a batch or table that have a label."""
    labels = rows.column(label)
    present = pc.is_valid(labels)
    if is_text(labels.type):
        blank = pc.is_in(pc.utf8_trim_whitespace(labels), value_set=pa.array(MISSING, labels.type))
        present = pc.and_(present, pc.invert(blank))
    return rows.filter(present)


def shown(source: Source) -> str:
    """The source for messages, without a password."""
    if isinstance(source, str) and sql_source.is_database(source):
        return sql_source.public_name(source)
    return str(source)


def _sheet(part: Part) -> Any:
    return sheet_table(part.path, part.options.sheet, part.options.header)


def _stored_batches(part: Part, batch_rows: int) -> Iterator[Any]:
    names = part.schema.names
    with readable(part.path, part.format):
        if part.format == "database":
            yield from sql_source.database_batches(part.path, names)
        elif part.format == "excel":
            yield from _sheet(part).select(names).to_batches(batch_rows)
        elif part.format == "arrow stream":
            with pa.memory_map(part.path) as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        elif part.dialect is not None and not is_utf8(part.dialect.encoding):
            yield from _transcoded(part, part.dialect)
        else:
            # A scan of a whole Parquet file reads ahead of a slow reader; one of a row group cannot.
            whole = part.fragment
            for fragment in whole.split_by_row_group() if part.format == "parquet" else [whole]:
                yield from fragment.to_batches(
                    schema=part.stored, columns=names, batch_size=batch_rows, batch_readahead=2
                )


def _transcoded(part: Part, dialect: CsvDialect) -> Iterator[Any]:
    """Batches of a CSV file that is not UTF-8, with the keys of its partition."""
    import pyarrow.dataset as ds

    keys = ds.get_partition_keys(part.partition) if part.partition is not None else {}
    types = {name: part.stored.field(name).type for name in part.stored.names if name in dialect.names}
    for batch in transcoded_batches(part.path, dialect, types):
        arrays = [
            batch.column(name) if name in types else pa.repeat(keys[name], batch.num_rows)
            for name in part.schema.names
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=part.schema.names)


@contextmanager
def readable(path: Source, kind: Format) -> Iterator[None]:
    """Turn errors of Arrow and the system into an InputError with the file's name."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        what = _KINDS.get(kind, "an Arrow file")
        raise InputError(f"{shown(path)}: cannot be read as {what}: {csv_problem(error)}") from None


def _conform(batch: Any, part: Part) -> Any:
    """The batch with the wanted columns, in order and in their types, and nulls for the user's `missing`."""
    arrays = []
    for wanted in part.schema:
        array = batch.column(wanted.name)
        array = array if array.type == wanted.type else _cast(array, wanted, part)
        if part.options.missing and is_text(array.type):
            missing = pa.array(part.options.missing, array.type)
            absent = pc.is_in(pc.utf8_trim_whitespace(array), value_set=missing)
            array = pc.if_else(absent, pa.scalar(None, array.type), array)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=part.schema)


def _cast(array: Any, wanted: Any, part: Part) -> Any:
    """The values in another type. Whole numbers beyond 2^53 become the nearest floats."""
    try:
        if is_text(wanted.type) and (pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)):
            return as_names(array).cast(wanted.type)  # 7.0 is the name 7, in a stream and in memory
        return array.cast(wanted.type, safe=not pa.types.is_floating(wanted.type))
    except pa.ArrowException as error:
        raise InputError(
            f"{part.name}: column {wanted.name!r} has values of type {array.type} that do not fit the type "
            f"{wanted.type} of the files beside it"
        ) from error
