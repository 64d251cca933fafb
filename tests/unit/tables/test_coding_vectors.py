"""The codes of a file against those of an independent script. Other codes need another VALUES_VERSION."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_stream import PartyStream
from fedvalue.tables.party_table import label_table, party_table
from fedvalue.tables.sources import read_table

VECTOR = json.loads(
    (Path(__file__).resolve().parents[2] / "vectors" / "coding.json").read_text(encoding="utf-8")
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.csv"
    path.write_text("\n".join(VECTOR["file"]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("binning", VECTOR["codes"])
def test_a_file_read_at_once_has_the_codes_of_the_vector(file: Path, binning: str) -> None:
    expected = VECTOR["codes"][binning]
    coded = party_table("shop", read_table(file, list(expected)), settings(binning))
    found = coded.codebook.codes[coded.codes].T.tolist()
    assert dict(zip(coded.features, found, strict=True)) == expected


@pytest.mark.parametrize("binning", VECTOR["codes"])
def test_a_streamed_file_has_the_codes_of_the_vector(file: Path, binning: str) -> None:
    """As a deployed party reads it."""
    expected = VECTOR["codes"][binning]
    stream = PartyStream.open(
        file, id="id", features=list(expected), label="bought", settings=settings(binning), batch_rows=17
    )
    batches = list(stream.batches())
    columns = [
        column.codebook().codes[column.ranks()[np.concatenate([batch.numbers[k] for batch in batches])]]
        for k, column in enumerate(stream.columns)
    ]
    assert dict(zip(expected, columns[0].T.tolist(), strict=True)) == expected
    assert columns[1][:, 0].tolist() == VECTOR["label"]


def test_a_label_has_the_codes_of_the_vector(file: Path) -> None:
    assert label_table(read_table(file, ["bought"])).codes.tolist() == VECTOR["label"]


def settings(binning: str) -> CodingSettings:
    return CodingSettings(bins=VECTOR["bins"], binning=binning)
