"""Makes coding.json: a file as people export it, and the code of every cell, with plain Python alone.

Run `python tests/vectors/make_coding.py` to make the file again. Nothing of the package is used: the rules
are written from the docstrings of `fedvalue.tables`. Where they change, `VALUES_VERSION` rises.
"""

from __future__ import annotations

import datetime as dt
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

N = 60
BINS = 5
Cell = float | str | None


def table() -> dict[str, list[Cell]]:
    """Amounts with holes, mostly zeros, counts, dates, zip codes with a leading zero, and rare names."""
    mixed = [k * 37 % N for k in range(N)]
    cities = ("Ulm", "Bonn", "Köln", None)
    return {
        "amount": [None if k % 12 == 5 else round(k * k * 1.25 - 300, 2) for k in mixed],
        "balance": [0 if k < 32 else (k - 30) * 100 for k in mixed],
        "visits": [(3, 0, 1, 7)[k % 4] for k in mixed],
        "since": [(dt.date(2019, 12, 30) + dt.timedelta(days=11 * k)).isoformat() for k in mixed],
        "zip": [("01067", "50667", "89073")[k % 3] for k in mixed],
        "city": [cities[k % 7 % 4] for k in mixed],
        "shop": [f"S{k // 6:02}" if k < 36 else f"T{k % 18:02}" for k in mixed],
        "bought": ["yes" if k % 5 < 2 else "no" for k in mixed],
    }


def csv_text(columns: dict[str, list[Cell]]) -> str:
    """Semicolons between fields and a comma before decimals, as a German spreadsheet writes them."""

    def field(cell: Cell) -> str:
        return "" if cell is None else str(cell).replace(".", ",")

    rows = zip(*columns.values(), strict=True)
    lines = [";".join(("id", *columns))]
    lines += [";".join((f"c{k:03}", *map(field, row))) for k, row in enumerate(rows)]
    return "\n".join(lines) + "\n"


def with_missing(cells: Sequence[Cell], n_codes: int, code: Callable[[Cell], int]) -> list[int]:
    """The missing value comes after all others."""
    return [n_codes if cell is None else code(cell) for cell in cells]


def in_bins(cells: Sequence[Cell], edges: list[float]) -> list[int]:
    """Closed on the right: as many edges as are smaller than the number."""
    return with_missing(cells, len(edges) + 1, lambda cell: bisect_left(edges, cell))


def even_edges(numbers: list[float], bins: int) -> list[float]:
    """The k-th edge is the number at place floor((n - 1) k / bins) of the sorted rows."""
    ordered = sorted(numbers)
    return [ordered[(len(ordered) - 1) * k // bins] for k in range(1, bins)]


def quantile(cells: Sequence[Cell]) -> list[int]:
    """Equally filled bins; a value with more than a fifth of the rows, here the smallest, has its own."""
    numbers = [cell for cell in cells if cell is not None]
    often, n_often = Counter(numbers).most_common(1)[0]
    if n_often * BINS <= len(numbers):
        return in_bins(cells, even_edges(numbers, BINS))
    assert often == min(numbers)
    rest = [number for number in numbers if number != often]
    return in_bins(cells, [often, *even_edges(rest, BINS - 1)])


def width(cells: Sequence[Cell]) -> list[int]:
    numbers: list[float] = [cell for cell in cells if cell is not None]
    low, high = min(numbers), max(numbers)
    return in_bins(cells, [low + (high - low) * k / BINS for k in range(1, BINS)])


def values(cells: Sequence[Cell]) -> list[int]:
    """The place of each among the distinct ones in rising order."""
    kept = sorted({cell for cell in cells if cell is not None})
    return with_missing(cells, len(kept), kept.index)


def names(cells: Sequence[Cell]) -> list[int]:
    """Where there are more than 20 names, those with fewer than 5 rows are one code after the others."""
    rows = Counter(cell for cell in cells if cell is not None)
    if len(rows) <= 20:
        return values(cells)
    kept = sorted(name for name, n in rows.items() if n >= 5)
    return with_missing(cells, len(kept) + 1, lambda cell: kept.index(cell) if cell in kept else len(kept))


def main() -> None:
    columns = table()
    days = [dt.date.fromisoformat(str(day)).toordinal() for day in columns["since"]]
    same = {name: values(columns[name]) for name in ("visits", "zip", "city")}
    cases = {
        "quantile": {"amount": quantile(columns["amount"]), "balance": quantile(columns["balance"]),
                     "since": quantile(days), "shop": names(columns["shop"]), **same},
        "width": {"amount": width(columns["amount"]), "balance": width(columns["balance"]),
                  "since": width(days), "shop": values(columns["shop"]), **same},
    }  # fmt: skip
    vector = {
        "origin": "Made by make_coding.py, which uses nothing of the package.",
        "file": csv_text(columns).splitlines(),
        "bins": BINS,
        "codes": cases,
        "label": values(columns["bought"]),
    }
    lines = [f" {json.dumps(key)}: {_shown(value)}" for key, value in vector.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name("coding.json").write_text(text, encoding="utf-8")


def _shown(value: object) -> str:
    """One list of codes per line."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {_shown(own)}" for key, own in value.items()) + "\n }"


if __name__ == "__main__":
    main()
