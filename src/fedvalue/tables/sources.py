"""Tables from files, folders and databases, whole or in batches.

A source is a CSV, Parquet or Arrow file, a folder of files of one of these kinds (its subfolders may
be partitions, `key=value`), or a database URI (`sql_source`). Files are read through pyarrow.dataset.

- Every file of a folder must have the wanted columns, and a column has one type in all of them.
- A part's CSV columns and partition keys are text; `text_readings` says what is a number.
- A `Part` is one file or query. It can be sent to another process.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.tables import sql_source
from fedvalue.tables.arrow_columns import is_text
from fedvalue.tables.csv_files import BLOCK_BYTES, CsvHeader, csv_header, csv_problem, refuse_repeated_names
from fedvalue.tables.text_readings import MISSING, read_by_values

Source: TypeAlias = str | os.PathLike[str]
Format = Literal["csv", "parquet", "arrow", "arrow stream", "database"]

BATCH_ROWS = 1 << 16
"""Rows per batch: half a megabyte per column. One that spans two row groups of a file has both in memory."""

PIECE_ROWS = 1 << 20
"""Rows of a piece: half a second of work, so that workers are kept busy and starting one costs little."""

_FORMATS: dict[str, Format] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".arrows": "arrow stream", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
_KINDS = {"csv": "a CSV file", "parquet": "a Parquet file", "arrow": "an Arrow file"}


@dataclass(frozen=True, slots=True)
class Part:
    """One file (or query) of a source, readable by itself and in another process.

    Args:
        path: The file, or the database URI (which may hold a password, so it is not shown).
        format: How to read it.
        stored: The columns as they are stored, partition keys included.
        schema: The wanted columns and their types, the same for all parts of a source.
        file_format: How pyarrow.dataset reads it; None for databases and Arrow streams.
        partition: The values of the partition keys, as an expression.
        row_groups: Which row groups of a Parquet file, from and up to; all when None.
    """

    path: str = field(repr=False)
    format: Format
    stored: Any = field(repr=False)
    schema: Any
    file_format: Any = field(default=None, repr=False)
    partition: Any = field(default=None, repr=False)
    row_groups: tuple[int, int] | None = None

    @property
    def fragment(self) -> Any:
        """The file as a fragment of a dataset, opened for each use: it may have changed."""
        from pyarrow.fs import LocalFileSystem

        whole = self.file_format.make_fragment(self.path, LocalFileSystem(), self.partition)
        if self.row_groups is None:
            return whole
        return whole.subset(row_group_ids=list(range(*self.row_groups)))

    @property
    def name(self) -> str:
        """The part as messages may show it."""
        return shown(self.path)

    def pieces(self, piece_rows: int = PIECE_ROWS) -> list[Part]:
        """This file in pieces of about `piece_rows` rows, where its format allows: Parquet."""
        if self.format != "parquet":
            return [self]
        cuts, rows = [0], 0
        with _readable(self.path, self.format):
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
        if self.format != "csv":
            return self

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
            for start in range(0, whole.num_rows, batch_rows):
                yield whole.slice(start, batch_rows)


def read_table(
    source: Source, columns: Sequence[str] | None = None, *, text_columns: Collection[str] = ()
) -> Any:
    """A source as one Arrow table, its text read by its values (see `text_readings`).

    Args:
        source: A file, a folder or a database URI.
        columns: The columns wanted, in this order; all when None.
        text_columns: Columns to return as text whatever it spells, such as ids.

    Returns:
        A pyarrow.Table with at least one row.

    Raises:
        InputError: Unreadable, empty, of an unknown kind, or without a wanted column.
    """
    parts = open_parts(source, columns, text_columns=text_columns)
    table = pa.Table.from_batches([batch for part in parts for batch in part.batches()], parts[0].schema)
    if table.num_rows == 0:
        raise InputError(f"{shown(source)}: the table has no rows")
    for k, name in enumerate(table.column_names):
        if is_text(table.schema.types[k]) and name not in text_columns:
            table = table.set_column(k, name, read_by_values(table.column(k)))
    return table


def column_names(source: Source) -> tuple[str, ...]:
    """The columns of a source (of its first file), without reading rows."""
    return tuple(_open_all(source)[0].stored.names)


def source_bytes(source: Source) -> int | None:
    """Size of a source's files; None for a database."""
    if sql_source.is_database(source):
        return None
    return sum(path.stat().st_size for path in _files(source)[0])


def open_parts(
    source: Source, columns: Sequence[str] | None = None, *, text_columns: Collection[str] = ()
) -> list[Part]:
    """The files of a source, opened but not read.

    Raises:
        InputError: As in `read_table`; a file of a folder that lacks a column is named.
    """
    parts = _open_all(source)
    wanted = tuple(columns) if columns is not None else tuple(parts[0].stored.names)
    refuse_repeated_names(wanted, "the wanted columns")
    for part in parts:
        refuse_unknown_columns(wanted, part.stored.names, part.name)
    schema = _common_schema(parts, wanted, text_columns)
    return [
        replace(part, schema=schema, stored=pa.schema([part.stored.field(name) for name in wanted]))
        for part in parts
    ]


def refuse_unknown_columns(wanted: Sequence[str], available: Sequence[str], where: str) -> None:
    """Refuse a wanted column that is not there.

    Raises:
        InputError: With the names that come close, or else with those there are.
    """
    for name in wanted:
        if name in available:
            continue
        close = difflib.get_close_matches(name, available, n=3, cutoff=0.6)
        if close:
            hint = f"did you mean {' or '.join(repr(item) for item in close)}?"
        else:
            more = "" if len(available) <= 10 else f" and {len(available) - 10} more"
            hint = f"the columns are {', '.join(repr(item) for item in available[:10])}{more}"
        raise InputError(f"{where}: column {name!r} not found; {hint}")


def shown(source: Source) -> str:
    """The source as messages may show it: no password."""
    if isinstance(source, str) and sql_source.is_database(source):
        return sql_source.public_name(source)
    return str(source)


def _open_all(source: Source) -> list[Part]:
    """The files behind a source, in the order of their paths, with all their columns."""
    if sql_source.is_database(source):
        uri = str(source)
        schema = sql_source.database_schema(uri)
        parts = [Part(uri, "database", schema, schema)]
    else:
        files, folder = _files(source)
        parts = [_open_file(path, _format(path), folder) for path in files]
    for part in parts:
        refuse_repeated_names(tuple(part.stored.names), part.name)
    return parts


def _files(source: Source) -> tuple[list[Path], Path]:
    """The files of a source, and the folder in which partitions begin."""
    scheme, is_uri, _ = str(source).partition("://")
    if isinstance(source, str) and is_uri:  # the rest may hold a password
        raise InputError(f"{scheme}://… is not supported; use a file, a folder or postgresql://")
    path = Path(source)
    if path.is_dir():
        return _files_in(path), path
    if not path.exists():
        raise InputError(f"{path}: no such file or directory")
    return [path], path.parent


def _files_in(folder: Path) -> list[Path]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)
        and _suffix(path) in _FORMATS
    )
    formats = sorted({_format(path) for path in files})
    if len(formats) != 1:
        got = f"files of the kinds {' and '.join(formats)}" if formats else "no such file"
        raise InputError(f"{folder}: a folder must hold Parquet, CSV or Arrow files of one kind, got {got}")
    return files


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _COMPRESSED else suffix


def _format(path: Path) -> Format:
    known = _FORMATS.get(_suffix(path))
    if known in ("csv", "parquet"):
        return known
    try:
        with path.open("rb") as file:
            magic = file.read(6)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if magic == b"ARROW1":
        return "arrow"
    if known is not None:
        return "arrow stream"
    if magic.startswith(b"PAR1"):
        return "parquet"
    raise InputError(f"{path}: unknown kind of file; use .csv, .parquet, .arrow or .feather")


def _open_file(path: Path, kind: Format, folder: Path) -> Part:
    steps = [step for step in path.relative_to(folder).parts[:-1] if "=" in step]
    keys = pa.schema([(step.partition("=")[0], pa.string()) for step in steps])
    if kind == "arrow stream":
        with _readable(path, kind), pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            return Part(str(path), kind, reader.schema, reader.schema)
    import pyarrow.dataset as ds

    header = csv_header(str(path)) if kind == "csv" else None
    values = ds.partitioning(keys, flavor="hive").parse(str(path.relative_to(folder)))
    stored = pa.schema([]) if header is None else pa.schema([(name, pa.string()) for name in header.names])
    part = Part(str(path), kind, stored, stored, _dataset_format(kind, header), values)
    if header is None:
        with _readable(path, kind):
            stored = part.fragment.physical_schema.remove_metadata()
    for key in keys:
        stored = stored if key.name in stored.names else stored.append(key)
    return replace(part, stored=stored, schema=stored)


def _dataset_format(kind: Format, header: CsvHeader | None) -> Any:
    import pyarrow.dataset as ds
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

    if header is not None:
        return ds.CsvFileFormat(
            # No handler of invalid rows: Arrow's threads would call it, also while the interpreter ends.
            parse_options=ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
            read_options=ReadOptions(block_size=BLOCK_BYTES),
            convert_options=ConvertOptions(null_values=list(MISSING)),
        )
    if kind == "arrow":
        return ds.IpcFileFormat()
    options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)


def _common_schema(parts: list[Part], wanted: tuple[str, ...], text_columns: Collection[str]) -> Any:
    """One type per wanted column that fits all parts."""
    schemas = [pa.schema([part.stored.field(name) for name in wanted]) for part in parts]
    try:
        merged = reduce(_merged, schemas)
    except pa.ArrowException as error:
        raise InputError(
            f"{parts[0].name} and the files beside it must store a column in one type: {error}"
        ) from error
    return pa.schema([_as_text(merged.field(name), text_columns) for name in wanted])


def _merged(a: Any, b: Any) -> Any:
    return a if a.equals(b) else pa.unify_schemas([a, b], promote_options="permissive")


def _as_text(known: Any, text_columns: Collection[str]) -> Any:
    if known.name in text_columns and not pa.types.is_nested(known.type):
        return pa.field(known.name, pa.string())
    return pa.field(known.name, known.type)


def _stored_batches(part: Part, batch_rows: int) -> Iterator[Any]:
    names = part.schema.names
    with _readable(part.path, part.format):
        if part.format == "database":
            yield from sql_source.database_batches(part.path, names)
        elif part.format == "arrow stream":
            with pa.memory_map(part.path) as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        else:
            # A scan of a whole Parquet file reads ahead of a slow reader; one of a row group cannot.
            whole = part.fragment
            for fragment in whole.split_by_row_group() if part.format == "parquet" else [whole]:
                yield from fragment.to_batches(
                    schema=part.stored, columns=names, batch_size=batch_rows, batch_readahead=2
                )


@contextmanager
def _readable(path: Source, kind: Format) -> Iterator[None]:
    """Turn Arrow's and the system's errors into one that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        what = _KINDS.get(kind, "rows" if kind == "database" else "an Arrow file")
        raise InputError(f"{shown(path)}: cannot be read as {what}: {csv_problem(error)}") from None


def _conform(batch: Any, part: Part) -> Any:
    """The batch with the wanted columns in order and in their types."""
    arrays = []
    for wanted in part.schema:
        array = batch.column(wanted.name)
        arrays.append(array if array.type == wanted.type else _cast(array, wanted, part))
    return pa.RecordBatch.from_arrays(arrays, schema=part.schema)


def _cast(array: Any, wanted: Any, part: Part) -> Any:
    """The values in another type. Whole numbers beyond 2^53 become the nearest floats."""
    try:
        return array.cast(wanted.type, safe=not pa.types.is_floating(wanted.type))
    except pa.ArrowException as error:
        raise InputError(
            f"{part.name}: column {wanted.name!r} has values of type {array.type} that do not fit the type "
            f"{wanted.type} of the files beside it"
        ) from error
