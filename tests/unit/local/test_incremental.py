"""A state grows with new rows, refuses what does not fit, and survives being killed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from fedvalue.errors import InputError
from fedvalue.local import state_file as state
from fedvalue.local.incremental import locked_state
from fedvalue.local.state_file import SCHEMA, load_state, save_state
from fedvalue.local.streaming import value_files
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.valuation.settings import ValuationSettings
from tests.support.processes import PATIENCE
from tests.support.streamed_counts import count_files

OWNERS = {"label": "y", "task": ["t"], "parties": {"a": ["x", "c"], "b": ["z"]}}


def width(**coding):
    """Settings whose bins depend on the range alone, so that they do not depend on which file comes first."""
    return ValuationSettings(coding=CodingSettings(**{"binning": "width", **coding}))


PLAIN = structs.replace(width(), statistics=False)


def rows(n, seed, colours=("red", "green")):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return pa.table(
        {
            "y": y,
            "t": rng.integers(0, 2, n),
            "x": np.clip(rng.normal(y, 1.0, n), -3, 3),
            "c": rng.choice(np.array(colours), n),
            "z": rng.integers(0, 3, n) * y,
        }
    )


@pytest.fixture
def files(tmp_path):
    """Three files whose numbers span the same range, so that bins do not depend on which comes first."""
    made = []
    for k in range(3):
        table = rows(200, k)
        x = table["x"].to_pylist()
        x[:2] = [-3.0, 3.0]
        made.append(tmp_path / f"{k}.parquet")
        pq.write_table(table.set_column(2, "x", pa.array(x)), made[-1])
    return made


def assert_same(got, expected):
    assert (got.names, got.n_codes) == (expected.names, expected.n_codes)
    for part in ("task", "label", "parties", "count"):
        np.testing.assert_array_equal(getattr(got, part), getattr(expected, part))
    for mine, theirs in zip(got.codebooks, expected.codebooks, strict=True):
        assert mine.features == theirs.features
        np.testing.assert_array_equal(mine.codes, theirs.codes)


def test_a_state_that_grew_is_the_whole(tmp_path, files):
    """Three updates give the counts and values of all files at once."""
    for file in files:
        result = value_files(file, state=tmp_path / "s", **OWNERS, settings=width())
    whole = count_files(files, **OWNERS, coding=width().coding)
    assert_same(load_state(tmp_path / "s").table.joint_counts(), whole)
    assert result.parties == value_files(files, **OWNERS, settings=width()).parties
    assert result.details["state"] == {"n_before": 400, "n_added": 200, "skipped_files": []}
    assert [change["name"] for change in result.details["changes"]] == ["a", "b"]
    assert all(isinstance(change["beyond_error"], bool) for change in result.details["changes"])


def test_a_changed_party_is_told_from_the_others(tmp_path):
    """Party b predicts the label in the first rows and is noise in the later ones; a stays noise."""
    rng = np.random.default_rng(1)
    for name, told in (("1.parquet", True), ("2.parquet", False)):
        y = rng.integers(0, 2, 2_000)
        z = y if told else rng.integers(0, 2, 2_000)
        pq.write_table(pa.table({"y": y, "x": rng.integers(0, 2, 2_000), "z": z}), tmp_path / name)
    owners = {"label": "y", "parties": {"a": ["x"], "b": ["z"]}}
    value_files(tmp_path / "1.parquet", state=tmp_path / "s", **owners)
    result = value_files(tmp_path / "2.parquet", state=tmp_path / "s", **owners)
    told = {change["name"]: change["beyond_error"] for change in result.details["changes"]}
    assert told == {"a": False, "b": True}


def test_the_same_file_again_counts_nothing_twice(tmp_path, files):
    """Running the command again, or on the folder, adds only what is new."""
    first = value_files(files[0], state=tmp_path / "s", **OWNERS)
    again = value_files(files[0], state=tmp_path / "s", **OWNERS)
    assert again.n_samples == first.n_samples == 200
    assert again.details["state"] == {"n_before": 200, "n_added": 0, "skipped_files": ["0.parquet"]}
    assert not any(change["beyond_error"] for change in again.details["changes"])
    folder = value_files(tmp_path, state=tmp_path / "s", **OWNERS)
    assert folder.n_samples == 600
    assert folder.details["state"]["skipped_files"] == ["0.parquet"]


def test_two_equal_files_of_one_call_are_two(tmp_path, files):
    """As without a state."""
    files[1].write_bytes(files[0].read_bytes())
    assert value_files(files[:2], state=tmp_path / "s", **OWNERS).n_samples == 400


def test_a_file_that_has_grown_is_refused(tmp_path):
    """Its old rows would count twice; the state stays as it was."""
    path = tmp_path / "t.csv"
    pcsv.write_csv(rows(50, 0), path)
    value_files(path, state=tmp_path / "s", **OWNERS)
    before = (tmp_path / "s").read_bytes()
    with path.open("a") as file:
        file.write('1,1,0.5,"red",1\n')
    with pytest.raises(
        InputError, match=r"the file begins with all rows of 't\.csv', which are already counted"
    ):
        value_files(path, state=tmp_path / "s", **OWNERS)
    assert (tmp_path / "s").read_bytes() == before


def test_new_categories_and_wider_numbers_are_added_and_said(tmp_path, files):
    """A new colour gets a code, numbers beyond the range the outer bins, a missing value a code."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    later = pa.table({"y": [0, 1], "t": [0, 1], "x": [-99.0, None], "c": ["blue", "red"], "z": [0, 0]})
    pq.write_table(later, tmp_path / "later.parquet")
    result = value_files(tmp_path / "later.parquet", state=tmp_path / "s", **OWNERS)
    assert result.n_samples == 202
    assert (
        "column 'x': new numbers beyond the binned range fall into the outer bins" in result.details["notes"]
    )
    assert "column 'c': 1 new categories" in result.details["notes"]
    table = load_state(tmp_path / "s").table
    codes = {name: table.column(name) for name in table.layout.columns}
    blue = codes["c"] == 2
    assert table.counts[blue].tolist() == [1]
    assert codes["x"][blue].tolist() == [0]
    assert int(table.counts[codes["x"] == 5].sum()) == 1


def test_text_that_looks_like_numbers_stays_text_in_later_csv_files(tmp_path):
    """A chunk with only number-like categories is read as the state has the column."""
    for name, grades in (("1.csv", ["A1", "7", "7", "A1"]), ("2.csv", ["7", "8", "8", "7"])):
        pcsv.write_csv(pa.table({"y": [0, 1, 1, 0], "g": grades}), tmp_path / name)
    owners = {"label": "y", "parties": {"a": ["g"]}}
    (tmp_path / "1.csv").write_text("y,g\n0,A1\n1,7\n1,7\n0,A1\n")
    (tmp_path / "2.csv").write_text("y,g\n0,7\n1,8\n1,8\n0,7\n")
    value_files(tmp_path / "1.csv", state=tmp_path / "s", **owners)
    result = value_files(tmp_path / "2.csv", state=tmp_path / "s", **owners)
    assert result["a"].n_codes == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": width(bins=4)}, "the state was made with coding bins=5, .* got bins=4, "),
        ({"label": "z", "parties": {"a": ["x", "c"]}}, "the state was made with label 'y', got 'z'"),
        ({"task": []}, r"the state was made with task \('t',\), got \(\)"),
        ({"parties": {"a": ["x", "c"]}}, "the state was made with parties .* got"),
        ({"parties": {"a": ["x"], "b": ["z", "c"]}}, "the state was made with parties .* got"),
        ({"settings": width(binning="quantile")}, "the state was made with coding .*binning='width'"),
        ({"settings": width(pca=1)}, "pca needs whole columns"),
    ],
)
def test_another_layout_or_binning_is_refused(tmp_path, files, change, message):
    """Counts of other columns or other bins cannot be added; the state stays as it was."""
    value_files(files[0], state=tmp_path / "s", **OWNERS, settings=width())
    before = (tmp_path / "s").read_bytes()
    with pytest.raises(InputError, match=message):
        value_files(files[1], state=tmp_path / "s", **{**OWNERS, "settings": width(), **change})
    assert (tmp_path / "s").read_bytes() == before


def test_another_schema_is_refused(tmp_path, files):
    """A later schema is named; any other file is called that."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    content = (tmp_path / "s").read_bytes()
    (tmp_path / "s").write_bytes(content.replace(b"state/2", b"state/3", 1))
    with pytest.raises(InputError, match=f"expected a state of schema '{SCHEMA}', got 'fedvalue.state/3'"):
        value_files(files[1], state=tmp_path / "s", **OWNERS)
    for other in (b"", b"PK\x03\x04", b"{}"):
        (tmp_path / "s").write_bytes(other)
        with pytest.raises(InputError, match="got 'another file'"):
            load_state(tmp_path / "s")


def test_every_truncated_state_is_refused(tmp_path, files):
    """Cut anywhere, the file is damaged, never a smaller state."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    content = (tmp_path / "s").read_bytes()
    for length in [*range(0, 200, 7), *range(200, len(content), 997), len(content) - 1]:
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(InputError):
            load_state(tmp_path / "cut")


def test_every_flipped_bit_is_noticed(tmp_path, files):
    """A changed byte anywhere behind the first line gives another hash."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    content = bytearray((tmp_path / "s").read_bytes())
    for place in range(len(SCHEMA) + 1, len(content), 991):
        content[place] ^= 1
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(InputError, match="damaged"):
            load_state(tmp_path / "bad")
        content[place] ^= 1


@pytest.mark.parametrize("spoil", ["layout", "coders", "files", "valuation"])
def test_an_incomplete_state_with_a_right_hash_is_refused(tmp_path, files, spoil):
    """Whoever edits a state and its hash still gets an input error, no KeyError."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    first, _, body = (tmp_path / "s").read_bytes().split(b"\n", 2)
    head, payload = body.split(b"\n", 1)
    data = json.loads(head)
    for damage in ("drop", "change"):
        spoilt = dict(data)
        if damage == "drop":
            del spoilt[spoil]
        else:
            spoilt[spoil] = [1]
        body = json.dumps(spoilt).encode() + b"\n" + payload
        digest = hashlib.sha256(body).hexdigest().encode()
        (tmp_path / "s").write_bytes(b"\n".join([first, digest, body]))
        with pytest.raises(InputError):
            load_state(tmp_path / "s")


def test_a_state_round_trips(tmp_path, files):
    """Saving what was loaded writes the same bytes."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    save_state(tmp_path / "again", load_state(tmp_path / "s"))
    assert (tmp_path / "again").read_bytes() == (tmp_path / "s").read_bytes()
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


def test_spoilt_rows_leave_the_state_as_it_was(tmp_path, files):
    """A missing label in the new rows is refused before anything is replaced."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    before = (tmp_path / "s").read_bytes()
    table = pq.read_table(files[1])
    pq.write_table(table.set_column(0, "y", pa.array([None] * 200, pa.int64())), files[1])
    with pytest.raises(InputError, match="label 'y': 200 of 200 rows have no label"):
        value_files(files[1], state=tmp_path / "s", **OWNERS)
    assert (tmp_path / "s").read_bytes() == before


def test_a_full_disk_leaves_the_state_as_it_was(tmp_path, files, monkeypatch):
    """Writing fails in the middle: an input error, the old state, no rubbish beside it."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    before = (tmp_path / "s").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state.os, "fsync", full)
    with pytest.raises(InputError, match="cannot write the state there: No space left on device"):
        value_files(files[1], state=tmp_path / "s", **OWNERS)
    assert (tmp_path / "s").read_bytes() == before
    assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*.tmp"))


def test_an_interrupt_while_writing_leaves_no_file_behind(tmp_path, files, monkeypatch):
    """Ctrl-C is no error of the disk, but nothing half-written may stay either."""

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(state.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        value_files(files[0], state=tmp_path / "s", **OWNERS, settings=PLAIN)
    assert not list(tmp_path.glob("*.tmp"))
    assert not list(tmp_path.glob(".s.*.tmp"))


def test_a_state_may_be_reached_by_a_link(tmp_path, files):
    """The state behind the link grows; the link stays."""
    value_files(files[0], state=tmp_path / "s", **OWNERS, settings=PLAIN)
    (tmp_path / "link").symlink_to(tmp_path / "s")
    value_files(files[1], state=tmp_path / "link", **OWNERS, settings=PLAIN)
    assert (tmp_path / "link").is_symlink()
    assert load_state(tmp_path / "s").table.n_samples == 400


def test_a_folder_that_is_not_there_is_refused(tmp_path, files):
    """With the system's reason."""
    with pytest.raises(InputError, match=r"no/s: the folder of the state does not exist"):
        value_files(files[0], state=tmp_path / "no" / "s", **OWNERS)


def test_a_state_in_use_is_refused(tmp_path, files):
    """Two processes at once would lose the rows of one."""
    value_files(files[0], state=tmp_path / "s", **OWNERS)
    with (
        locked_state(tmp_path / "s"),
        pytest.raises(InputError, match="the state is in use by another process"),
    ):
        value_files(files[1], state=tmp_path / "s", **OWNERS)
    assert value_files(files[1], state=tmp_path / "s", **OWNERS).n_samples == 400


KILLED = """
import os, sys
from fedvalue.local import state_file as state
from fedvalue.local import streaming
from fedvalue.local.streaming import value_files
place, folder = sys.argv[1:]
def stop(*arguments, **named):
    print("here", flush=True)
    import time
    time.sleep(3600)
if place == "sync":
    state.os.fsync = stop
elif place == "rename":
    state.os.replace = stop
elif place == "after":
    save = streaming.save_state
    streaming.save_state = lambda *a: (save(*a), stop())
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.valuation.settings import ValuationSettings
settings = ValuationSettings(method="exact", statistics=False, coding=CodingSettings(binning="width"))
owners = {"label": "y", "task": ["t"], "parties": {"a": ["x", "c"], "b": ["z"]}}
value_files(folder + "/1.parquet", state=folder + "/s", **owners, settings=settings)
"""


@pytest.mark.parametrize(
    ("place", "n_samples"),
    [
        ("rename", 200),
        pytest.param("sync", 200, marks=pytest.mark.slow),
        pytest.param("after", 400, marks=pytest.mark.slow),
    ],
)
def test_a_killed_update_loses_nothing_and_can_be_repeated(tmp_path, files, place, n_samples):
    """kill -9 while writing, before the rename, or just after it: the same command then ends the same."""
    value_files(files[0], state=tmp_path / "s", **OWNERS, settings=width())
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, place, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "here\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert load_state(tmp_path / "s").table.n_samples == n_samples
    deadline = time.monotonic() + PATIENCE
    while True:  # the system frees the lock when it has buried the process
        try:
            result = value_files(files[1], state=tmp_path / "s", **OWNERS, settings=width())
            break
        except InputError:
            assert time.monotonic() < deadline
    assert result.n_samples == 400
    assert_same(
        load_state(tmp_path / "s").table.joint_counts(),
        count_files(files[:2], **OWNERS, coding=width().coding),
    )
