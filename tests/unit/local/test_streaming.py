"""Streamed counts are the counts of the whole table, whatever the files, batches and workers."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import fedvalue
from fedvalue.engines import Execution
from fedvalue.errors import InputError
from fedvalue.local.streaming import STREAM_BYTES, stream_by_default, value_files
from fedvalue.local.value import joint_counts
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import label_table, party_table, task_table
from fedvalue.tables.sources import read_table
from tests.support.streamed_counts import count_files

PARTIES = {"telco": ["bill", "calls"], "shop": ["city"], "bank": ["since"]}
OWNERS = {"label": "y", "task": ["age"], "parties": PARTIES}


def customers(n: int, seed: int = 0, regression: bool = False) -> pa.Table:
    """A table with numbers, few numbers, text, dates and holes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    holes = rng.random(n) < 0.1
    return pa.table(
        {
            "y": pa.array(y + rng.random(n) if regression else y),
            "age": pa.array(rng.normal(40, 9, n) + 5 * y, mask=holes),
            "bill": pa.array(rng.gamma(2.0, 30.0, n).astype(np.float32)),
            "calls": pa.array(rng.integers(0, 4, n)),
            "city": pa.array(np.array(["Bonn", "Köln", "Ulm"])[(y + rng.integers(0, 2, n)) % 3], mask=holes),
            "since": pa.array(rng.integers(0, 20_000, n), pa.int32()).cast(pa.date32()),
        }
    )


def in_memory(table: pa.Table, coding: CodingSettings | None = None):
    """The counts of the whole table at once."""
    return joint_counts(
        label_table(table["y"], coding),
        task_table(table.select(["age"]), table.num_rows, coding),
        {name: party_table(name, table.select(columns), coding) for name, columns in PARTIES.items()},
    )


def assert_same(got, expected):
    assert (got.names, got.n_codes) == (expected.names, expected.n_codes)
    for part in ("task", "label", "parties", "count"):
        np.testing.assert_array_equal(getattr(got, part), getattr(expected, part))
    mine = [*got.codebooks, *([got.task_codebook] if got.task_codebook else [])]
    theirs = [*expected.codebooks, *([expected.task_codebook] if expected.task_codebook else [])]
    for here, there in zip(mine, theirs, strict=True):
        assert here.features == there.features
        np.testing.assert_array_equal(here.codes, there.codes)


@settings(max_examples=25)
@given(
    n=st.integers(30, 400),
    cuts=st.lists(st.integers(0, 400), max_size=5),
    batch_rows=st.integers(7, 500),
    bins=st.integers(2, 7),
    binning=st.sampled_from(["width", "quantile"]),
    seed=st.integers(0, 1000),
    regression=st.booleans(),
)
def test_streamed_counts_are_those_of_the_whole_table(
    tmp_path_factory, n, cuts, batch_rows, bins, binning, seed, regression
):
    """Any number of Parquet files, also empty ones, and any batch size."""
    folder = tmp_path_factory.mktemp("parts")
    table = customers(n, seed, regression)
    edges = [0, *sorted(min(cut, n) for cut in cuts), n]
    for k in range(len(edges) - 1):
        pq.write_table(table.slice(edges[k], edges[k + 1] - edges[k]), folder / f"{k}.parquet")
    coding = CodingSettings(bins=bins, binning=binning)
    got = count_files(folder, **OWNERS, coding=coding, batch_rows=batch_rows)
    assert_same(got, in_memory(table, coding))


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_do_not_change_the_counts(tmp_path, workers):
    """Threads of any number give the same arrays."""
    table = customers(2_000)
    for k in range(5):
        pq.write_table(table.slice(400 * k, 400), tmp_path / f"{k}.parquet")
    with ThreadPoolExecutor(workers) as executor:
        assert_same(count_files(tmp_path, **OWNERS, execution=Execution(executor)), in_memory(table))


def test_processes_do_not_change_the_counts(tmp_path):
    """Files, codings, summaries and cells cross process borders."""
    table = customers(2_000)
    for k in range(4):
        pq.write_table(table.slice(500 * k, 500), tmp_path / f"{k}.parquet")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        assert_same(count_files(tmp_path, **OWNERS, execution=Execution(executor)), in_memory(table))


def test_a_csv_streams_as_it_reads(tmp_path):
    """CSV in small blocks, several files and other sources together."""
    table = customers(3_000)
    table = table.set_column(2, "bill", table["bill"].cast(pa.float64()))
    pcsv.write_csv(table.slice(0, 1_000), tmp_path / "a.csv")
    pcsv.write_csv(table.slice(1_000, 1_000), tmp_path / "b.csv")
    pq.write_table(table.slice(2_000), tmp_path / "c.parquet")
    sources = [tmp_path / name for name in ("a.csv", "b.csv", "c.parquet")]
    assert_same(count_files(sources, **OWNERS, batch_rows=100), in_memory(table))


def test_partitions_of_csv_files_stream_as_they_read(tmp_path):
    """Keys that are numbers, and keys that are text, are columns like any other."""
    rng = np.random.default_rng(0)
    for year in (2019, 2020, 2021):
        for country in ("de", "fr"):
            folder = tmp_path / f"year={year}" / f"country={country}"
            folder.mkdir(parents=True)
            rows = "".join(f"{rng.integers(0, 2)},{rng.normal():.3f}\n" for _ in range(40))
            (folder / "0.csv").write_text("y,x\n" + rows)
    parties = {"x": ["x"], "place": ["country", "year"]}
    coding = CodingSettings(bins=2)
    got = count_files(tmp_path, label="y", parties=parties, coding=coding)
    table = read_table(tmp_path)
    expected = joint_counts(
        label_table(table["y"], coding),
        task_table(None, 240),
        {name: party_table(name, table.select(columns), coding) for name, columns in parties.items()},
    )
    assert_same(got, expected)
    assert got.n_codes == (2, 4)


def test_a_csv_whose_first_block_misleads_streams_as_it_reads(tmp_path):
    """Whole numbers for megabytes, then a fraction and a word: the columns are looked at again."""
    n = 700_000
    path = tmp_path / "t.csv"
    lines = [f"{k % 2},{k % 7},{k % 3}\n" for k in range(n)]
    path.write_text("y,a,b\n" + "".join(lines) + "1,2.5,x\n")
    assert path.stat().st_size > 4 << 20
    got = count_files(path, label="y", parties={"a": ["a"], "b": ["b"]})
    table = read_table(path)
    expected = joint_counts(
        label_table(table["y"]),
        task_table(None, n + 1),
        {name: party_table(name, table.select([name])) for name in "ab"},
    )
    assert_same(got, expected)
    assert got.n_codes == (5, 4)


def test_streamed_valuation_is_the_plain_one(tmp_path):
    """Values, statistics and notes are equal to the last bit."""
    table = customers(1_500, regression=True)
    pq.write_table(table, tmp_path / "t.parquet")
    streamed = value_files(tmp_path / "t.parquet", **OWNERS)
    plain = fedvalue.value(
        label=table.select(["y"]),
        task=table.select(["age"]),
        parties={name: table.select(columns) for name, columns in PARTIES.items()},
    )
    assert replace(plain, provenance=None).to_dict() == streamed.to_dict()
    assert any("is an amount" in note for note in streamed.details["notes"])


def test_progress_is_told_and_never_falls(tmp_path):
    """Two passes over three files: from nothing to all."""
    table = customers(300)
    for k in range(3):
        pq.write_table(table.slice(100 * k, 100), tmp_path / f"{k}.parquet")
    told = []
    execution = Execution(progress=lambda done, total, note="": told.append(done / total))
    count_files(tmp_path, **OWNERS, execution=execution)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_large_files_and_folders_are_streamed_by_default(tmp_path):
    """Small ones are read at once, a database is asked once."""
    for folder in ("small", "large"):
        (tmp_path / folder).mkdir()
    small = tmp_path / "small" / "1.csv"
    small.write_text("a\n1\n")
    for name in ("1.csv", "2.csv"):
        with (tmp_path / "large" / name).open("wb") as file:
            file.truncate(STREAM_BYTES // 2)
    assert not stream_by_default(small)
    assert not stream_by_default(small.parent)
    assert not stream_by_default(tmp_path / "large" / "1.csv")
    assert stream_by_default(tmp_path / "large")
    assert not stream_by_default("postgresql://host/base#table")
    with pytest.raises(InputError, match="no such file or directory"):
        stream_by_default(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parties": {}}, "at least one data party is needed, got none"),
        ({"parties": {"telco": []}}, "party 'telco': at least one column is needed, got none"),
        ({"parties": {"telco": ["bill"], "shop": ["bill"]}}, "one owner only; named twice: 'bill'"),
        ({"task": ["y"]}, "one owner only; named twice: 'y'"),
        ({"coding": CodingSettings(pca=2)}, "pca needs whole columns in memory"),
        ({"task": ["agee"]}, r"column 'agee' not found; did you mean 'age'\?"),
        ({"label": "calls_", "task": []}, r"column 'calls_' not found; did you mean 'calls'\?"),
    ],
)
def test_a_wrong_request_is_refused(tmp_path, change, message):
    """Each with what was expected and what came, before a row is counted."""
    pq.write_table(customers(50), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message):
        count_files(tmp_path, **{**OWNERS, **change})


def _missing_label(table):
    return table.set_column(0, "y", pa.array([None, *table["y"].to_pylist()[1:]]))


def _constant_label(table):
    return table.set_column(0, "y", pa.array([7] * table.num_rows))


def _infinite(table):
    return table.set_column(1, "age", pa.array([float("inf")] * table.num_rows))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_missing_label, "label 'y': 1 of 50 rows have no label"),
        (_constant_label, "label 'y': all rows have the same label"),
        (_infinite, "column 'age': 50 values are infinite"),
        (lambda table: table.slice(0, 0), "the table has no rows"),
        (lambda table: table.drop_columns(["city"]), r"t\.parquet: column 'city' not found"),
    ],
)
def test_spoilt_data_is_refused(tmp_path, spoil, message):
    """The same messages as for a table in memory."""
    pq.write_table(spoil(customers(50)), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message):
        count_files(tmp_path, **OWNERS)


def test_text_in_one_file_and_numbers_in_another_are_refused(tmp_path):
    """A column has one type in all sources."""
    table = customers(50)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.set_column(3, "calls", pa.array(["many"] * 50)), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="must store a column in one type"):
        count_files(tmp_path, **OWNERS)
    with pytest.raises(InputError, match="column 'calls' has numbers in one part and text in another"):
        count_files([tmp_path / "a.parquet", tmp_path / "b.parquet"], **OWNERS)


def test_numbers_stored_as_text_in_one_file_are_numbers(tmp_path):
    """The values decide, not the type that stores them."""
    table = customers(50)
    as_text = table.set_column(3, "calls", table["calls"].cast(pa.string()))
    pq.write_table(table.slice(0, 25), tmp_path / "a.parquet")
    pq.write_table(as_text.slice(25), tmp_path / "b.parquet")
    got = count_files([tmp_path / "a.parquet", tmp_path / "b.parquet"], **OWNERS)
    assert_same(got, in_memory(table))


def test_no_source_is_refused():
    """An empty list holds no rows."""
    with pytest.raises(InputError, match="at least one source is needed, got none"):
        count_files([], **OWNERS)
