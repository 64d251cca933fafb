"""Files as people and programs write them: one table, many spellings, one reading."""

from __future__ import annotations

import datetime as dt
import gzip

import openpyxl
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.csv_files import csv_dialect
from fedvalue.tables.file_options import FileOptions
from fedvalue.tables.sources import read_table

ROWS = [("Köln", 1250.5, 3, "2024-01-31"), ("Bonn", 7.25, 12, "2024-12-01"), ("Zoë, Ltd", 31000.75, 1, "")]
NAMES = ["city", "amount", "visits", "since"]
TRUTH = {
    "city": ["Köln", "Bonn", "Zoë, Ltd"],
    "amount": [1250.5, 7.25, 31000.75],
    "visits": [3.0, 12.0, 1.0],
    "since": [dt.datetime(2024, 1, 31), dt.datetime(2024, 12, 1), None],
}


def written(delimiter=",", decimal=".", thousands="", quote='"', dates="%Y-%m-%d", end="\n") -> str:
    def cell(value: object) -> str:
        if isinstance(value, float):
            text = f"{value:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
        elif isinstance(value, str) and value[:4] == "2024":
            text = dt.date.fromisoformat(value).strftime(dates)
        else:
            text = str(value)
        return f"{quote}{text}{quote}" if delimiter in text else text

    lines = [NAMES, *ROWS]
    return end.join(delimiter.join(cell(value) for value in line) for line in lines) + end


def read(path, **options) -> dict[str, list[object]]:
    return read_table(path, options=FileOptions(**options)).to_pydict()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["unix", "windows", "mac"])
@pytest.mark.parametrize(
    "written_as",
    [
        {},
        {"delimiter": ";", "decimal": ","},
        {"delimiter": ";", "decimal": ",", "thousands": ".", "dates": "%d.%m.%Y"},
        {"delimiter": ";", "decimal": ",", "thousands": "\u202f"},
        {"delimiter": "\t", "thousands": ",", "dates": "%m/%d/%Y"},
        {"delimiter": "\t", "thousands": "'", "dates": "%d/%m/%Y"},
        {"delimiter": "|", "thousands": " ", "dates": "%Y/%m/%d"},
        {"thousands": ","},
        {"quote": "'"},
    ],
    ids=[
        "plain",
        "Excel",
        "German",
        "French",
        "American",
        "Swiss",
        "bars",
        "quoted thousands",
        "single quotes",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_every_spelling_of_a_table_is_the_table(tmp_path, written_as, encoding, end):
    """Without a word from the person."""
    text = written(**written_as, end=end)
    if encoding == "cp1252" and "\u202f" in text:
        text = text.replace("\u202f", "\u00a0")
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    assert read(path) == TRUTH
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(text.encode(encoding)))
    assert read(packed) == TRUTH


def test_what_was_detected_is_stated_with_its_confidence(tmp_path):
    """In words that a terminal shows."""
    path = tmp_path / "t.csv"
    path.write_bytes(written(delimiter=";", decimal=",").encode("cp1252"))
    dialect = csv_dialect(str(path))
    assert dialect.description == "CSV, cp1252, semicolon, decimal comma"
    assert dialect.confidence == {"encoding": "fair", "delimiter": "high", "decimal": "high"}
    assert dialect.notes == ("the text is not UTF-8 and was read as cp1252; --encoding changes that",)
    given = csv_dialect(str(path), FileOptions(encoding="latin-1", delimiter=";", decimal=","))
    assert set(given.confidence.values()) == {"certain"}
    path.write_text(written())
    assert csv_dialect(str(path)).description == "CSV, utf-8, comma, decimal point"
    path.write_text("1,2\n3,4\n")
    assert "the first line holds numbers only" in csv_dialect(str(path)).notes[0]


def test_the_line_with_which_excel_names_its_delimiter_is_followed(tmp_path):
    """It is no header."""
    path = tmp_path / "t.csv"
    path.write_text("sep=;\n" + written(delimiter=";", decimal=","), encoding="utf-8")
    assert read(path) == TRUTH


@pytest.mark.parametrize(
    ("content", "left_out"),
    [
        ("x,y,\n1,a,\n2,b,\n", [3]),
        ("x,y,,\n1,a,,\n2,b,,\n", [3, 4]),
        (",x,y\n0,1,a\n1,2,b\n", [1]),
        ('sep=,\n"x",y, \n1,a,\n2,b,\n', [3]),
    ],
    ids=["a delimiter at the end", "two", "an index of pandas", "below a line about the delimiter"],
)
def test_fields_without_a_name_are_left_out_with_a_note(tmp_path, content, left_out):
    """No party can have them, and a delimiter at the end of each line names nothing."""
    path = tmp_path / "t.csv"
    path.write_text(content)
    assert read(path) == {"x": [1, 2], "y": ["a", "b"]}
    assert csv_dialect(str(path)).notes == tuple(
        f"column {k} has no name in the header and was left out" for k in left_out
    )
    path.write_text('"x\nx",y,,\n1,a,,\n')
    assert read(path) == {"x\nx": [1], "y": ["a"]}


def test_a_header_without_any_name_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",,\n1,2,3\n")
    with pytest.raises(InputError, match="the first line names no column"):
        read(path)


def test_one_cell_with_another_decimal_mark_is_refused(tmp_path):
    """It once made text of every number of the column, and a useless party the best."""
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "0,5;x\n0,75;y\n" * 50 + "0.212;x\n")
    with pytest.raises(InputError, match="column 'a': some numbers have a decimal comma and others"):
        read(path)
    assert read_table(path, text_columns=["a"])["a"].to_pylist()[-1] == "0.212"


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_thousands_that_may_be_decimals_are_refused_with_both_readings(tmp_path, delimiter):
    """Until another number of the file, or a person, settles it."""
    path = tmp_path / "t.csv"
    path.write_text(f"a{delimiter}b\n950{delimiter}x\n1,250{delimiter}y\n")
    with pytest.raises(InputError, match=r"column 'a': .* 1250 .* or as 1\.25 .* --decimal"):
        read(path)
    assert read(path, decimal=".")["a"] == [950.0, 1250.0]
    assert read(path, decimal=",")["a"] == [950.0, 1.25]
    path.write_text(f"a{delimiter}b\n950{delimiter}0.5\n1,250{delimiter}1\n")
    assert read(path)["a"] == [950.0, 1250.0]
    path.write_text(f"a{delimiter}b\n950{delimiter}0,5\n1.250{delimiter}1\n")
    assert read(path)["a"] == [950.0, 1250.0]


def test_lines_that_can_be_cut_in_two_ways_are_refused_with_both(tmp_path):
    """The names of both readings help to choose."""
    path = tmp_path / "t.csv"
    path.write_text("name, first;city\nSmith, John;Bonn\nDoe, Jane;Ulm\n")
    with pytest.raises(InputError, match=r"2 columns by .*name, first, city.* --delimiter"):
        read(path)
    assert read(path, delimiter=";") == {"name, first": ["Smith, John", "Doe, Jane"], "city": ["Bonn", "Ulm"]}


def test_dates_that_may_be_of_two_months_are_refused(tmp_path):
    """Until a person says which."""
    path = tmp_path / "t.csv"
    path.write_text("day,x\n03/04/2024,1\n01/02/2024,2\n")
    with pytest.raises(InputError, match=r"column 'day': .* 3 April .* March 4 .* --dates"):
        read(path)
    assert read(path, dates="DD/MM/YYYY")["day"][0] == dt.datetime(2024, 4, 3)


@pytest.mark.parametrize(
    "content",
    ['a,b\n1,"x\n2,y\n3,z\n', 'a,b\n1,"x"y\n2,z\n', 'a,b\n1,"x\n2,"y"\n', 'a,b\n1,x\n2,"y\n'],
    ids=["never closed", "closed too early", "closed by the next", "last line"],
)
@pytest.mark.parametrize("rows", [0, 200_000])
def test_a_stray_quote_never_swallows_rows(tmp_path, content, rows):
    """Arrow would read all that follows as one value."""
    head, _, rest = content.partition("\n")
    path = tmp_path / "t.csv"
    path.write_text(head + "\n" + '7,"q"\n' * rows + rest)
    with pytest.raises(InputError, match="has a quote"):
        read(path)


def test_inches_are_no_quotes(tmp_path):
    """A quote inside a field without quotes belongs to it."""
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,5" pipe\n2,"6"" pipe"\n')
    assert read(path)["b"] == ['5" pipe', '6" pipe']


def test_an_encoding_that_is_not_the_files_is_refused(tmp_path):
    """And an unknown one by name."""
    path = tmp_path / "t.csv"
    path.write_bytes(written().encode("cp1252"))
    with pytest.raises(InputError, match="the text is not utf-8"):
        read(path, encoding="utf-8")
    with pytest.raises(InputError, match="encoding 'klingon' is not known"):
        FileOptions(encoding="klingon")
    with pytest.raises(InputError, match="delimiter must be one character"):
        FileOptions(delimiter="::")
    assert FileOptions(delimiter="tab").delimiter == "\t"


def test_a_letter_beyond_ascii_far_down_decides_the_encoding(tmp_path):
    """The whole file is looked at, not its head."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 1_000_000 + "2,ü\n".encode("cp1252"))
    assert read(path)["b"][-1] == "ü"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_partitions_and_empty_files_in_other_encodings(tmp_path, encoding):
    """The keys of folders are columns; a header alone is a table without rows."""
    for city in ("Köln", "Bonn"):
        (tmp_path / "t" / f"city={city}").mkdir(parents=True)
        (tmp_path / "t" / f"city={city}" / "t.csv").write_bytes("größe;x\n1,5;a\n".encode(encoding))
    found = read_table(tmp_path / "t", ["city", "größe"]).to_pydict()
    assert found == {"city": ["Bonn", "Köln"], "größe": [1.5, 1.5]}
    (tmp_path / "empty.csv").write_bytes("größe;x\n".encode(encoding))
    with pytest.raises(InputError, match="the table has no rows"):
        read(tmp_path / "empty.csv")
    ragged = "größe;x\n1;2\n1;2;3\n".encode(encoding)
    (tmp_path / "ragged.csv").write_bytes(ragged)
    with pytest.raises(InputError, match="a row has 3 values where the header has 2"):
        read(tmp_path / "ragged.csv")


def workbook(path, **sheets) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)


def test_a_sheet_is_the_table_too(tmp_path):
    """Typed cells, and text cells that are read as in a CSV file."""
    typed = [
        (city, amount, visits, dt.date.fromisoformat(day) if day else None)
        for city, amount, visits, day in ROWS
    ]
    workbook(tmp_path / "t.xlsx", Customers=[NAMES, *typed], About=[["made by hand"]])
    assert read(tmp_path / "t.xlsx") == TRUTH
    as_text = [tuple(str(value) if value else None for value in row) for row in ROWS]
    workbook(tmp_path / "u.xlsx", Customers=[NAMES, *as_text])
    assert read(tmp_path / "u.xlsx") == TRUTH
    workbook(tmp_path / "v.xlsx", a=[["x"], [1], ["n/k"], [2.5], [None]])
    assert read(tmp_path / "v.xlsx") == {"x": ["1", "n/k", "2.5"]}


def test_a_workbook_of_several_tables_asks_for_the_sheet(tmp_path):
    """And lists them."""
    path = tmp_path / "t.xlsx"
    workbook(path, a=[["x"], [1]], b=[["y"], [2]])
    with pytest.raises(InputError, match="choose one of 'a', 'b' with --sheet"):
        read(path)
    assert read(path, sheet="b") == {"y": [2]}
    with pytest.raises(InputError, match="has no sheet 'c'; its sheets are 'a', 'b'"):
        read(path, sheet="c")
    workbook(path, a=[["x", None], [1, 2]])
    with pytest.raises(InputError, match="column 2 of the sheet has values but no name"):
        read(path)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("Report 2024;;;\n;;;\n" + written(delimiter=";", decimal=","), 3),
        ("Report 2024\nprinted 31.12.2024\n\n" + written(delimiter=";", decimal=","), 4),
        ("sep=;\nReport 2024;;;\n" + written(delimiter=";", decimal=","), 3),
    ],
    ids=["padded", "short", "below a line about the delimiter"],
)
def test_lines_above_the_names_are_named_and_skipped(tmp_path, content, line):
    """Spreadsheets export them. Without the option such a file was one column, or no CSV file."""
    path = tmp_path / "t.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=f"line {line} to name the columns; --header {line} skips"):
        read(path)
    assert read_table(path, options=FileOptions(header=line)).to_pydict() == TRUTH
    with pytest.raises(InputError, match="has no line 5000 that could name the columns"):
        read_table(path, options=FileOptions(header=5000))


@pytest.mark.parametrize(
    "content",
    [
        "a;b;c\nx;y;z\n" + "1;2;3\n" * 9,  # a first row of texts
        "a;b;;\nx;y;;\n" + "u;v;;\n" * 9,  # columns that nobody fills
        "a;;\n" + "1;2;3\n" * 9,  # columns without names
        "note;b;c\nx;y;z\n" + "u;v;w\n" * 9,  # names for all columns
        "k;v\n" + "Kiel;1,5\n" * 9,  # decimal commas
    ],
)
def test_a_header_is_not_taken_for_a_title(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_text(content)
    assert read(path)


def test_rows_above_the_names_of_a_sheet_are_named_and_skipped(tmp_path):
    """Rows count as the spreadsheet program shows them, the empty ones too."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A2"] = "Report 2024"
    for row, values in enumerate([("x", "y"), (1, "a"), (2, "b"), (3, "b")], start=4):
        sheet.cell(row, 2, values[0])
        sheet.cell(row, 3, values[1])
    path = tmp_path / "t.xlsx"
    book.save(path)
    with pytest.raises(InputError, match="no name in row 2; row 4 seems to have the names: --header 4"):
        read(path)
    chosen = read_table(path, options=FileOptions(header=4))
    assert chosen.to_pydict() == {"x": [1, 2, 3], "y": ["a", "b", "b"]}
    with pytest.raises(InputError, match="the sheet is empty from row 9 on"):
        read_table(path, options=FileOptions(header=9))


@pytest.mark.parametrize("line", [0, -1, "3", True])
def test_a_header_that_is_no_line_is_refused(line):
    with pytest.raises(InputError, match="header must be the number of a line, at least 1"):
        FileOptions(header=line)
