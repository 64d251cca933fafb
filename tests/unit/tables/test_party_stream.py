"""A table in batches against the same table at once: `party_table` and `label_table` say what is right."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_stream import PartyStream
from fedvalue.tables.party_table import label_table, party_table

NUMBERS = st.one_of(st.none(), st.floats(-5, 5), st.integers(0, 3).map(float))
TEXTS = st.sampled_from(["a", "b", "Ä", None])


def streamed(stream: PartyStream) -> tuple[list[str], list[np.ndarray]]:
    """All ids and, per column, all codes."""
    batches = list(stream.batches())
    ids = [one for batch in batches for one in batch.ids.to_pylist()]
    codes = [
        column.ranks()[np.concatenate([batch.numbers[k] for batch in batches])]
        for k, column in enumerate(stream.columns)
    ]
    return ids, codes


def opened(table: pa.Table, folder: Path, **options: Any) -> PartyStream:
    pq.write_table(table, folder / "t.parquet", row_group_size=3)
    options = {"features": ("x", "city"), "label": "y", **options}
    return PartyStream.open(folder / "t.parquet", id="id", **options)


@given(
    rows=st.lists(st.tuples(NUMBERS, TEXTS, st.sampled_from(["no", "yes"])), min_size=2, max_size=30),
    bins=st.integers(2, 5),
    binning=st.sampled_from(["width", "quantile"]),
    batch_rows=st.integers(1, 12),
)
def test_codes_are_those_of_the_whole_table(rows, bins, binning, batch_rows):
    """Codes, their counts, codebook, notes and the order of rows, for any batches."""
    x, city, y = (list(column) for column in zip(*rows, strict=True))
    y[:2] = ["no", "yes"]
    table = pa.table(
        {
            "id": [f"{k:03}" for k in range(len(rows))],
            "y": y,
            "x": pa.array(x, pa.float64()),
            "city": pa.array(city, pa.string()),
        }
    )
    with TemporaryDirectory() as folder:
        settings = CodingSettings(bins=bins, binning=binning)
        stream = opened(table, Path(folder), settings=settings, batch_rows=batch_rows)
        ids, codes = streamed(stream)
    whole = party_table("party", table.select(["x", "city"]), settings)
    label = label_table(table["y"], settings, name="y")
    assert ids == table["id"].to_pylist()
    assert codes[0].tolist() == whole.codes.tolist()
    assert codes[1].tolist() == label.codes.tolist()
    assert stream.columns[0].n_codes == whole.n_codes
    assert stream.columns[0].counts().tolist() == np.bincount(whole.codes).tolist()
    codebook = stream.columns[0].codebook()
    assert codebook.features == whole.codebook.features
    assert codebook.codes.tolist() == whole.codebook.codes.tolist()
    assert (stream.notes, stream.warnings) == ((*whole.notes, *label.notes), label.warnings)


TABLE = pa.table(
    {"id": list("abcdefgh"), "y": [0, 1] * 4, "x": [1.0, 2.0] * 4, "city": list("abcdabcd")},
    schema=pa.schema({"id": pa.string(), "y": pa.int64(), "x": pa.float64(), "city": pa.string()}),
)


def test_a_table_of_no_rows_is_refused(tmp_path):
    with pytest.raises(InputError, match="the table has no rows"):
        opened(TABLE.slice(0, 0), tmp_path)


@pytest.mark.parametrize(
    ("label", "message"),
    [([1] * 8, "all rows have the same label"), ([None, *[1] * 7], "1 of 8 rows have no label")],
)
def test_a_bad_label_is_refused(label, message, tmp_path):
    with pytest.raises(InputError, match=message):
        list(opened(TABLE.set_column(1, "y", pa.array(label, pa.int64())), tmp_path).batches())


def test_too_many_codes_are_refused(tmp_path):
    """Four cities and two numbers make four joint codes here, and eight where they cross."""
    assert len(list(opened(TABLE, tmp_path, most_codes=4).batches())) == 1
    crossed = TABLE.set_column(2, "x", pa.array([1.0] * 4 + [2.0] * 4))
    with pytest.raises(InputError, match="the columns together have more than the 4 codes") as caught:
        list(opened(crossed, tmp_path, most_codes=4).batches())
    assert caught.value.code == "E_GATE"


def test_files_that_change_between_the_passes_are_noticed(tmp_path):
    """More rows, or a category that was not there."""
    stream = opened(TABLE, tmp_path)
    pq.write_table(pa.concat_tables([TABLE, TABLE]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="had 8 rows when it was first read, now has 16"):
        list(stream.batches())
    stream = opened(TABLE, tmp_path)
    pq.write_table(TABLE.set_column(3, "city", pa.array(list("abcdabcz"))), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="1 values are not among the 4 known"):
        list(stream.batches())
