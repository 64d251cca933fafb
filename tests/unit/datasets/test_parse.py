"""Whatever layout a data set comes in, it ends with the values of the common layout."""

from __future__ import annotations

import csv
import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.datasets import load, locate, parse
from fedvalue.datasets.catalogue import CATALOGUE
from fedvalue.errors import InputError


def table(rows: list[list[object]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def as_rows(name: str) -> tuple[list[list[float]], list[str]]:
    dataset = load(name)
    return np.column_stack(list(dataset.X.values())).tolist(), dataset.y.tolist()


def test_text_columns_and_empty_cells_survive_the_common_layout() -> None:
    raw = b"id,age,job,label\n1,39,clerk,0\n2,,baker,1\n3,20,,0\n"
    columns = parse.common_layout(raw, text=("job",))
    assert columns.feature("job").tolist() == ["clerk", "baker", ""]
    assert columns.feature("age").tolist()[::2] == [39.0, 20.0]
    assert np.isnan(columns.feature("age")[1])
    again = parse.common_layout(parse.write_common_layout("people", columns), text=("job",))
    assert parse.fingerprint(again) == parse.fingerprint(columns)
    renamed = parse.common_layout(raw.replace(b"baker", b"cook"), text=("job",))
    assert parse.fingerprint(renamed) != parse.fingerprint(columns)


def test_a_set_of_numbers_has_no_empty_cells() -> None:
    with pytest.raises(InputError, match="a feature is not a number: age"):
        parse.common_layout(b"id,age,label\n1,,0\n2,3,1\n")


@pytest.mark.parametrize("name", ["wine", "breast"])
def test_scikit_learns_copy_has_the_fingerprint_of_the_known_file(name: str) -> None:
    """The catalogue's fingerprints come from the files; scikit-learn's copy is independent of them."""
    assert parse.fingerprint(parse.from_sklearn(name)) == CATALOGUE[name].fingerprint


def test_fingerprint_sees_one_changed_value_and_one_changed_label() -> None:
    columns = parse.from_sklearn("wine")
    values = columns.values.copy()
    values[100, 5] += 1e-12
    labels = columns.labels.copy()
    labels[0] = "2"
    known = parse.fingerprint(columns)
    assert parse.fingerprint(parse.Columns(columns.names, values, columns.labels)) != known
    assert parse.fingerprint(parse.Columns(columns.names, columns.values, labels)) != known


def test_uci_layout_of_wine() -> None:
    """UCI's wine.data has no header and the cultivar first."""
    values, labels = as_rows("wine")
    raw = table([[label, *row] for row, label in zip(values, labels, strict=True)])
    assert parse.fingerprint(parse.DOWNLOADED["wine"]([raw])) == CATALOGUE["wine"].fingerprint


def test_uci_layout_of_breast() -> None:
    """UCI's wdbc.data has an id, then M for malignant or B for benign."""
    values, labels = as_rows("breast")
    raw = table(
        [
            [k, "M" if label == "1" else "B", *row]
            for k, (row, label) in enumerate(zip(values, labels, strict=True))
        ]
    )
    assert parse.fingerprint(parse.DOWNLOADED["breast"]([raw])) == CATALOGUE["breast"].fingerprint


@pytest.mark.data
def test_uci_layouts_of_parkinsons_spect_and_credit() -> None:
    values, labels = as_rows("parkinsons")
    names = load("parkinsons").feature_names
    # `status` stands after 16 of the features.
    rows: list[list[object]] = [["name", *names[:16], "status", *names[16:]]]
    rows += [
        [f"phon_{k}", *row[:16], label, *row[16:]]
        for k, (row, label) in enumerate(zip(values, labels, strict=True))
    ]
    parsed = parse.DOWNLOADED["parkinsons"]([table(rows)])
    assert parsed.names == names
    assert parse.fingerprint(parsed) == CATALOGUE["parkinsons"].fingerprint

    values, labels = as_rows("spect")
    rows = [[label, *(int(cell) for cell in row)] for row, label in zip(values, labels, strict=True)]
    parsed = parse.DOWNLOADED["spect"]([table(rows[:80]), table(rows[80:])])
    assert parse.fingerprint(parsed) == CATALOGUE["spect"].fingerprint

    values, labels = as_rows("credit")
    rows = [["ID", *(f"X{k}" for k in range(1, 24)), "Y"]]
    rows += [[k, *map(int, row), label] for k, (row, label) in enumerate(zip(values, labels, strict=True), 1)]
    parsed = parse.DOWNLOADED["credit"]([table(rows)])
    assert parsed.names == load("credit").feature_names
    assert parse.fingerprint(parsed) == CATALOGUE["credit"].fingerprint


@pytest.mark.data
def test_uci_layouts_of_adult_bank_and_digits() -> None:
    """UCI: adult.data marks gaps with "?", bank-additional with "unknown" and has four more columns."""
    entry = CATALOGUE["adult"]
    columns = locate.read(entry, locate.find(entry))  # type: ignore[arg-type]
    cells = [
        [str(cell).removesuffix(".0") or "?" for cell in columns.feature(name)] for name in columns.names
    ]
    lines = [", ".join(row) for row in zip(*cells, columns.labels.tolist(), strict=True)]
    assert parse.fingerprint(parse.DOWNLOADED["adult"](["\n".join(lines).encode()])) == entry.fingerprint

    entry = CATALOGUE["bank"]
    columns = locate.read(entry, locate.find(entry))  # type: ignore[arg-type]
    cells = [[str(cell) or "unknown" for cell in columns.feature(name)] for name in columns.names]
    header = [
        name.replace("_", ".") if name.startswith(("emp", "cons", "nr")) else name for name in columns.names
    ]
    rows = [["y", "month", *header]]
    rows += [
        [{"1": "yes", "0": "no"}[label], "may", *row]
        for label, row in zip(columns.labels.tolist(), zip(*cells, strict=True), strict=True)
    ]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("bank-additional/bank-additional-full.csv", "\n".join(";".join(row) for row in rows))
    assert parse.fingerprint(parse.DOWNLOADED["bank"]([archive.getvalue()])) == entry.fingerprint
    with pytest.raises(InputError, match=r"expected an archive with bank-additional-full\.csv"):
        parse.DOWNLOADED["bank"]([b"not a zip"])

    values, labels = as_rows("digits")
    raw = table([[*map(int, row), label] for row, label in zip(values, labels, strict=True)])
    assert parse.fingerprint(parse.DOWNLOADED["digits"]([raw])) == CATALOGUE["digits"].fingerprint


@pytest.mark.data
def test_kaggle_layout_of_music_drops_filename_and_length() -> None:
    values, labels = as_rows("music")
    names = load("music").feature_names
    rows: list[list[object]] = [["filename", "length", *names, "label"]]
    rows += [
        [f"{label}.00000.wav", 661794, *map(repr, row), label]
        for row, label in zip(values, labels, strict=True)
    ]
    parsed = parse.kaggle_music(table(rows))
    assert parsed.names == names
    assert parse.fingerprint(parsed) == CATALOGUE["music"].fingerprint


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(finite, finite, st.sampled_from(["a", "b", "1", "jazz"])), min_size=1, max_size=20))
def test_common_layout_round_trip_keeps_every_bit(rows: list[tuple[float, float, str]]) -> None:
    columns = parse.Columns(
        ("x", "a, odd (name)"), np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    )
    again = parse.common_layout(parse.write_common_layout("t", columns))
    assert again.names == columns.names
    assert parse.fingerprint(again) == parse.fingerprint(columns)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "expected a table with rows"),
        (b"id,x,label\n", "expected a table with rows"),
        (b"x,y\n1,2\n", "expected the columns id, features, label"),
        (b"id,x,label\na,1,2\nb,1\n", "expected 1 features in every row"),
        (b"id,x,label\na,one,2\n", "a feature is not a number"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_table_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse.common_layout(raw)
