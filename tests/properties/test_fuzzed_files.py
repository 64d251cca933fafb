"""Mutated CSV files end in the right table or in a typed error, never in a traceback or a silent misreading.

Two kinds of mutation, several hundred files each, with fixed seeds:

- Spellings. The table stays the same and the file changes: delimiter, decimal mark, thousands, quotes,
  encoding, line ends, dates, padding, order of columns. The table that is read must be the original.
- Damage. Bytes, cells or lines are changed at random. What the file then holds is found out independently,
  by Python's csv module in strict mode; that table must be read, or the file refused.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import random

import pytest

import fedvalue
from fedvalue.errors import FedValueError, InputError
from fedvalue.tables.sources import read_table

N = 60


def original() -> dict[str, list[object]]:
    """Text with accents, commas and quotes, money, whole numbers, zip codes, dates and holes."""
    draw = random.Random(0)
    y = [draw.random() < 0.5 for _ in range(N)]
    return {
        "who": [f"c{k:03}" for k in range(N)],
        "left": ["yes" if one else "no" for one in y],
        "city": [draw.choice(["Köln", "Bonn, Rhein", 'the "Hague"', "Zürich; West"]) for _ in y],
        "money": [round(draw.uniform(500, 90_000) * (2 if one else 1), 2) for one in y],
        "visits": [float(draw.randrange(0, 9)) if draw.random() < 0.9 else None for _ in y],
        "zip": [draw.choice(["01067", "50667", "80331"]) for _ in y],
        "since": [dt.datetime(2020, 1, 1) + dt.timedelta(days=draw.randrange(900)) for _ in y],
    }


TABLE = original()


def spelled(seed: int) -> tuple[bytes, str]:
    """The table in a random spelling, and the suffix of its file."""
    draw = random.Random(seed)
    delimiter = draw.choice(",;\t|")
    decimal = draw.choice(".,")
    thousands = draw.choice(["", "", " ", "'", "." if decimal == "," else ","])
    date = draw.choice(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d"])
    end = draw.choice(["\n", "\r\n", "\r"])
    encoding = draw.choice(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
    quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    pad = draw.choice(["", "", " "])
    names = draw.sample(list(TABLE), len(TABLE))

    def cell(name: str, k: int) -> str:
        value = TABLE[name][k]
        if value is None:
            return draw.choice(["", "NA", "n/a", "NULL"])
        if name == "money":
            return pad + f"{value:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
        if name == "visits":
            return f"{value:.0f}"
        return value.strftime(date) if isinstance(value, dt.datetime) else str(value)

    out = io.StringIO(newline="")
    if draw.random() < 0.1:
        out.write(f"sep={delimiter}{end}")
    rows = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    rows.writerow(names)
    for k in range(N):
        rows.writerow([cell(name, k) for name in names])
        if draw.random() < 0.02:
            out.write(end)
    content = out.getvalue().encode(encoding)
    return (gzip.compress(content), ".csv.gz") if draw.random() < 0.2 else (content, ".csv")


@pytest.mark.parametrize("batch", range(10))
def test_every_spelling_is_read_as_the_table(tmp_path, batch):
    """40 files per batch. None of them is ambiguous, so none may be refused."""
    for seed in range(40 * batch, 40 * batch + 40):
        content, suffix = spelled(seed)
        path = tmp_path / f"{seed}{suffix}"
        path.write_bytes(content)
        assert read_table(path, list(TABLE)).to_pydict() == TABLE, f"seed {seed}"


def test_a_spelling_does_not_change_the_values(tmp_path):
    """The whole way from the file to the result."""
    results = []
    for seed in (0, 3, 7, 11):
        content, suffix = spelled(seed)
        path = tmp_path / f"{seed}{suffix}"
        path.write_bytes(content)
        parties = {"a": ["money", "city"], "b": ["since", "visits"], "c": ["zip"]}
        results.append(fedvalue.value(data=path, label="left", parties=parties).parties)
    assert all(parties == results[0] for parties in results)


def damaged(seed: int) -> bytes:
    """A comma file with one to three random damages."""
    draw = random.Random(seed)
    out = io.StringIO(newline="")
    rows = csv.writer(out, lineterminator="\n")
    names = ["who", "left", "city", "visits", "zip"]
    rows.writerow(names)
    for k in range(N):
        rows.writerow(["" if TABLE[name][k] is None else TABLE[name][k] for name in names])
    content = bytearray(out.getvalue().encode())
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(content))
        line = content.find(b"\n", at) + 1
        kind = draw.randrange(12)
        if kind == 0:
            content[at] = draw.randrange(256)
        elif kind == 1:
            content[at:at] = bytes([draw.choice(b'",;\t|\n\r\0\xff\xe4')])
        elif kind == 2:
            del content[at]
        elif kind == 3:
            content[line:line] = b"1,2\n"
        elif kind == 4:
            content[line:line] = b"a,b,c,d,e,f,g\n"
        elif kind == 5:
            content[line:line] = b'"'
        elif kind == 6:
            del content[draw.randrange(max(at, 1)) : at]
        elif kind == 7:
            content[line:line] = b'x,yes,"' + b"h" * draw.choice([10, 200_000, 5_000_000]) + b'",1,01067\n'
        elif kind == 8:
            content[line:line] = b'x,no,"two\nlines",1,01067\n'
        elif kind == 9:
            content[at:at] = "ñ€\u2028😀".encode()
        elif kind == 10:
            content[line:line] = content[at:line]
        else:
            del content[at:]
    return bytes(content)


def independent(content: bytes) -> dict[str, list[str]] | None:
    """The table by Python's csv module, strictly; None where there is none."""
    if b"\0" in content:
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = content.decode("cp1252")
        except UnicodeDecodeError:
            return None
    before = csv.field_size_limit(1 << 30)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        return None
    finally:
        csv.field_size_limit(before)
    if len(rows) < 2 or {len(row) for row in rows} != {len(rows[0])} or len(set(rows[0])) < len(rows[0]):
        return None
    return dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))


@pytest.mark.parametrize("batch", range(10))
def test_damage_is_refused_or_read_as_what_the_file_holds(tmp_path, batch):
    """40 files per batch; what Python's strict reader refuses, FedValue refuses, and not all the rest."""
    n_read = 0
    for seed in range(40 * batch, 40 * batch + 40):
        content = damaged(seed)
        path = tmp_path / f"{seed}.csv"
        path.write_bytes(content)
        truth = independent(content)
        try:
            found = read_table(path, text_columns=[*truth] if truth else ())
        except InputError:
            continue
        assert truth is not None, f"seed {seed}: read although it is no table"
        assert found.to_pydict() == truth, f"seed {seed}"
        n_read += 1
    assert n_read > 0


def test_damage_never_ends_in_a_traceback(tmp_path):
    """The whole way to a valuation: a result of the damaged table, or a typed error."""
    ended = {"result": 0, "refused": 0}
    for seed in range(1000, 1040):
        path = tmp_path / f"{seed}.csv"
        path.write_bytes(damaged(seed))
        try:
            fedvalue.value(
                data=path, label="left", parties={"a": ["city", "zip"], "b": ["visits"]}, statistics=False
            )
            ended["result"] += 1
        except FedValueError:
            ended["refused"] += 1
    assert min(ended.values()) > 0
