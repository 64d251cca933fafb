"""Files and folders: the same table whole, in batches, and whatever the file is called."""

from __future__ import annotations

import gzip
import itertools
import os
import pickle
import subprocess
import sys

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.columns import TextColumn, columns_of
from fedvalue.tables.sources import column_names, is_file_name, open_parts, read_table, source_bytes

TABLE = pa.table({"id": ["007", "008", "009"], "age": [30, None, 50], "city": ["b", "a", None]})
CSV = "id,age,city\n007,30,b\n008,,a\n009,50,\n"


def write_csv(path):
    path.write_text(CSV)


def write_gzip(path):
    path.write_bytes(gzip.compress(CSV.encode()))


def write_stream(path):
    with pa.ipc.new_stream(path, TABLE.schema) as sink:
        sink.write_table(TABLE)


def write_folder(path):
    path.mkdir()
    pq.write_table(TABLE.slice(0, 2), path / "part-0.parquet")
    pq.write_table(TABLE.slice(2), path / "part-1.parquet")
    (path / "_SUCCESS").touch()


def plain(table):
    """The columns as Python values, None where missing, as a valuation sees them."""
    found = {}
    for name, column in columns_of(table, name="t").items():
        if isinstance(column, TextColumn):
            words = [*column.categories.to_pylist(), None]
            found[name] = [words[k] for k in column.index]
        else:
            pairs = zip(column.values.tolist(), column.missing, strict=True)
            found[name] = [None if gone else value for value, gone in pairs]
    return found


SOURCES = {
    "t.csv": write_csv,
    "t.csv.gz": write_gzip,
    "t.parquet": lambda path: pq.write_table(TABLE, path),
    "t.feather": lambda path: feather.write_feather(TABLE, path),
    "t.arrow": lambda path: feather.write_feather(TABLE, path, compression="uncompressed"),
    "t.arrows": write_stream,
    "parquet_without_suffix": lambda path: pq.write_table(TABLE, path),
    "feather_without_suffix": lambda path: feather.write_feather(TABLE, path),
    "folder": write_folder,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_file_gives_the_same_table(tmp_path, name):
    """CSV, Parquet, Arrow and folders with the same content are the same table."""
    source = tmp_path / name
    SOURCES[name](source)
    assert column_names(source) == ("id", "age", "city")
    assert plain(read_table(source)) == plain(TABLE)
    assert plain(read_table(str(source), ["city", "age"])) == plain(TABLE.select(["city", "age"]))
    batches = [batch for part in open_parts(source, ["age"]) for batch in part.batches(1)]
    assert [batch.num_rows for batch in batches] == [1, 1, 1]
    ages = pa.Table.from_batches(batches)["age"].to_pylist()
    assert ages == (["30", "", "50"] if ".csv" in name else [30, None, 50])


def test_a_part_can_be_read_in_another_process(tmp_path):
    """A part survives pickling, types included."""
    write_csv(tmp_path / "t.csv")
    (part,) = open_parts(tmp_path / "t.csv")
    (batch,) = pickle.loads(pickle.dumps(part)).batches()
    assert batch.to_pydict() == {"id": ["007", "008", "009"], "age": ["30", "", "50"], "city": ["b", "a", ""]}
    (typed,) = pickle.loads(pickle.dumps(part.with_numbers(["age"]))).batches()
    assert typed["age"].to_pylist() == [30.0, None, 50.0]


def test_pieces_of_a_parquet_file_are_the_file(tmp_path):
    """Whole row groups of at least so many rows, each once and in order."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(1_000)}), path, row_group_size=70)
    (part,) = open_parts(path)
    pieces = part.pieces(200)
    found = [[x for batch in piece.batches() for x in batch["x"].to_pylist()] for piece in pieces]
    assert [len(xs) for xs in found] == [210, 210, 210, 210, 160]
    assert list(itertools.chain.from_iterable(found)) == list(range(1_000))
    assert len(part.pieces()) == 1
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), path)
    (part,) = open_parts(path)
    assert [list(piece.batches()) for piece in part.pieces()] == [[]]


def test_ids_lose_no_zeros_when_read_as_text(tmp_path):
    """A CSV file is text; what another file stores as numbers becomes text when it is named."""
    write_csv(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv", ["id"])["id"].to_pylist() == ["007", "008", "009"]
    pq.write_table(pa.table({"id": [7, 8]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", text_columns=["id"])["id"].to_pylist() == ["7", "8"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "3.5"], [3.5]),
        (["1", "2", "n/k"], ["n/k"]),
        (["", "", "4"], [4.0]),
        (["true", "false", "true"], ["true"]),
        (["2020-01-01", "1970-01-02", ""], [None]),
        (["1", "99999999999999999999", "2"], [2.0]),
        (["x", "", "NA"], [None]),
        (["94110", "94111", "02139"], ["02139"]),
    ],
)
@pytest.mark.parametrize("repeat", [1, 500_000])
def test_a_csv_column_has_the_type_that_fits_the_whole_file(tmp_path, values, expected, repeat):
    """The odd value may stand far below the first block that a stream looks at."""
    path = tmp_path / "t.csv"
    first, second, third = values
    path.write_text("k,v\n" + f"1,{first}\n" * repeat + f"1,{second}\n1,{third}\n")
    assert plain(read_table(path, ["v"]))["v"][-1:] == expected


def test_csv_dialects(tmp_path):
    """Semicolons, tabs, bars, quotes with line ends inside and a byte order mark are understood."""
    path = tmp_path / "t.csv"
    for mark in ";\t|":
        path.write_text(f"a{mark}b\n1{mark}x\n")
        assert plain(read_table(path)) == {"a": [1], "b": ["x"]}
    path.write_text('\ufeff"a, or","b"\n1,"two\nlines"\n2,"say ""hi"""\n', encoding="utf-8")
    assert plain(read_table(path)) == {"a, or": [1, 2], "b": ["two\nlines", 'say "hi"']}
    path.write_text('"two\nlines",b\n1,2\n')
    assert plain(read_table(path)) == {"two\nlines": [1], "b": [2]}


def test_a_comma_in_a_header_is_no_delimiter(tmp_path):
    """The mark that cuts all rows alike is; among several, the one that leaves numbers."""
    path = tmp_path / "t.csv"
    path.write_text("größe, cm;gewicht;ort\n1,80;70;a\n1,75;65;b\n", encoding="utf-8")
    assert plain(read_table(path)) == {"größe, cm": [1.8, 1.75], "gewicht": [70, 65], "ort": ["a", "b"]}
    path.write_text("größe, cm;gewicht\n1,80;70\n1,75;65\n", encoding="utf-8")
    assert column_names(path) == ("größe, cm", "gewicht")


def test_decimal_commas_of_spreadsheets_are_understood(tmp_path):
    """Where no number of the column has a point; text stays text."""
    path = tmp_path / "t.csv"
    path.write_text('"a, or b";c;d\n1,5;x,y;-0,25\n2;z;1e3\n')
    assert plain(read_table(path)) == {"a, or b": [1.5, 2.0], "c": ["x,y", "z"], "d": [-0.25, 1000.0]}
    path.write_text("a;b\n1,5;2.5\n1,25;3.5\n")
    assert plain(read_table(path)) == {"a": [1.5, 1.25], "b": [2.5, 3.5]}


def test_csv_files_of_a_folder_agree_on_types(tmp_path):
    """Whole numbers beside fractions are fractions, numbers beside text are text."""
    (tmp_path / "1.csv").write_text("a,b,c\n1,1,\n")
    (tmp_path / "2.csv").write_text("a,b,c\n1.5,x,3\n")
    assert plain(read_table(tmp_path)) == {"a": [1.0, 1.5], "b": ["1", "x"], "c": [None, 3]}


def test_parquet_files_of_a_folder_agree_on_types(tmp_path):
    """Integers of two widths, or beside floats, become the wider type; text beside numbers is refused."""
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int64()), "b": [1.5]}), tmp_path / "2.parquet")
    assert read_table(tmp_path).to_pydict() == {"a": [1, 2], "b": [1.0, 1.5]}
    pq.write_table(pa.table({"a": ["x"], "b": [1.5]}), tmp_path / "3.parquet")
    with pytest.raises(InputError, match="must store a column in one type"):
        read_table(tmp_path)


def test_large_whole_numbers_beside_floats_become_floats(tmp_path):
    """As NumPy and pandas do; a value that has no place in the common type is refused by column."""
    pq.write_table(pa.table({"x": [2**53 + 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [0.5]}), tmp_path / "b.parquet")
    assert read_table(tmp_path).column("x").to_pylist() == [2.0**53, 0.5]
    pq.write_table(pa.table({"x": pa.array([2**63], pa.uint64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [-1]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="of type uint64 that do not fit the type int64"):
        read_table(tmp_path)


def test_the_size_of_a_source_is_that_of_its_files(tmp_path):
    """All files of a folder; a database has none."""
    write_folder(tmp_path / "f")
    sizes = [path.stat().st_size for path in (tmp_path / "f").glob("*.parquet")]
    assert source_bytes(tmp_path / "f") == sum(sizes)
    assert source_bytes("postgresql://host/base#table") is None


def test_partitioned_folders_give_their_keys(tmp_path):
    """`key=value` folders are columns: numbers where all are, else text."""
    for year, country in itertools.product((2020, 2021), ("de", "fr")):
        folder = tmp_path / f"year={year}" / f"country={country}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [year - 2000]}), folder / "0.parquet")
    assert column_names(tmp_path) == ("x", "year", "country")
    table = read_table(tmp_path, ["country", "x", "year"])
    assert plain(table) == {
        "country": ["de", "fr", "de", "fr"],
        "x": [20, 20, 21, 21],
        "year": [2020, 2020, 2021, 2021],
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"\n\n", "the file is empty"),
        ("t.csv", b"a,b\n", "the table has no rows"),
        ("t.csv", b"a,b,a\n1,2,3\n", "column names must be distinct, got 'a' twice"),
        ("t.csv", b"a,b\n1,2\nsecret\n", "a row has 1 values where the header has 2"),
        ("t.csv", b"a,b\n1,2\n1,2,secret\n", "a row has 3 values where the header has 2"),
        ("t.csv", b"\xff\xfea,b\n1,23\n", "the text is not utf-16; give its --encoding, or save it as UTF-8"),
        ("t.parquet", b"", "cannot be read as a Parquet file"),
        ("t.parquet", b"PAR1 but no more", "cannot be read as a Parquet file"),
        ("t.arrow", b"", "cannot be read as an Arrow file"),
        ("t.feather", b"ARROW1 but no more", "cannot be read as an Arrow file"),
        ("t.xlsx", b"PK", "cannot be read as an Excel workbook"),
        ("t.doc", b"PK", "unknown kind of file; use .csv, .xlsx, .parquet, .arrow or .feather"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, name, content, message):
    """The message has the file, what was expected and what came, and no row."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_table(path)
    assert str(path) in str(error.value)
    assert "secret" not in str(error.value)


def test_a_misfit_row_far_down_is_refused_too(tmp_path):
    """The stream meets it in a later block; the message is the same."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 2_000_000 + "secret\n")
    with pytest.raises(InputError, match="a row has 1 values where the header has 2") as error:
        read_table(path)
    assert "secret" not in str(error.value)


def test_unknown_columns_are_named_with_what_comes_close(tmp_path):
    """A typo is answered with the near names; else with what there is."""
    write_csv(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"column 'agee' not found; did you mean 'age'\\?"):
        read_table(tmp_path / "t.csv", ["id", "agee"])
    with pytest.raises(InputError, match="column 'zip' not found; the columns are 'id', 'age', 'city'"):
        read_table(tmp_path / "t.csv", ["zip"])
    with pytest.raises(InputError, match="the wanted columns: column names must be distinct, got 'id' twice"):
        read_table(tmp_path / "t.csv", ["id", "id"])


def test_a_file_of_a_folder_that_lacks_a_column_is_named_before_reading(tmp_path):
    """The second file's name is in the message."""
    write_folder(tmp_path / "f")
    pq.write_table(pa.table({"id": ["1"]}), tmp_path / "f" / "part-2.parquet")
    with pytest.raises(InputError, match=r"part-2\.parquet: column 'age' not found"):
        open_parts(tmp_path / "f", ["age"])


def test_duplicate_names_in_parquet_are_refused(tmp_path):
    """Parquet can repeat a name; then nobody knows which is meant."""
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="column names must be distinct, got 'a' twice"):
        read_table(tmp_path / "t.parquet")


def test_odd_folders_are_refused(tmp_path):
    """Nothing in it, files of two kinds, nothing at all."""
    with pytest.raises(InputError, match="files of one kind, got no such file"):
        read_table(tmp_path)
    write_csv(tmp_path / "t.csv")
    pq.write_table(TABLE, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="files of the kinds csv and parquet"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="nothing: no such file or directory"):
        read_table(tmp_path / "nothing")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path):
    """The system's reason is in the message."""
    write_csv(tmp_path / "t.csv")
    (tmp_path / "t.csv").chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        read_table(tmp_path / "t.csv")


def test_files_are_coded_without_pandas(tmp_path):
    """pandas is not a dependency, and loading it would cost a command a second."""
    write_csv(tmp_path / "t.csv")
    script = (
        "import sys\n"
        "from fedvalue.tables.sources import read_table\n"
        "from fedvalue.tables.party_table import party_table\n"
        "sys.modules['pandas'] = None\n"
        "print(party_table('shop', read_table(sys.argv[1])).n_codes)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t.csv")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"


def test_a_column_may_have_the_name_of_a_folder(tmp_path, monkeypatch):
    """A folder is one when it is written with a slash."""
    (tmp_path / "spend").mkdir()
    monkeypatch.chdir(tmp_path)
    assert not is_file_name("spend")
    assert is_file_name("./spend")
    assert is_file_name("spend.csv")
    assert is_file_name("postgresql://host/base#t")


def test_numbers_are_the_same_names_from_every_type(tmp_path):
    """Large floats too, which Arrow would write with an exponent."""
    for k, values in enumerate(([7, 10**16], [7.0, 1e16])):
        pq.write_table(pa.table({"id": values}), tmp_path / f"{k}.parquet")
        table = read_table(tmp_path / f"{k}.parquet", text_columns=["id"])
        assert table["id"].to_pylist() == ["7", "10000000000000000"]
