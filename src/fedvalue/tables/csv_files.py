"""CSV files, with one type per column whatever the size of the file.

Arrow's streaming reader takes the types of the first block for the truth. Here each column gets the
first type, in Arrow's own order, that fits every value of the file, so that a stream and a whole
read agree: values that look like numbers are numbers, and one "n/k" far down makes the column text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv

from fedvalue.errors import InputError

# The order in which Arrow's own inference tries types.
_WIDER = (
    pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"),
    pa.timestamp("ns"), pa.float64(), pa.string(), pa.binary(),
)  # fmt: skip
_MISFIT = re.compile(r"In CSV column #(\d+): CSV conversion error")
_BLOCK = 4 << 20  # bytes; a few of these are all that a stream holds in memory
_HEADER_LIMIT = 1 << 20  # characters of header read at most
_LOOK = 1 << 16  # bytes in which a number tells its decimal point
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_DECIMAL = re.compile(r"(?:^|[;\t|])[-+]?\d*([.,])\d+(?:[eE][-+]?\d+)?(?=[;\t|\r\n])", re.MULTILINE)
_THOUSANDS = re.compile(r"(?<!\d)[1-9]\d{0,2},\d{3}$")  # 1,250 may be either: it is no number of ours


def csv_header(path: str) -> tuple[tuple[str, ...], str]:
    """The column names and the delimiter (comma, or else semicolon, tab or bar).

    Raises:
        InputError: The file is unreadable, empty, not text, or repeats a name.
    """
    try:
        with pa.input_stream(path, compression="detect") as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
            head = text.readline(_HEADER_LIMIT)
            while head.count('"') % 2 and len(head) < _HEADER_LIMIT:
                more = text.readline(_HEADER_LIMIT)
                if not more:
                    break
                head += more
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise InputError(f"{path}: expected a CSV file as UTF-8 text, got {_reason(error)}") from error
    if not head.strip():
        raise InputError(f"{path}: expected a CSV file with a header line, got an empty one")
    bare = _QUOTED.sub("", head)
    delimiter = next((mark for mark in ",;\t|" if mark in bare), ",")
    names = tuple(next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)))
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{path}: expected distinct column names in the header, got {repeated} more than once"
        )
    return names, delimiter


MISFIT = "E_CSV_TYPE"
"""Code of the error when a value does not fit the type that its column's first block suggested."""


def csv_types(
    path: str, columns: Collection[str], text_columns: Collection[str] = (), *, sure: bool = True
) -> dict[str, Any]:
    """The Arrow type of each column, fitting every value of the file.

    Args:
        path: The file; its header has been checked.
        columns: The columns that matter.
        text_columns: Columns to be read as text, such as ids with leading zeros.
        sure: Whether to read the file through; otherwise its first block decides, and if that
            guess is wrong reading raises an InputError of code `MISFIT`.

    Raises:
        InputError: The file cannot be parsed.
    """
    header, _ = csv_header(path)
    types: dict[str, Any] = {name: pa.string() for name in columns if name in text_columns}
    open_columns = [name for name in columns if name not in types]
    while True:
        # Each turn widens one column by one type, so this ends.
        try:
            reader = _open(path, columns, types)
            for name, kind in zip(reader.schema.names, reader.schema.types, strict=True):
                types.setdefault(name, kind)
            for _ in reader if open_columns and sure else ():
                pass
        except pa.ArrowInvalid as error:
            misfit = _MISFIT.search(str(error))
            if misfit is None:
                raise InputError(f"{path}: expected a CSV file, got {_reason(error)}") from None
            name = header[int(misfit.group(1))]
            types[name] = _wider(types.get(name, pa.null()))
        else:
            return types


def common_types(found: list[Mapping[str, Any]]) -> dict[str, Any]:
    """One type per column that fits several files."""
    types = dict(found[0])
    for other in found[1:]:
        for name, kind in other.items():
            types[name] = _common(types[name], kind)
    return types


def csv_batches(path: str, columns: Collection[str], types: Mapping[str, Any]) -> Iterator[Any]:
    """Record batches of a few MiB each.

    Raises:
        InputError: A row does not have as many values as the header.
    """
    try:
        yield from _open(path, columns, types)
    except pa.ArrowInvalid as error:
        code = MISFIT if _MISFIT.search(str(error)) else None
        raise InputError(f"{path}: expected a CSV file, got {_reason(error)}", code=code) from None


def _decimal_point(path: str, delimiter: str) -> str:
    """A comma where the first rows have numbers with one and none with a point, as spreadsheets write them.

    Only where something else separates columns; text with commas is no number. Where all could be thousands
    ("1,250"), nothing is guessed.
    """
    if delimiter == ",":
        return "."
    with pa.input_stream(path, compression="detect") as raw:
        head = raw.read(_LOOK).decode("utf-8", "replace")
    found = list(_DECIMAL.finditer(head))
    commas = {one[1] for one in found} == {","} and not all(_THOUSANDS.search(one[0]) for one in found)
    return "," if commas else "."


def _open(path: str, columns: Collection[str], types: Mapping[str, Any]) -> Any:
    _, delimiter = csv_header(path)
    try:
        return pcsv.open_csv(
            path,
            read_options=pcsv.ReadOptions(block_size=_BLOCK),
            # No handler of invalid rows: Arrow's threads would call it, also while the interpreter ends.
            parse_options=pcsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict(types),
                decimal_point=_decimal_point(path, delimiter),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if _MISFIT.search(str(error)):
            raise
        raise InputError(f"{path}: expected a CSV file with rows, got {_reason(error)}") from None
    except OSError as error:
        raise InputError(f"{path}: expected a readable CSV file, got {_reason(error)}") from error


def _wider(kind: Any) -> Any:
    place = next((k for k, known in enumerate(_WIDER) if known == kind), len(_WIDER) - 3)
    return _WIDER[min(place + 1, len(_WIDER) - 1)]


def _common(a: Any, b: Any) -> Any:
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if {str(a), str(b)} == {"int64", "double"}:
        return pa.float64()
    return pa.string()


def _reason(error: Exception) -> str:
    """What went wrong without the row that Arrow's message quotes."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnicodeDecodeError):
        return "bytes that are not UTF-8"
    sizes = re.search(r"Expected (\d+) columns, got (\d+)", str(error))
    if sizes:
        return f"a row of {sizes.group(2)} values where the header has {sizes.group(1)}"
    if "conversion error" in str(error):
        return "a value of another type than the rest of its column"
    return str(error).split(":", maxsplit=1)[0]
