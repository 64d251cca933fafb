"""The header and delimiter of a CSV file. Its values are read as text (see `text_readings`)."""

from __future__ import annotations

import csv
import io
import re
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from fedvalue.errors import InputError

BLOCK_BYTES = 4 << 20
"""Bytes that Arrow parses at a time; a few of these are all that a stream holds in memory."""

_DELIMITERS = ",;\t|"
_HEAD_BYTES = 1 << 16
_LONGEST_HEADER = 1 << 20
_HEAD_ROWS = 20
_NUMBER = re.compile(r"\s*[-+]?\d*[.,]?\d+([eE][-+]?\d+)?\s*")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


class CsvHeader(NamedTuple):
    """Column names and the delimiter."""

    names: tuple[str, ...]
    delimiter: str


def csv_header(path: str) -> CsvHeader:
    """Read the first rows of a CSV file.

    The delimiter is the comma, semicolon, tab or bar that cuts the first rows into the same number of
    fields, at least two; among several, the one with most fields, then with most numbers.

    Raises:
        InputError: The file is unreadable, empty, not UTF-8, or repeats a name.
    """
    head = _head(path)
    if not head.strip():
        raise InputError(f"{path}: the file is empty; a CSV file starts with a header line")
    delimiter = max(_DELIMITERS, key=lambda mark: _score(head, mark))
    if _score(head, delimiter) == (0, 0):  # ragged rows: the header alone decides
        bare = _QUOTED.sub("", head.partition("\n")[0])
        delimiter = next((mark for mark in _DELIMITERS if mark in bare), ",")
    names = tuple(next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)))
    refuse_repeated_names(names, path)
    return CsvHeader(names, delimiter)


def refuse_repeated_names(names: tuple[str, ...], where: str) -> None:
    """Refuse columns of one name.

    Raises:
        InputError: Naming them.
    """
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{where}: column names must be distinct, got {', '.join(map(repr, repeated))} twice"
        )


def csv_problem(error: Exception) -> str:
    """Why Arrow refused a CSV file, without the row that its message quotes."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    sizes = re.search(r"Expected (\d+) columns, got (\d+)", str(error))
    if sizes:
        return f"a row has {sizes[2]} values where the header has {sizes[1]}"
    if "invalid UTF8" in str(error):
        return "it is not UTF-8 text; save it as UTF-8"
    return re.sub(r"^Could not open .*?: (Invalid: )?", "", str(error)).split(":", maxsplit=1)[0]


def _head(path: str) -> str:
    """The first rows as text, all of the header among them."""
    try:
        with pa.input_stream(path, compression="detect") as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
            head = text.readline(_LONGEST_HEADER)
            while head.count('"') % 2 and len(head) < _LONGEST_HEADER:  # a name with a line break
                more = text.readline(_LONGEST_HEADER)
                if not more:
                    break
                head += more
            rest = text.read(_HEAD_BYTES)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the file is not UTF-8 text; save it as UTF-8") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as a CSV file: {csv_problem(error)}") from error
    complete = rest if len(rest) < _HEAD_BYTES else rest[: rest.rfind("\n") + 1]
    return head + complete


def _score(head: str, delimiter: str) -> tuple[int, int]:
    """Fields per row and numbers among them; (0, 0) where the rows differ or have one field."""
    rows = list(
        islice(filter(None, csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)), _HEAD_ROWS)
    )
    sizes = {len(row) for row in rows}
    if len(sizes) != 1 or sizes == {1}:
        return 0, 0
    return len(rows[0]), sum(_NUMBER.fullmatch(field) is not None for row in rows[1:] for field in row)
