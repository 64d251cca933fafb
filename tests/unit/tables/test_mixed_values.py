"""Numbers and dates with other texts among them are never silently categories."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import fedvalue
from fedvalue.errors import InputError
from fedvalue.local.check import check_sources
from fedvalue.local.streaming import value_files
from fedvalue.tables.file_options import FileOptions
from fedvalue.tables.mixed_values import MOST_KEPT
from fedvalue.tables.party_stream import PartyStream
from fedvalue.tables.sources import read_table
from fedvalue.tables.text_readings import TextReadings, read_by_values

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(3000, 1000, N)
Y = X + RNG.normal(0, 600, N) > 3000
AMOUNTS = [f"{x:.2f}" for x in X]


def written(path, cells):
    rows = [
        f'"{cell}",{k:04d},{"yes" if y else "no"}' for k, (cell, y) in enumerate(zip(cells, Y, strict=True))
    ]
    path.write_text("x,id,y\n" + "\n".join(rows) + "\n")
    return path


def with_strays(*strays):
    return [*AMOUNTS[: N - len(strays)], *strays]


def in_memory(path, options=None):
    return fedvalue.value(data=path, label="y", parties={"strong": ["x"]}, file_options=options)


def streamed(path, options=None):
    return value_files(path, label="y", parties={"strong": ["x"]}, options=options or FileOptions())


def party_of_a_run(path, options=None):
    return PartyStream.open(path, id="id", features=["x"], batch_rows=100, options=options or FileOptions())


@pytest.mark.parametrize("read", [in_memory, streamed, party_of_a_run])
def test_one_word_among_amounts_is_refused_with_its_remedies(tmp_path, read):
    """It comes last, in a batch whose other values are numbers."""
    path = written(tmp_path / "t.csv", with_strays("unknown"))
    with pytest.raises(
        InputError, match=r"column 'x': most values are numbers, but 'unknown' \(1 row\) is not; "
    ):
        read(path)
    read(path, FileOptions(missing=("unknown",)))


def test_check_reports_the_refusal(tmp_path):
    path = written(tmp_path / "t.csv", with_strays("?", "?", "n.k."))
    (problem,) = check_sources([str(path)], label="y").files[0].problems
    assert problem == (
        "column 'x': most values are numbers, but '?' (2 rows), 'n.k.' (1 row) are not; add --missing "
        "'?,n.k.' to read such texts as missing, correct them, or list the column as categorical"
    )
    assert not check_sources([str(path)], options=FileOptions(missing=("?", "n.k."))).files[0].problems


@pytest.mark.parametrize("read", [in_memory, streamed])
@pytest.mark.parametrize("strays", [("unknown",), ("-",) * 6, (" ?",) * 6])
def test_the_advice_is_that_of_the_numbers(tmp_path, read, strays):
    """One percent of cells without a number does not turn "invite" into "invite nobody"."""
    good = read(written(tmp_path / "good.csv", AMOUNTS))
    path = written(tmp_path / "t.csv", with_strays(*strays))
    result = read(path, FileOptions(missing=(strays[0].strip(),)))
    assert fedvalue.select(result).parties == fedvalue.select(good).parties == ("strong",)
    assert result.columns[1].kind == "number"
    assert result.columns[1].n_missing == len(strays)


def test_a_frame_is_refused_like_a_file():
    frame = {"x": with_strays("unknown")}
    with pytest.raises(InputError, match="'unknown'"):
        fedvalue.value(label=Y, parties={"strong": frame})
    as_categories = fedvalue.value(label=Y, parties={"strong": frame}, categorical=["x"])
    assert as_categories.columns[1].kind == "category"
    assert fedvalue.value(label=Y, parties={"strong": {"x": AMOUNTS}}).columns[1].kind == "category"


def test_missing_values_are_no_texts():
    """Not even a whole column of them, or a whole batch before the first number."""
    result = fedvalue.value(label=Y, parties={"a": {"x": pa.nulls(N, pa.string()), "z": X}})
    assert result.columns[1].n_missing == N
    assert typed([None] * 70_000 + AMOUNTS).null_count == 70_000
    with pytest.raises(InputError, match="'unknown'"):
        typed([None] * 70_000 + with_strays("unknown"))


def typed(values, **options):
    return read_by_values(pa.array(values), "x", **options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([*AMOUNTS, "34.2%"], "in several notations, such as"),
        ([f"2024-01-{k:02d}" for k in range(1, 29)] + ["soon"], "most values are dates, but 'soon'"),
        (
            [f"{k:02d}/13/2024" for k in range(1, 12)] + [f"{k}/11/2024" for k in range(13, 28)],
            "several notations",
        ),
        ([*AMOUNTS, "007"], "in several notations"),
        ([*AMOUNTS, *(f"{k}k" for k in range(50))], "and 47 other texts are not"),
    ],
)
def test_what_no_single_reading_fits_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        typed(values)


@pytest.mark.parametrize(
    "values",
    [
        ["0", "1", "2", "3+"],
        [*(str(k) for k in range(100, 140)), "007", "unknown"],
        [f"{k}-{k + 9}" for k in range(0, 300, 10)],
        [*(str(k) for k in range(1000)), *(f"A{k}" for k in range(MOST_KEPT))],
        ["north", *(f"street {k}" for k in range(100)), "12", "13"],
    ],
    ids=["few values", "names with leading zeros", "ranges", "hundreds of texts", "mostly text"],
)
def test_text_stays_text(values):
    assert typed(values).to_pylist() == values


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["(1,234.50)", "17", "3.5"], [-1234.5, 17, 3.5]),
        (["12.50-", "17.25"], [-12.5, 17.25]),
        (["($5)", "$1,000.25"], [-5, 1000.25]),
        (["(1.234,50)", "2,5"], [-1234.5, 2.5]),
    ],
)
def test_accounting_negatives_are_numbers(values, numbers):
    assert typed(values).to_pylist() == numbers


def test_accounting_negatives_may_come_in_a_later_batch(tmp_path):
    cells = [f"({-x:.2f})" if x < 0 else f"{x:.2f}" for x in sorted(X - 3000, reverse=True)]
    stream = party_of_a_run(written(tmp_path / "t.csv", cells))
    assert stream.codings[0].kind == "number"
    assert sum(len(batch.ids) for batch in stream.batches()) == N


@pytest.mark.parametrize("values", [["01-Jan-2024", "9 December 2023"], ["1/JAN/2024 10:30", "09.dec.2023"]])
def test_months_by_name_are_dates(values):
    days = [str(day.date()) for day in typed(values).to_pylist()]
    assert days == ["2024-01-01", "2023-12-09"]


def test_parts_are_judged_together():
    """Whatever their order: one file has the numbers, another the words."""
    for order in (1, -1):
        looks = []
        for values in [AMOUNTS, ["unknown"], ["?", "?"]][::order]:
            looks.append(TextReadings())
            looks[-1].look(pa.array(values))
        first, *others = looks
        for other in others:
            first.merge(other)
        assert "'?' (2 rows), 'unknown' (1 row) are not" in first.problem


def test_the_option_is_checked():
    assert FileOptions(missing=["?"]).missing == ("?",)
    for wrong in ("?", (), [3]):
        with pytest.raises(InputError, match="missing must be a list of texts"):
            FileOptions(missing=wrong)


def test_a_missing_text_reads_the_same_from_parquet(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": with_strays("unknown")}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="'unknown'"):
        read_table(tmp_path / "t.parquet")
    column = read_table(tmp_path / "t.parquet", options=FileOptions(missing=("unknown",))).column("x")
    assert column.type == pa.float64()
    assert column.null_count == 1
