"""The same table gives the same codes from every source and library."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_stream import PartyStream
from fedvalue.tables.party_table import party_table
from fedvalue.tables.sources import read_table

FEATURES = ("zip", "east_zip", "amount", "visits", "since", "city", "member", "note")
N = 400


def customers() -> pa.Table:
    """Zip codes with and without leading zeros, money, counts, dates, text, booleans and holes."""
    rng = np.random.default_rng(0)
    holes = rng.random(N) < 0.1
    day = dt.date(2020, 1, 1)
    return pa.table(
        {
            "id": [f"c{k:04}" for k in range(N)],
            "zip": rng.integers(10_000, 99_999, N),
            "east_zip": [f"{k:05}" for k in rng.integers(1_000, 99_999, N)],
            "amount": pa.array(np.round(rng.gamma(1.0, 100.0, N), 2), mask=holes),
            "visits": rng.poisson(0.3, N),
            "since": [day + dt.timedelta(days=int(k)) for k in rng.integers(0, 900, N)],
            "city": pa.array(rng.choice(["Bonn", "Köln", "Ulm"], N), mask=holes),
            "member": pa.array(rng.random(N) < 0.5),
            "note": pa.array(rng.choice(["1", "2", "n/k"], N)),
        }
    )


def as_text(table: pa.Table) -> pa.Table:
    """Every column stored as text, as an export of everything as varchar is."""
    return pa.table({name: table[name].cast(pa.string()) for name in table.column_names})


def as_floats(table: pa.Table) -> pa.Table:
    """Whole numbers stored as floats, as pandas does where a column has holes."""
    columns = {name: table[name] for name in table.column_names}
    return pa.table(columns | {name: columns[name].cast(pa.float64()) for name in ("zip", "visits")})


FILES = {
    "t.csv": pcsv.write_csv,
    "t.parquet": pq.write_table,
    "t.feather": feather.write_feather,
    "text.parquet": lambda table, path: pq.write_table(as_text(table), path),
    "float.parquet": lambda table, path: pq.write_table(as_floats(table), path),
    "semicolons.csv": lambda table, path: table.to_pandas().to_csv(path, sep=";", decimal=",", index=False),
    "pandas.csv": lambda table, path: table.to_pandas().to_csv(path, index=False),
    "polars.csv": lambda table, path: pl.from_arrow(table).write_csv(path),
}


def feature_codes(table, **settings) -> dict[str, list[int]]:
    coded = party_table("shop", table, CodingSettings(**settings))
    return dict(zip(coded.features, coded.codebook.codes[coded.codes].T.tolist(), strict=True))


@pytest.mark.parametrize("settings", [{}, {"binning": "width"}, {"categorical": ("zip", "east_zip")}])
@pytest.mark.parametrize("name", FILES)
def test_every_file_gives_the_same_codes(tmp_path, name, settings):
    """Read at once and streamed; what a number is depends on the values alone."""
    table = customers()
    expected = feature_codes(table.select(FEATURES), **settings)
    FILES[name](table, tmp_path / name)
    assert feature_codes(read_table(tmp_path / name, FEATURES), **settings) == expected
    stream = PartyStream.open(
        tmp_path / name, id="id", features=FEATURES, settings=CodingSettings(**settings), batch_rows=70
    )
    numbers = np.concatenate([batch.numbers[0] for batch in stream.batches()])
    streamed = stream.columns[0].codebook().codes[stream.columns[0].ranks()[numbers]]
    assert dict(zip(FEATURES, streamed.T.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    "made",
    [
        lambda table: table.to_pandas(),
        lambda table: table.to_pandas().convert_dtypes(),
        lambda table: pd.DataFrame({name: table[name].to_pylist() for name in FEATURES}, dtype=object),
        pl.from_arrow,
        lambda table: table.to_pydict(),
    ],
    ids=["pandas", "nullable", "objects", "polars", "lists"],
)
def test_every_library_gives_the_same_codes(made):
    """Frames, lists and Arrow tables of the same values."""
    table = customers().select(FEATURES)
    assert feature_codes(made(table)) == feature_codes(table)


def test_zip_codes_are_numbers_unless_they_say_otherwise():
    """A leading zero, or the caller, makes them names; without either they are binned, with a warning."""
    table = customers()
    plain = party_table("shop", table.select(["zip", "east_zip"])).columns
    assert [column.kind for column in plain] == ["number", "category"]
    assert any("its name suggests codes" in warning for warning in plain[0].warnings)
    named = party_table("shop", table.select(["zip"]), CodingSettings(categorical=("zip",), binning="width"))
    assert named.n_codes == len(set(table["zip"].to_pylist()))
