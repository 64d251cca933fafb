"""Prices from a file, as spreadsheets of any country write them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from fedvalue.decisions.money import amount
from fedvalue.errors import InputError

_HEADER = ("party", "price")


def read_prices(path: str | Path) -> dict[str, Decimal]:
    """Prices from a table with the columns party and price.

    A plain CSV file needs no header. Everything else, such as semicolons, decimal commas or a workbook, is
    read as the tables of parties are; columns beside these two are ignored.
    """
    lines = _plain_lines(path)
    parties, texts = zip(*lines, strict=True) if lines else _columns(path)
    prices: dict[str, Decimal] = {}
    for name, text in zip((name.strip() for name in parties), texts, strict=True):
        if name in prices:
            raise InputError(f"{path}: party {name!r} has two prices")
        prices[name] = amount(text, f"the price of party {name!r}")
    return prices


def _plain_lines(path: str | Path) -> list[list[str]]:
    """The lines below the header of a UTF-8 file with a comma in every line; empty for any other file."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error):
        return []
    if any(len(row) != 2 for row in lines):
        return []
    return lines[1:] if lines and _folded(lines[0]) == _HEADER else lines


def _columns(path: str | Path) -> tuple[list[str], list[object]]:
    """The columns of any other table."""
    from fedvalue.tables.sources import column_names, first_part, read_table

    names = {name.strip().lower(): name for name in column_names(str(path))}
    if not set(_HEADER) <= set(names):
        raise InputError(f"{path}: expected the columns party and price, got {', '.join(names.values())}")
    wanted = [names[name] for name in _HEADER]
    table = read_table(str(path), wanted, text_columns=wanted)
    rows = zip(*(table.column(name).to_pylist() for name in wanted), strict=True)
    filled = [(party or "", price or "") for party, price in rows if party or price]
    parties, texts = [party for party, _ in filled], [price for _, price in filled]
    if not filled:
        raise InputError(f"{path}: has no prices")
    is_csv = first_part(str(path)).dialect is not None
    return parties, _numbers(path, texts) if is_csv and all(texts) else list(texts)


def _numbers(path: str | Path, texts: list[str]) -> list[object]:
    """Prices with currencies, marks between thousands or decimal commas as numbers; others unchanged."""
    import pyarrow as pa

    from fedvalue.tables.number_shapes import NumberShapes

    shapes = NumberShapes("?")
    numbers = shapes.look(pa.array(texts))
    if numbers is None:
        return list(texts)
    if shapes.problem:
        marked = next(text for text in texts if not text.isdigit())
        raise InputError(
            f"{path}: prices such as {marked!r} can be read in two ways; write them like 1200.50, without "
            "marks between thousands"
        )
    return list(numbers.to_pylist())


def _folded(row: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell.strip().lower() for cell in row)
