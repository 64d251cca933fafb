"""Find the row that names the columns, below the title rows of an exported report."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ROWS_LOOKED_AT = 30
_NUMBER = re.compile(r"[-+(]?[\d.,' ]*\d[.,]?([eE][-+]?\d+)?[-)%]?")


def names_row(rows: Sequence[Sequence[object]]) -> int | None:
    """Place of the row that seems to name the columns, where the first row seems to be a title.

    The row has different texts that are no numbers for all columns that most rows below it fill; a title
    fills at most half of them.

    Returns:
        None if the first row may name the columns, or no row does.
    """
    for place in range(1, min(len(rows) - 1, _ROWS_LOOKED_AT)):
        below = rows[place + 1 :]
        width = max(map(len, below))
        filled = [
            column
            for column in range(width)
            if sum(_text(row, column) != "" for row in below) > len(below) / 2
        ]
        names = [_text(rows[place], column) for column in filled]
        titles = sum(_text(rows[0], column) != "" for column in filled)
        if (
            len(filled) > 1
            and 2 * titles <= len(filled)
            and len(set(names)) == len(names)
            and all(name and not _NUMBER.fullmatch(name) for name in names)
        ):
            return place
    return None


def _text(row: Sequence[object], column: int) -> str:
    """A cell's text; empty where the row is short."""
    cell = row[column] if column < len(row) else None
    return "" if cell is None else str(cell).strip()
