"""Tables from files, folders and databases: found, opened, and read at once.

A source is a CSV, Parquet or Arrow file, a folder of files of one of these kinds (its subfolders may
be partitions, `key=value`), or a database URI (`sql_source`).

- Every file of a folder must have the wanted columns, and a column has one type in all of them.
- Text is read by its values (`text_readings`), in `read_table` and in the first pass of a stream.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.tables import sql_source
from fedvalue.tables.arrow_columns import is_text
from fedvalue.tables.csv_files import BLOCK_BYTES, CsvHeader, csv_header, refuse_repeated_names
from fedvalue.tables.parts import Format, Part, Source, readable, shown
from fedvalue.tables.text_readings import MISSING, read_by_values

_FORMATS: dict[str, Format] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".arrows": "arrow stream", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}


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
        with readable(path, kind), pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            return Part(str(path), kind, reader.schema, reader.schema)
    import pyarrow.dataset as ds

    header = csv_header(str(path)) if kind == "csv" else None
    values = ds.partitioning(keys, flavor="hive").parse(str(path.relative_to(folder)))
    stored = pa.schema([]) if header is None else pa.schema([(name, pa.string()) for name in header.names])
    part = Part(str(path), kind, stored, stored, _dataset_format(kind, header), values)
    if header is None:
        with readable(path, kind):
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
