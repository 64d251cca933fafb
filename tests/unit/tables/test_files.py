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
from fedvalue.tables.files import column_names, iter_batches, read_table
from fedvalue.tables.parts import open_parts

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
    assert read_table(source, text_columns=["id"]).to_pydict() == TABLE.to_pydict()
    assert read_table(str(source), ["city", "age"]).to_pydict() == TABLE.select(["city", "age"]).to_pydict()
    batches = list(iter_batches(source, ["age"], 1))
    assert [batch.num_rows for batch in batches] == [1, 1, 1]
    assert pa.Table.from_batches(batches)["age"].to_pylist() == [30, None, 50]


def test_a_part_can_be_read_in_another_process(tmp_path):
    """A part survives pickling, types included."""
    write_csv(tmp_path / "t.csv")
    (part,) = open_parts(tmp_path / "t.csv", text_columns=["id"])
    (batch,) = pickle.loads(pickle.dumps(part)).batches()
    assert batch.to_pydict() == TABLE.to_pydict()


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
    """Values that look like numbers are numbers, unless the column is named as text."""
    write_csv(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv", ["id"])["id"].to_pylist() == [7, 8, 9]
    assert read_table(tmp_path / "t.csv", ["id"], text_columns=["id"])["id"].to_pylist() == [
        "007",
        "008",
        "009",
    ]
    pq.write_table(pa.table({"id": [7, 8]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", text_columns=["id"])["id"].to_pylist() == ["7", "8"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "3.5"], "double"),
        (["1", "2", "n/k"], "string"),
        (["", "", "4"], "int64"),
        (["true", "false", "true"], "bool"),
        (["2020-01-01", "2020-01-02", ""], "date32[day]"),
        (["1", "99999999999999999999", "2"], "double"),
        (["x", "", "NA"], "string"),
    ],
)
@pytest.mark.parametrize("repeat", [1, 500_000])
def test_a_csv_column_has_the_type_that_fits_the_whole_file(tmp_path, values, expected, repeat):
    """The odd value may stand far below the first block that a stream looks at."""
    path = tmp_path / "t.csv"
    first, second, third = values
    path.write_text("k,v\n" + f"1,{first}\n" * repeat + f"1,{second}\n1,{third}\n")
    (part,) = open_parts(path, ["v"])
    assert str(part.schema.field("v").type) == expected
    last = list(part.batches())[-1]["v"].to_pylist()[-1]
    assert (last is None) == (third in ("", "NA"))


def test_csv_dialects(tmp_path):
    """Semicolons, tabs, bars, quotes with line ends inside and a byte order mark are understood."""
    path = tmp_path / "t.csv"
    for mark in ";\t|":
        path.write_text(f"a{mark}b\n1{mark}x\n")
        assert read_table(path).to_pydict() == {"a": [1], "b": ["x"]}
    path.write_text('\ufeff"a, or","b"\n1,"two\nlines"\n2,"say ""hi"""\n', encoding="utf-8")
    assert read_table(path).to_pydict() == {"a, or": [1, 2], "b": ["two\nlines", 'say "hi"']}
    path.write_text('"two\nlines",b\n1,2\n')
    assert read_table(path).to_pydict() == {"two\nlines": [1], "b": [2]}


def test_decimal_commas_of_spreadsheets_are_understood(tmp_path):
    """Where semicolons or tabs separate columns, and no number has a point; text stays text."""
    path = tmp_path / "t.csv"
    path.write_text('"a, or b";c;d\n1,5;x,y;-0,25\n2;z;1e3\n')
    assert read_table(path).to_pydict() == {"a, or b": [1.5, 2.0], "c": ["x,y", "z"], "d": [-0.25, 1000.0]}
    path.write_text("a;b\n1,5;2.5\n1,25;3.5\n")
    assert read_table(path).to_pydict() == {"a": ["1,5", "1,25"], "b": [2.5, 3.5]}
    path.write_text("a\tb\n950\tx\n1,250\ty\n2,000\tz\n")  # thousands, perhaps: nothing is guessed
    assert read_table(path).column("a").to_pylist() == ["950", "1,250", "2,000"]


def test_csv_files_of_a_folder_agree_on_types(tmp_path):
    """Whole numbers beside fractions are fractions, numbers beside text are text."""
    (tmp_path / "1.csv").write_text("a,b,c\n1,1,\n")
    (tmp_path / "2.csv").write_text("a,b,c\n1.5,x,3\n")
    assert read_table(tmp_path).to_pydict() == {"a": [1.0, 1.5], "b": ["1", "x"], "c": [None, 3]}


def test_parquet_files_of_a_folder_agree_on_types(tmp_path):
    """Integers of two widths, or beside floats, become the wider type; text beside numbers is refused."""
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int64()), "b": [1.5]}), tmp_path / "2.parquet")
    assert read_table(tmp_path).to_pydict() == {"a": [1, 2], "b": [1.0, 1.5]}
    pq.write_table(pa.table({"a": ["x"], "b": [1.5]}), tmp_path / "3.parquet")
    with pytest.raises(InputError, match="expected one type per column"):
        read_table(tmp_path)


def test_large_whole_numbers_beside_floats_become_floats(tmp_path):
    """As NumPy and pandas do; a value that has no place in the common type is refused by column."""
    pq.write_table(pa.table({"x": [2**53 + 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [0.5]}), tmp_path / "b.parquet")
    assert read_table(tmp_path).column("x").to_pylist() == [2.0**53, 0.5]
    pq.write_table(pa.table({"x": pa.array([2**63], pa.uint64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [-1]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="column 'x': expected values that fit the type int64"):
        read_table(tmp_path)


def test_partitioned_folders_give_their_keys(tmp_path):
    """`key=value` folders are columns: numbers where all are, else text."""
    for year, country in itertools.product((2020, 2021), ("de", "fr")):
        folder = tmp_path / f"year={year}" / f"country={country}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [year - 2000]}), folder / "0.parquet")
    assert column_names(tmp_path) == ("x", "year", "country")
    table = read_table(tmp_path, ["country", "x", "year"])
    assert table.to_pydict() == {
        "country": ["de", "fr", "de", "fr"],
        "x": [20, 20, 21, 21],
        "year": [2020, 2020, 2021, 2021],
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "expected a CSV file with a header line, got an empty one"),
        ("t.csv", b"\n\n", "expected a CSV file with a header line, got an empty one"),
        ("t.csv", b"a,b\n", "expected at least one row, got none"),
        ("t.csv", b"a,b,a\n1,2,3\n", r"expected distinct column names in the header, got \['a'\]"),
        ("t.csv", b"a,b\n1,2\nsecret\n", "got a row of 1 values where the header has 2"),
        ("t.csv", b"a,b\n1,2\n1,2,secret\n", "got a row of 3 values where the header has 2"),
        ("t.csv", b"\xff\xfea,b\n1,2\n", "expected a CSV file as UTF-8 text, got bytes that are not"),
        ("t.parquet", b"", "expected a Parquet file, got"),
        ("t.parquet", b"PAR1 but no more", "expected a Parquet file, got"),
        ("t.arrow", b"", "expected an Arrow file, got"),
        ("t.feather", b"ARROW1 but no more", "expected an Arrow file, got"),
        ("t.xlsx", b"PK", "expected a file named .csv, .parquet, .arrow or .feather, got 't.xlsx'"),
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
    with pytest.raises(InputError, match="got a row of 1 values where the header has 2") as error:
        list(iter_batches(path))
    assert "secret" not in str(error.value)


def test_unknown_columns_are_named_with_what_comes_close(tmp_path):
    """A typo is answered with the near names; else with what there is."""
    write_csv(tmp_path / "t.csv")
    with pytest.raises(InputError, match="expected a column 'agee', got none; close to it are 'age'"):
        read_table(tmp_path / "t.csv", ["id", "agee"])
    with pytest.raises(InputError, match="expected a column 'zip', got none; there are 'id', 'age', 'city'"):
        read_table(tmp_path / "t.csv", ["zip"])
    with pytest.raises(InputError, match=r"the wanted columns: expected distinct .* got \['id'\]"):
        read_table(tmp_path / "t.csv", ["id", "id"])


def test_a_file_of_a_folder_that_lacks_a_column_is_named_before_reading(tmp_path):
    """The second file's name is in the message."""
    write_folder(tmp_path / "f")
    pq.write_table(pa.table({"id": ["1"]}), tmp_path / "f" / "part-2.parquet")
    with pytest.raises(InputError, match=r"part-2.parquet: expected a column 'age', got none"):
        open_parts(tmp_path / "f", ["age"])


def test_duplicate_names_in_parquet_are_refused(tmp_path):
    """Parquet can repeat a name; then nobody knows which is meant."""
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"expected distinct column names, got \['a'\]"):
        read_table(tmp_path / "t.parquet")


def test_odd_folders_are_refused(tmp_path):
    """Nothing in it, files of two kinds, nothing at all."""
    with pytest.raises(InputError, match=r"expected a folder with files of one kind .* got none"):
        read_table(tmp_path)
    write_csv(tmp_path / "t.csv")
    pq.write_table(TABLE, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="got csv and parquet"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="expected a file, a folder or a database URI, got nothing there"):
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
        "from fedvalue.tables.files import read_table\n"
        "from fedvalue.tables.party_table import party_table\n"
        "sys.modules['pandas'] = None\n"
        "print(party_table('shop', read_table(sys.argv[1])).n_codes)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t.csv")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"
