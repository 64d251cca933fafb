"""The dialect of a CSV file: encoding, delimiter, quotes, decimal mark and names, detected or chosen.

Its values are read as text (see `text_readings`). A file that can be split into columns in two ways is
refused with a message that shows both.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.tables.csv_encoding import (
    Confidence,
    Encoding,
    as_utf8,
    detect_encoding,
    long_fields,
    opened,
    refuse_broken_quotes,
)
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.number_shapes import NumberShapes
from fedvalue.tables.text_readings import MISSING
from fedvalue.tables.title_rows import names_row

BLOCK_BYTES = 4 << 20
"""Bytes that Arrow parses at a time; a few of these are all that a stream holds in memory."""

_DELIMITERS = ",;\t|"
_HEAD_CHARACTERS = 1 << 18
_LONGEST_HEADER = 1 << 20
_HEAD_ROWS = 200
_NUMBER = re.compile(r"\s*[-+]?[\d.,' ]*\d[.,]?([eE][-+]?\d+)?\s*")
_SINGLE_QUOTED = re.compile(r"(?:^|[,;\t|\r\n])'[^'\r\n]*'(?=[,;\t|\r\n]|$)")
_SEPARATOR_LINE = re.compile(r"sep=(.)(?:\r\n?|\n)")
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank"}
_CLEAR = 0.05
"""A delimiter whose cells are this much cleaner than another's is the better one."""


class CsvDialect(NamedTuple):
    """How a CSV file is written.

    Args:
        names: The columns; fields without a name are left out.
        encoding: Python's name of it.
        delimiter: Between fields.
        quote: Around fields.
        escape: Before a quote that belongs to a field; None where such quotes are doubled.
        decimal: The decimal mark, "." or ","; "?" where the numbers fit both; "" where a point is decimal
            unless a column shows otherwise.
        confidence: Of encoding, delimiter and decimal mark.
        notes: Remarks for the user, one sentence each.
        fields: The names of all fields, where Arrow cannot take them from the header.
        skipped: Lines to skip before the rows, if `fields` is set.
    """

    names: tuple[str, ...]
    encoding: str
    delimiter: str
    quote: str
    escape: str | None
    decimal: str
    confidence: dict[str, Confidence]
    notes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    skipped: int = 0

    @property
    def description(self) -> str:
        """As in "CSV, utf-8, semicolon, decimal comma"."""
        delimiter = _NAMES.get(self.delimiter, repr(self.delimiter))
        decimal = {".": ", decimal point", ",": ", decimal comma"}.get(self.decimal, "")
        return f"CSV, {self.encoding}, {delimiter}{decimal}"


def csv_dialect(path: str, options: FileOptions = AS_DETECTED) -> CsvDialect:
    """Detect how a CSV file is written.

    Raises:
        InputError: The file is unreadable, empty, ambiguous, broken by a stray quote, or repeats a name.
    """
    try:
        state = os.stat(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read as a CSV file: {error.strerror}") from error
    return _dialect(path, options, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _dialect(path: str, options: FileOptions, size: int, changed: int) -> CsvDialect:
    encoding = Encoding(options.encoding, "certain") if options.encoding else detect_encoding(path)
    head = _head(path, encoding.name)
    if not head.strip():
        raise InputError(f"{path}: the file is empty; a CSV file starts with a header line")
    named = _SEPARATOR_LINE.match(head)
    above = (1 if named else 0) if options.header is None else options.header - 1
    lines = list(io.StringIO(head, newline=""))
    head = "".join(lines[above:])
    if not head.strip():
        raise InputError(f"{path}: has no line {above + 1} that could name the columns")
    cut, sure = _cut(path, head, options.delimiter or (named[1] if named else None))
    rows = cut.rows(head)
    if options.header is None:
        # Rows of one length are cut as they should be; else the title may have misled the detection.
        _refuse_title(path, head, above, _DELIMITERS if sure == "fair" else cut.delimiter)
    names = tuple(name for name in rows[0] if name.strip())
    if not names:
        raise InputError(f"{path}: the first line names no column; a CSV file starts with a header line")
    refuse_repeated_names(names, path)
    decimal, decimal_sure = _decimal(rows, cut.delimiter, options)
    refuse_broken_quotes(path, encoding.name, cut.delimiter, cut.quote, cut.escape)
    notes = []
    if encoding.confidence == "fair":
        notes.append(f"the text is not UTF-8 and was read as {encoding.name}; --encoding changes that")
    if len(names) > 1 and all(_NUMBER.fullmatch(name) for name in names):
        notes.append("the first line holds numbers only, and was taken for the names of the columns")
    fields = tuple(name if name.strip() else f"no name {k}" for k, name in enumerate(rows[0], start=1))
    notes += [
        f"column {k} has no name in the header and was left out"
        for k, name in enumerate(rows[0], start=1)
        if not name.strip()
    ]
    confidence: dict[str, Confidence] = {
        "encoding": encoding.confidence, "delimiter": sure, "decimal": decimal_sure
    }  # fmt: skip
    return CsvDialect(
        names, encoding.name, cut.delimiter, cut.quote, cut.escape, decimal, confidence, tuple(notes),
        fields=fields if above or fields != names else (),
        skipped=above + cut.header_lines(head),
    )  # fmt: skip


def arrow_options(dialect: CsvDialect) -> dict[str, Any]:
    """Arrow's options for such a file, once its text is UTF-8."""
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

    return {
        # No handler of invalid rows: Arrow's threads would call it, also while the interpreter ends.
        "parse_options": ParseOptions(
            delimiter=dialect.delimiter, quote_char=dialect.quote, escape_char=dialect.escape or False,
            newlines_in_values=True,
        ),
        "read_options": ReadOptions(
            block_size=BLOCK_BYTES,
            # With a line before the header, or unnamed fields, Arrow cannot take the names from the header.
            skip_rows=dialect.skipped if dialect.fields else 0,
            column_names=dialect.fields or None,
        ),
        "convert_options": ConvertOptions(null_values=list(MISSING)),
    }  # fmt: skip


def transcoded_batches(path: str, dialect: CsvDialect, types: Mapping[str, Any]) -> Iterator[Any]:
    """Record batches of a file that is not UTF-8, with columns of these types; its text is held in memory."""
    from pyarrow.csv import open_csv

    options = arrow_options(dialect)
    options["convert_options"].include_columns = list(types)
    options["convert_options"].column_types = dict(types)
    with open_csv(pa.BufferReader(as_utf8(path, dialect.encoding)), **options) as reader:
        yield from reader


def refuse_repeated_names(names: tuple[str, ...], where: str) -> None:
    """Refuse duplicate column names."""
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
        return "it is not UTF-8 text; give its --encoding, or save it as UTF-8"
    if "straddl" in str(error):
        return f"a row is longer than {BLOCK_BYTES >> 20} MB"
    return re.sub(r"^Could not open .*?: (Invalid: )?", "", str(error)).split(":", maxsplit=1)[0]


class _Cut(NamedTuple):
    """A way to cut lines into fields."""

    delimiter: str
    quote: str = '"'
    escape: str | None = None

    def rows(self, head: str, most: int = _HEAD_ROWS) -> list[list[str]]:
        with long_fields():
            return list(islice(filter(None, self._reader(head)), most))

    def _reader(self, head: str) -> Any:
        return csv.reader(
            io.StringIO(head, newline=""), delimiter=self.delimiter, quotechar=self.quote,
            escapechar=self.escape,
        )  # fmt: skip

    def header_lines(self, head: str) -> int:
        """Lines of the header: a quoted name may contain line breaks."""
        reader = self._reader(head)
        with long_fields():
            next(filter(None, reader))
        return int(reader.line_num)


def _cut(path: str, head: str, chosen: str | None) -> tuple[_Cut, Confidence]:
    """The delimiter and quotes that cut the first rows into equally many fields, at least two."""
    quotes: list[tuple[str, str | None]] = [('"', None)]
    if '\\"' in head:
        quotes.append(('"', "\\"))
    if '"' not in head and _SINGLE_QUOTED.search(head):
        quotes.insert(0, ("'", None))
    scores: dict[_Cut, tuple[float, int]] = {}
    for quote, escape in quotes:
        for delimiter in chosen or _DELIMITERS:
            cut = _Cut(delimiter, quote, escape)
            score = _score(head, cut)
            if score is not None and not any(known.delimiter == delimiter for known in scores):
                scores[cut] = score
    if chosen:
        return next(iter(scores), _Cut(chosen)), "certain"
    if not scores:  # one column, or ragged rows: the header alone decides
        bare = re.sub(r'"(?:[^"]|"")*"', "", head.partition("\n")[0])
        return _Cut(max(_DELIMITERS, key=bare.count)), "fair"
    best, *others = sorted(scores, key=lambda cut: scores[cut], reverse=True)
    rivals = [cut for cut in others if scores[cut][0] > scores[best][0] - _CLEAR]
    if rivals:
        readings = " or ".join(
            f"{scores[cut][1]} columns by {_NAMES[cut.delimiter]} ({', '.join(cut.rows(head, 1)[0][:3])}, …)"
            for cut in (best, rivals[0])
        )
        raise InputError(f"{path}: its lines can be split into {readings}; choose with --delimiter")
    return best, "high"


def _refuse_title(path: str, head: str, above: int, delimiters: str) -> None:
    """Refuse a file whose first line is a title, and name the line that has the names."""
    for delimiter in delimiters:
        reader = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
        rows, numbers, before = [], [], above
        with long_fields():
            for row in islice(reader, _HEAD_ROWS):
                if any(cell.strip() for cell in row):
                    rows.append(row)
                    numbers.append(before + 1)
                before = above + reader.line_num
        place = names_row(rows)
        if place is not None and len({len(row) for row in rows[place:]}) == 1:
            raise InputError(
                f"{path}: line {numbers[0]} seems to be a title, and line {numbers[place]} to name the "
                f"columns; --header {numbers[place]} skips those above, --header {numbers[0]} keeps them"
            )


def _score(head: str, cut: _Cut) -> tuple[float, int] | None:
    """Fraction of the cells without another delimiter, and the number of columns; None for ragged rows."""
    rows = cut.rows(head)
    sizes = {len(row) for row in rows}
    if len(sizes) != 1 or sizes == {1}:
        return None
    cells = [cell for row in rows[1:] for cell in row] or rows[0]
    clean = sum(
        not any(mark in cell for mark in _DELIMITERS) or bool(_NUMBER.fullmatch(cell)) for cell in cells
    )
    return clean / len(cells), len(rows[0])


def _decimal(rows: list[list[str]], delimiter: str, options: FileOptions) -> tuple[str, Confidence]:
    """The decimal mark, from the numbers in the first rows."""
    if options.decimal:
        return options.decimal, "certain"
    proven = set()
    for column in zip(*rows[1:], strict=False):
        values = [value for value in column if value.strip()]
        shapes = NumberShapes()
        if values and shapes.look(pa.array(values)) is not None:
            proven |= set(shapes.proven)
    if len(proven) == 1:
        return proven.pop(), "high"
    return ("?" if delimiter != "," or proven else ""), "fair"


def _head(path: str, encoding: str) -> str:
    """The first rows as text, with the whole header."""
    try:
        with opened(path) as raw:
            text = io.TextIOWrapper(raw, encoding=encoding, newline="")
            head = text.readline(_LONGEST_HEADER)
            while head.count('"') % 2 and len(head) < _LONGEST_HEADER:  # a name with a line break
                more = text.readline(_LONGEST_HEADER)
                if not more:
                    break
                head += more
            rest = text.read(_HEAD_CHARACTERS)
    except UnicodeError as error:
        raise InputError(
            f"{path}: the text is not {encoding}; give its --encoding, or save it as UTF-8"
        ) from error
    complete = rest if len(rest) < _HEAD_CHARACTERS else rest[: rest.rfind("\n") + 1]
    return head + complete
