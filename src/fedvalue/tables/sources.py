"""Find, open and read tables from files, folders and databases.

A source is a CSV, Excel, Parquet or Arrow file, a folder of files of one kind (subfolders `key=value` are
partitions), or the URI of a database or an object store (`sql_source`).

- Every file of a folder must have the wanted columns, and a column has one type in all of them.
- Text is read by its values (`text_readings`), in `read_table` and in the first pass of a stream.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.tables import sql_source
from fedvalue.tables.arrow_columns import is_text
from fedvalue.tables.csv_files import CsvDialect, arrow_options, csv_dialect, refuse_repeated_names
from fedvalue.tables.excel import sheet_table
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.parts import Format, Part, Source, readable, shown
from fedvalue.tables.text_readings import read_by_values

_FORMATS: dict[str, Format] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".arrows": "arrow stream", ".feather": "arrow", ".ipc": "arrow",
    ".xlsx": "excel", ".xls": "excel", ".xlsb": "excel", ".xlsm": "excel", ".ods": "excel",
}  # fmt: skip
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}


def read_table(
    source: Source,
    columns: Sequence[str] | None = None,
    *,
    text_columns: Collection[str] = (),
    options: FileOptions = AS_DETECTED,
) -> Any:
    """A file, folder or database URI as an Arrow table with at least one row.

    Text is read by its values (see `text_readings`), except in `text_columns`, such as ids, which stay text
    even if all values are numbers or dates. `columns` are the wanted ones, in this order; None for all.

    Raises:
        InputError: Unreadable, empty, of an unknown kind, or without a wanted column.
    """
    parts = open_parts(source, columns, text_columns=text_columns, options=options)
    table = pa.Table.from_batches([batch for part in parts for batch in part.batches()], parts[0].schema)
    if table.num_rows == 0:
        raise InputError(f"{shown(source)}: the table has no rows")
    decimals = {part.decimal for part in parts}
    decimal = decimals.pop() if len(decimals) == 1 else "?"
    for k, name in enumerate(table.column_names):
        if is_text(table.schema.types[k]) and name not in text_columns:
            try:
                column = read_by_values(table.column(k), name, decimal, options.dates)
            except InputError as error:
                raise InputError(f"{shown(source)}: {error}") from None
            table = table.set_column(k, name, column)
    return table


def column_names(source: Source, options: FileOptions = AS_DETECTED) -> tuple[str, ...]:
    """The columns of a source (of its first file), without reading rows."""
    return tuple(first_part(source, options).stored.names)


def reading_notes(source: Source, options: FileOptions = AS_DETECTED) -> list[str]:
    """Remarks on the detection of a CSV file's dialect."""
    dialect = first_part(source, options).dialect
    return [] if dialect is None else [f"{shown(source)}: {note}" for note in dialect.notes]


def is_file_name(text: str) -> bool:
    """Tell a source from a column name: a database URI, a file of a known kind, or a folder.

    A folder must be written with a slash, since a column may have the name of a folder.
    """
    if sql_source.is_database(text) or _suffix(Path(text)) in _FORMATS:
        return True
    return "/" in text and Path(text).is_dir()


def first_part(source: Source, options: FileOptions = AS_DETECTED) -> Part:
    """The first file of a source with all its columns, opened but not read."""
    if sql_source.is_database(source):
        return _open_all(source, options)[0]
    files, folder = _files(source)
    return _open_file(files[0], folder, options)


def source_files(source: Source) -> list[Path] | None:
    """The files of a source; None for a database."""
    return None if sql_source.is_database(source) else _files(source)[0]


def source_bytes(source: Source) -> int | None:
    """Size of a source's files; None for a database."""
    files = source_files(source)
    return None if files is None else sum(path.stat().st_size for path in files)


def open_parts(
    source: Source,
    columns: Sequence[str] | None = None,
    *,
    text_columns: Collection[str] = (),
    options: FileOptions = AS_DETECTED,
) -> list[Part]:
    """The files of a source, opened but not read.

    Raises:
        InputError: As in `read_table`; a file of a folder that lacks a column is named.
    """
    parts = _open_all(source, options)
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
    """Refuse a missing column; the error suggests similar names, or lists the columns."""
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


def _open_all(source: Source, options: FileOptions) -> list[Part]:
    """The files behind a source, in the order of their paths, with all their columns."""
    if sql_source.is_database(source):
        uri = str(source)
        schema = sql_source.database_schema(uri)
        parts = [Part(uri, "database", schema, schema, options=options)]
    else:
        files, folder = _files(source)
        parts = [_open_file(path, folder, options) for path in files]
    for part in parts:
        refuse_repeated_names(tuple(part.stored.names), part.name)
    return parts


def _files(source: Source) -> tuple[list[Path], Path]:
    """The files of a source, and the folder in which partitions begin."""
    scheme, is_uri, _ = str(source).partition("://")
    if isinstance(source, str) and is_uri:  # the rest may hold a password
        raise InputError(
            f"{scheme}://… is not supported; use a file, a folder, or a URI of {sql_source.known_schemes()}"
        )
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
    if known in ("csv", "parquet", "excel"):
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
    raise InputError(f"{path}: unknown kind of file; use .csv, .xlsx, .parquet, .arrow or .feather")


def _open_file(path: Path, folder: Path, options: FileOptions) -> Part:
    kind = _format(path)
    steps = [step for step in path.relative_to(folder).parts[:-1] if "=" in step]
    keys = pa.schema([(step.partition("=")[0], pa.string()) for step in steps])
    if kind == "arrow stream":
        with readable(path, kind), pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            return Part(str(path), kind, reader.schema, reader.schema, options=options)
    if kind == "excel":
        schema = sheet_table(str(path), options.sheet, options.header).schema
        return Part(str(path), kind, schema, schema, options=options)
    import pyarrow.dataset as ds

    dialect = csv_dialect(str(path), options) if kind == "csv" else None
    values = ds.partitioning(keys, flavor="hive").parse(str(path.relative_to(folder)))
    stored = pa.schema([]) if dialect is None else pa.schema([(name, pa.string()) for name in dialect.names])
    file_format = _dataset_format(kind, dialect)
    part = Part(str(path), kind, stored, stored, file_format, values, dialect=dialect, options=options)
    if dialect is None:
        with readable(path, kind):
            stored = part.fragment.physical_schema.remove_metadata()
    for key in keys:
        stored = stored if key.name in stored.names else stored.append(key)
    return replace(part, stored=stored, schema=stored)


def _dataset_format(kind: Format, dialect: CsvDialect | None) -> Any:
    import pyarrow.dataset as ds

    if dialect is not None:
        return ds.CsvFileFormat(**arrow_options(dialect))
    if kind == "arrow":
        return ds.IpcFileFormat()
    options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)


def _common_schema(parts: list[Part], wanted: tuple[str, ...], text_columns: Collection[str]) -> Any:
    """One type per wanted column that fits all parts."""
    schemas = [pa.schema([part.stored.field(name) for name in wanted]) for part in parts]
    try:
        merged = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(
            f"{parts[0].name} and the files beside it must store a column in one type: {error}"
        ) from error
    types = {name: merged.field(name).type for name in wanted}
    texts = {name for name in text_columns if name in types and not pa.types.is_nested(types[name])}
    return pa.schema([(name, pa.string() if name in texts else kind) for name, kind in types.items()])
