"""A sheet of an Excel workbook as an Arrow table.

The first row with a value names the columns, unless another row is chosen. Numbers, dates and truth values
keep their types. A column of several types is text, as it would be in a CSV file, and is read by its values
(`text_readings`).
"""

from __future__ import annotations

import datetime as dt
import os
from functools import lru_cache
from typing import Any

import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.tables.title_rows import names_row

_DAY = dt.time(0)


def sheet_table(path: str, sheet: str | None = None, chosen_row: int | None = None) -> Any:
    """The rows of a sheet; without a name, of the only sheet with rows.

    `chosen_row` is the row that names the columns, counted from 1; by default the first one with a value.

    Raises:
        InputError: Not a workbook, several sheets, or none of that name.
    """
    try:
        state = os.stat(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read as an Excel workbook: {error.strerror}") from error
    return _sheet(path, sheet, chosen_row, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=4)
def _sheet(path: str, sheet: str | None, chosen_row: int | None, size: int, changed: int) -> Any:
    try:
        import python_calamine
    except ImportError as error:
        raise InputError(
            "reading Excel files needs the extra [excel]: pip install 'fedvalue[excel]'"
        ) from error
    try:
        book = python_calamine.CalamineWorkbook.from_path(path)
        names = [sheet] if sheet in book.sheet_names else book.sheet_names
        sheets = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in names}
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as an Excel workbook: {reason}") from None
    if sheet is not None and sheet not in sheets:
        raise InputError(f"{path}: has no sheet {sheet!r}; its sheets are {_listed(book.sheet_names)}")
    filled = {name: rows for name, rows in sheets.items() if any(map(_filled, rows[1:]))}
    if sheet is None and len(filled) > 1:
        raise InputError(
            f"{path}: has several sheets with rows; choose one of {_listed(filled)} with --sheet"
        )
    rows = next(iter((filled or sheets).values()), [])
    return _table(path, rows, chosen_row)


def _table(path: str, sheet: list[list[Any]], chosen_row: int | None) -> Any:
    numbers = [k for k, row in enumerate(sheet, start=1) if k >= (chosen_row or 1) and _filled(row)]
    rows = [sheet[k - 1] for k in numbers]
    if not rows:
        where = "" if chosen_row is None else f" from row {chosen_row} on"
        raise InputError(f"{path}: the sheet is empty{where}; its first row names the columns")
    header, *body = rows
    width = max(len(header), *(len(row) for row in body)) if body else len(header)
    names, columns = [], []
    for k in range(width):
        values = [_value(row[k]) if k < len(row) else None for row in body]
        name = _text(_value(header[k])) if k < len(header) else None
        if name is None:
            if any(value is not None for value in values):
                remedy = _names_below(rows, numbers) or "write a name above each column, one row for all"
                raise InputError(
                    f"{path}: column {k + 1} of the sheet has values but no name in row {numbers[0]}; "
                    f"{remedy}"
                )
            continue
        names.append(name)
        columns.append(_column(values))
    return pa.table(columns, names=names)


def _names_below(rows: list[list[Any]], numbers: list[int]) -> str | None:
    """The remedy if the names are below a title."""
    place = names_row(rows)
    if place is None:
        return None
    return f"row {numbers[place]} seems to have the names: --header {numbers[place]} skips those above"


def _filled(row: list[Any]) -> bool:
    return any(_value(cell) is not None for cell in row)


def _value(cell: Any) -> Any:
    """A cell, None if empty; whole numbers as int, and dates as datetimes."""
    if cell is None or (isinstance(cell, str) and not cell):
        return None
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    if isinstance(cell, dt.date) and not isinstance(cell, dt.datetime):
        return dt.datetime.combine(cell, _DAY)
    return cell


def _column(values: list[Any]) -> Any:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int, float}:
        return pa.array(values, pa.float64())
    if len(kinds) <= 1:
        return pa.array(values)
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return repr(value) if isinstance(value, float) else str(value)


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
