"""The files behind a source: found, looked at, and read one by one.

Every file of a folder must have the wanted columns, and a column has one type in all of them, which
is decided before a row is counted. A `Part` can be sent to another process.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from fedvalue.errors import InputError
from fedvalue.tables import csv_files
from fedvalue.tables import sql_source as database
from fedvalue.tables.sources import Format, Location, Source, find, shown

T = TypeVar("T")

BATCH_ROWS = 1 << 16
"""Rows per batch: half a megabyte per column. One that spans two row groups of a file has both in memory."""

PIECE_ROWS = 1 << 20
"""Rows of a piece: half a second of work, so that workers are kept busy and starting one costs little."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file (or query) of a source, readable by itself and in another process.

    Args:
        path: The file, or the database URI.
        format: How to read it.
        schema: The wanted columns and their types, the same for all parts of a source.
        constants: Values of columns that the folder's name gives (`key=value`).
        row_groups: Which row groups of a Parquet file, from and up to; all when None.
    """

    path: str = field(repr=False)
    format: Format
    schema: Any
    constants: tuple[tuple[str, str], ...] = ()
    row_groups: tuple[int, int] | None = None

    def pieces(self, piece_rows: int = PIECE_ROWS) -> list[Part]:
        """This file in pieces of about `piece_rows` rows, where its format allows: Parquet."""
        if self.format != "parquet":
            return [self]
        try:
            footer = pq.read_metadata(self.path)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self, error) from error
        cuts, rows = [0], 0
        for k in range(footer.num_row_groups):
            rows += footer.row_group(k).num_rows
            if rows >= piece_rows:
                cuts.append(k + 1)
                rows = 0
        if rows or len(cuts) == 1:
            cuts.append(footer.num_row_groups)
        return [replace(self, row_groups=cut) for cut in pairwise(cuts)]

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Record batches of at most `batch_rows` rows with the columns of `schema`.

        Raises:
            InputError: The file cannot be read, or has changed since it was looked at.
        """
        for batch in _raw_batches(self, batch_rows):
            whole = _conform(batch, self)
            for start in range(0, whole.num_rows, batch_rows):
                yield whole.slice(start, batch_rows)


def open_parts(
    source: Source,
    columns: Sequence[str] | None = None,
    *,
    text_columns: Collection[str] = (),
    sure: bool = True,
) -> list[Part]:
    """The files of a source, looked at but not read.

    A CSV has to be read through to learn its types; with `sure=False` they are guessed from its
    first block (see `with_types`).

    Raises:
        InputError: As in `read_table`; a file of a folder that lacks a column is named.
    """
    found = find(source)
    wanted = tuple(columns) if columns is not None else names_of(found[0])
    _check_distinct(wanted, "the wanted columns")
    for part in found:
        _check_columns(wanted, names_of(part), shown(part.path))
    schema = _common_schema(found, wanted, text_columns, sure)
    return [Part(part.path, part.format, schema, part.constants) for part in found]


def with_types(open_files: Callable[[bool], list[Part]], work: Callable[[list[Part]], T]) -> T:
    """Work on files whose CSV types are guessed, and once more on sure ones if a guess was wrong.

    The guess is nearly always right, and then a CSV is read once less.

    Args:
        open_files: Opens the files; its argument is the `sure` of `open_parts`.
        work: Reads them through, so that a wrong guess shows.
    """
    try:
        return work(open_files(False))
    except InputError as error:
        if error.code != csv_files.MISFIT:
            raise
    return work(open_files(True))


def names_of(part: Location) -> tuple[str, ...]:
    """The columns of one file or query, those of its folder's name included."""
    if part.format == "csv":
        names, _ = csv_files.csv_header(part.path)
    else:
        names = tuple(_file_schema(part).names)
    names = (*names, *(key for key, _ in part.constants if key not in names))
    _check_distinct(names, shown(part.path))
    return names


def _file_schema(part: Location) -> Any:
    try:
        if part.format == "parquet":
            return pq.read_schema(part.path)
        if part.format == "database":
            return database.database_schema(part.path)
        with pa.memory_map(part.path) as file:
            return _open_arrow(file).schema
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(part, error) from error


def _common_schema(
    parts: list[Location], wanted: tuple[str, ...], text_columns: Collection[str], sure: bool
) -> Any:
    """One type per wanted column that fits all parts."""
    schemas = []
    if parts[0].format == "csv":
        inside = [[name for name in wanted if name not in dict(part.constants)] for part in parts]
        types = csv_files.common_types(
            [
                csv_files.csv_types(part.path, names, text_columns, sure=sure)
                for part, names in zip(parts, inside, strict=True)
            ]
        )
        schemas.append(pa.schema(list(types.items())))
    else:
        for part in parts:
            schema = _file_schema(part)
            schemas.append(pa.schema([schema.field(name) for name in wanted if name in schema.names]))
    keys = {key for part in parts for key, _ in part.constants}
    given = pa.schema([(key, _constant_type(parts, key)) for key in keys])
    try:
        merged = reduce(_merged, [*schemas, given])
    except pa.ArrowException as error:
        raise InputError(
            f"{shown(parts[0].path)} and the files beside it: expected one type per column, got {error}"
        ) from error
    return pa.schema([_as_text(merged.field(name), text_columns) for name in wanted])


def _merged(a: Any, b: Any) -> Any:
    return a if a.equals(b) else pa.unify_schemas([a, b], promote_options="permissive")


def _constant_type(parts: list[Location], key: str) -> Any:
    values = [value for part in parts for name, value in part.constants if name == key]
    return pa.int64() if all(value.lstrip("-").isdigit() for value in values) else pa.string()


def _as_text(known: Any, text_columns: Collection[str]) -> Any:
    if known.name in text_columns and not pa.types.is_nested(known.type):
        return pa.field(known.name, pa.string())
    return pa.field(known.name, known.type)


def _raw_batches(part: Part, batch_rows: int) -> Iterator[Any]:
    try:
        if part.format == "csv":
            names = [name for name in part.schema.names if name not in dict(part.constants)]
            types = {name: part.schema.field(name).type for name in names}
            yield from csv_files.csv_batches(part.path, names, types)
        elif part.format == "database":
            yield from database.database_batches(part.path, part.schema.names)
        elif part.format == "parquet":
            with pq.ParquetFile(part.path, pre_buffer=False) as file:
                inside = [name for name in part.schema.names if name in file.schema_arrow.names]
                groups = None if part.row_groups is None else list(range(*part.row_groups))
                yield from file.iter_batches(batch_size=batch_rows, columns=inside, row_groups=groups)
        else:
            with pa.memory_map(part.path) as file:
                yield from _arrow_batches(file)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(part, error) from error


def _open_arrow(file: Any) -> Any:
    """An Arrow file (also Feather), or else a stream."""
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file)


def _arrow_batches(file: Any) -> Iterator[Any]:
    reader = _open_arrow(file)
    if hasattr(reader, "num_record_batches"):
        for k in range(reader.num_record_batches):
            yield reader.get_batch(k)
    else:
        yield from reader


def _conform(batch: Any, part: Part) -> Any:
    """The batch with the wanted columns in order and in their types."""
    constants = dict(part.constants)
    arrays = []
    for wanted in part.schema:
        if wanted.name in batch.schema.names:
            array = batch.column(wanted.name)
        else:
            array = pa.array([constants[wanted.name]] * batch.num_rows, pa.string())
        arrays.append(array if array.type == wanted.type else _cast(array, wanted, part))
    return pa.RecordBatch.from_arrays(arrays, schema=part.schema)


def _cast(array: Any, wanted: Any, part: Part) -> Any:
    """The values in another type. Whole numbers beyond 2^53 become the nearest floats."""
    try:
        return array.cast(wanted.type, safe=not pa.types.is_floating(wanted.type))
    except pa.ArrowException as error:
        raise InputError(
            f"{shown(part.path)}: column {wanted.name!r}: expected values that fit the type {wanted.type} of "
            f"the files beside it, got others of type {array.type}"
        ) from error


def _check_columns(wanted: Sequence[str], available: Sequence[str], where: str) -> None:
    for name in wanted:
        if name in available:
            continue
        close = difflib.get_close_matches(name, available, n=3, cutoff=0.6)
        shown = ", ".join(repr(item) for item in close or available[:10])
        hint = "close to it are" if close else "there are"
        more = "" if close or len(available) <= 10 else f" and {len(available) - 10} more"
        raise InputError(f"{where}: expected a column {name!r}, got none; {hint} {shown}{more}")


def _check_distinct(names: Sequence[str], where: str) -> None:
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise InputError(f"{where}: expected distinct column names, got {repeated} more than once")


def _unreadable(part: Part | Location, error: Exception) -> InputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n")[0]
    kind = {"csv": "a CSV file", "parquet": "a Parquet file", "arrow": "an Arrow file"}.get(
        part.format, "rows"
    )
    return InputError(f"{shown(part.path)}: expected {kind}, got {reason}")
