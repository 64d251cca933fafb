"""A table on disk against the same table in memory: the same input, the same bytes on the wire."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from fedvalue.deployment.config import TableConfig
from fedvalue.deployment.parties import party_input, spooled_samples
from fedvalue.deployment.parties.party_input import PartyInput, read_input
from fedvalue.deployment.parties.spooled_samples import SpooledSamples
from fedvalue.errors import InputError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.samples import MemorySamples
from fedvalue.protocol.transitions import State
from fedvalue.tables.file_options import FileOptions
from tests.support.consortium import manifest, signed
from tests.support.roles import run_roles

N = 3000
KINDS = ("csv", "csv folder", "parquet", "parquet folder", "arrow", "arrow stream")


def rows(party: str) -> pa.Table:
    """Numbers with gaps, text with gaps, a constant column, and a label of three classes."""
    rng = np.random.default_rng(len(party))
    y = np.random.default_rng(0).integers(0, 3, N)
    order = rng.permutation(N)
    amount = rng.normal(y, 1.0)
    amount[::17] = np.nan
    city = np.array(["Ulm", "Bonn", "Köln", None], dtype=object)[rng.integers(0, 4, N)]
    table = {
        "id": [f"person {k}" for k in range(N)],
        "amount": pa.array(amount, from_pandas=True),
        "city": pa.array(city),
        "always": np.ones(N, dtype=np.int64),
    }
    if party == "bank":
        table = {"id": table["id"], "y": np.array(["no", "yes", "maybe"])[y], "amount": table["amount"]}
    return pa.table(table).take(order)


def write(table: pa.Table, kind: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    half = table.num_rows // 2
    if kind == "csv":
        pc.write_csv(table, folder / "t.csv")
        return folder / "t.csv"
    if kind == "parquet":
        pq.write_table(table, folder / "t.parquet", row_group_size=700)
        return folder / "t.parquet"
    if kind == "arrow":
        pf.write_feather(table, folder / "t.arrow", compression="uncompressed", chunksize=500)
        return folder / "t.arrow"
    if kind == "arrow stream":
        with pa.ipc.new_stream(folder / "t.arrows", table.schema) as out:
            out.write_table(table, max_chunksize=400)
        return folder / "t.arrows"
    for k, part in enumerate((table.slice(0, half), table.slice(half))):
        if kind == "csv folder":
            pc.write_csv(part, folder / f"{k}.csv")
        else:
            pq.write_table(part, folder / f"{k}.parquet")
    return folder


def config(source: Path | str, party: str, **more: Any) -> TableConfig:
    label = "y" if party == "bank" else None
    return TableConfig(source=str(source), id="id", label=label, **more)


def small(monkeypatch: Any) -> None:
    """No table fits into a MiB; batches and buckets have a few hundred rows."""
    monkeypatch.setattr(party_input, "ROW_BYTES", 1 << 20)
    monkeypatch.setattr("fedvalue.deployment.parties.streamed_input.BATCH_ROWS", 256)
    monkeypatch.setattr("fedvalue.deployment.parties.row_files.SORT_BYTES", 1 << 12)


def both(table: TableConfig, party: str, scratch: Path, monkeypatch: Any, **terms: Any) -> list[PartyInput]:
    """The same table in memory and on disk."""
    agreed = manifest(**{"n_samples": N, **terms})
    role = "task" if party == "bank" else "data"
    small(monkeypatch)
    whole = read_input(table, agreed, party, role)
    streamed = read_input(replace(table, memory_mib=1), agreed, party, role, scratch)
    assert isinstance(whole.samples, MemorySamples)
    assert isinstance(streamed.samples, SpooledSamples)
    return [whole, streamed]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("party", ["bank", "telco"])
def test_a_streamed_table_is_the_table_in_memory(kind, party, tmp_path, monkeypatch):
    """Rows, sizes, digest, marginals and notes are equal, whatever the file."""
    source = write(rows(party), kind, tmp_path / "table")
    whole, streamed = both(config(source, party), party, tmp_path / "state", monkeypatch)
    assert streamed.rows == whole.rows == N
    assert streamed.sizes == whole.sizes
    assert streamed.digest == whole.digest
    assert (streamed.notes, streamed.warnings) == (whole.notes, whole.warnings)
    assert len(whole.notes) == (1 if party == "bank" else 3)
    for ours, theirs in zip(streamed.samples.marginals, whole.samples.marginals, strict=True):
        assert ours.tolist() == theirs.tolist()


def test_a_party_says_how_to_read_a_file_with_two_readings(tmp_path, monkeypatch):
    """Thousands that may be decimals: refused, in memory and on disk, until [table.file] tells."""
    ids = rows("telco")["id"].to_pylist()
    lines = [f"{one};{1 + k % 9},{k % 7 + 100}" for k, one in enumerate(ids)]
    source = tmp_path / "t.csv"
    source.write_text("id;amount\n" + "\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"column 'amount': .* --decimal"):
        both(config(source, "telco"), "telco", tmp_path / "plain", monkeypatch)
    told = config(source, "telco", file=FileOptions(decimal="."))
    whole, streamed = both(told, "telco", tmp_path / "told", monkeypatch)
    assert (streamed.sizes, streamed.digest) == (whole.sizes, whole.digest)


def test_a_partys_own_categorical_columns_are_never_binned(tmp_path, monkeypatch):
    """Numbers that are names, in memory and on disk: 40 zip codes stay 40 codes."""
    zips = pa.array([10_000 + 7 * (k % 40) for k in range(N)])
    source = write(pa.table({"id": rows("telco")["id"], "zip": zips}), "parquet", tmp_path / "table")
    plain, _ = both(config(source, "telco"), "telco", tmp_path / "plain", monkeypatch)
    named, streamed = both(
        config(source, "telco", categorical=("zip",)), "telco", tmp_path / "named", monkeypatch
    )
    assert (plain.sizes, named.sizes) == ((5,), (40,))
    assert streamed.sizes == named.sizes
    assert streamed.digest == named.digest != plain.digest


@pytest.mark.postgres
def test_a_database_streams(postgres, tmp_path, monkeypatch):
    """Two queries in place of two passes over files; the order of rows is the query's."""
    postgres.store("streamed", rows("telco"))
    source = f"{postgres.uri}#select * from streamed order by id"
    whole, streamed = both(config(source, "telco"), "telco", tmp_path / "state", monkeypatch)
    assert streamed.digest == whole.digest
    assert (streamed.notes, streamed.warnings) == (whole.notes, whole.warnings)


def test_a_task_party_without_features_streams(tmp_path, monkeypatch):
    source = write(rows("bank"), "parquet", tmp_path / "table")
    whole, streamed = both(config(source, "bank", features=()), "bank", tmp_path / "state", monkeypatch)
    assert streamed.sizes == whole.sizes == (1, 3)
    assert streamed.digest == whole.digest


def test_a_wrong_guess_of_a_csv_type_is_mended(tmp_path, monkeypatch):
    """One word after many numbers makes the column text, as in memory."""
    path = tmp_path / "t.csv"
    values = [str(k % 4) for k in range(6000)] + ["n/k"]
    lines = [f"{k},{value}" for k, value in enumerate(values)]
    path.write_text("\n".join(["id,x", *lines]) + "\n")
    monkeypatch.setattr("fedvalue.tables.csv_files.BLOCK_BYTES", 1 << 12)
    whole, streamed = both(
        config(path, "telco"), "telco", tmp_path / "state", monkeypatch, n_samples=len(values)
    )
    assert streamed.sizes == whole.sizes == (5,)
    assert streamed.digest == whole.digest


@pytest.mark.parametrize("policy", ["valuation", "counts"])
def test_a_run_over_streamed_tables_sends_the_same_bytes(policy, tmp_path, monkeypatch):
    """Every message of every party, and so of every server; the uploads have several chunks."""
    given: dict[str, list[PartyInput]] = {}
    for party in ("bank", "telco", "shop"):
        source = write(rows(party), "parquet", tmp_path / party)
        given[party] = both(config(source, party), party, tmp_path / "state", monkeypatch)
    agreed = signed(n_samples=N, chunk_bytes=1 << 12, policy=policy)
    sent = []
    for k in range(2):
        seen: dict[tuple[str, str], list[bytes]] = defaultdict(list)

        def record(sender: str, to: str, body: bytes, seen: Any = seen) -> bytes:
            seen[sender, to].append(body)
            return body

        parties = run_roles(agreed, {party: inputs[k] for party, inputs in given.items()}, record)
        assert all(role.state is State.DONE for role in parties.values())
        sent.append(seen)
    chunks = [body for body in sent[0]["telco", "compute"] if body[:2] == codec.MAGIC]
    n_chunks = sum(isinstance(codec.decode(body).message, m.Chunk) for body in chunks)
    assert n_chunks > 1
    assert sent[0] == sent[1]


def test_the_scratch_folder_is_empty_at_all_times(tmp_path, monkeypatch):
    """The files have no names: whatever ends the process, nothing is left to clean up."""
    source = write(rows("telco"), "parquet", tmp_path / "table")
    state = tmp_path / "state"
    _, streamed = both(config(source, "telco"), "telco", state, monkeypatch)
    assert list(state.iterdir()) == []
    hashed = streamed.samples.hashed(bytes(16))
    parts = hashed.parts(bytes(16))
    next(parts)
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_duplicate_ids_are_found_in_every_bucket(streamed, tmp_path, monkeypatch):
    """Before anything leaves, by their canonical form: " person 7" is "person 7"."""
    table = rows("telco")
    twice = pa.concat_tables([table, table.slice(0, 40)]).set_column(
        0, "id", pa.array([*table["id"].to_pylist(), *(f" {one}" for one in table["id"].to_pylist()[:40])])
    )
    table = config(write(twice, "parquet", tmp_path / "table"), "telco", memory_mib=1)
    agreed = manifest(n_samples=N + 40)
    small(monkeypatch)
    with pytest.raises(InputError, match="ids must be distinct, got 40 duplicates among 3,040 rows"):
        read_input(table, agreed, "telco", "data", tmp_path / "state" if streamed else None)
    assert (tmp_path / "state").exists() is streamed


@pytest.mark.parametrize("bad", ["", None])
def test_a_missing_id_is_refused(bad, tmp_path, monkeypatch):
    table = rows("telco")
    source = write(
        table.set_column(0, "id", pa.array([*table["id"].to_pylist()[:-1], bad])), "parquet", tmp_path / "t"
    )
    agreed = manifest(n_samples=N)
    monkeypatch.setattr(party_input, "ROW_BYTES", 1 << 20)
    with pytest.raises(InputError):
        read_input(config(source, "telco", memory_mib=1), agreed, "telco", "data", tmp_path / "state")


def test_too_many_codes_are_refused_before_they_fill_the_memory(tmp_path, monkeypatch):
    """E_GATE, while the rows are read: the manifest allows N / 10 codes."""
    rng = np.random.default_rng(0)
    table = rows("telco").append_column("size", pa.array(rng.normal(size=N)))
    for k in range(5):
        table = table.append_column(f"size {k}", pa.array(rng.normal(size=N)))
    source = write(table, "parquet", tmp_path / "table")
    monkeypatch.setattr(party_input, "ROW_BYTES", 1 << 20)
    agreed = manifest(n_samples=N, columns="joint")
    with pytest.raises(InputError, match="more than the 600 codes that are allowed") as caught:
        read_input(config(source, "telco", memory_mib=1), agreed, "telco", "data", tmp_path / "state")
    assert caught.value.code == "E_GATE"


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"pca": 1}, "principal components"),
        ({"align": "intersect"}, "align = 'intersect'"),
        ({"protocol": "paper", "policy": "counts"}, "protocol 'paper'"),
    ],
)
def test_what_needs_whole_columns_says_so_when_the_machine_is_too_small(terms, reason, tmp_path, monkeypatch):
    """Before the table is read; on a machine that has the memory it is read as always."""
    source = write(rows("telco").select(["id", "amount"]).slice(0, 200), "parquet", tmp_path / "table")
    table = config(source, "telco", memory_mib=1)
    agreed = manifest(**{"n_samples": N, **terms})
    monkeypatch.setattr(party_input, "ROW_BYTES", 1 << 20)
    assert isinstance(read_input(table, agreed, "telco", "data", tmp_path).samples, MemorySamples)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 10}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    with pytest.raises(InputError, match=f"{reason}: needs the whole table in memory"):
        read_input(table, agreed, "telco", "data", tmp_path)


def test_small_tables_stay_in_memory(tmp_path):
    source = write(rows("telco"), "parquet", tmp_path / "table")
    given = read_input(config(source, "telco"), manifest(n_samples=N), "telco", "data", tmp_path / "state")
    assert isinstance(given.samples, MemorySamples)
    assert not (tmp_path / "state").exists()


def test_chunks_are_read_when_they_are_encoded(tmp_path):
    """A stored chunk holds no bytes of its own, and becomes the same envelope."""
    space = spooled_samples.Space(tmp_path, 1 << 20)
    hashed = spooled_samples.SpooledHashed(space, spooled_samples.RowFile(tmp_path, 1), [], 1)
    data = bytes(range(256)) * 5
    chunk = m.Chunk(0, 1, b"", bytes(16), data).with_digest()
    stored = hashed.keep(chunk)
    assert stored.data == b""
    envelopes = [m.Envelope(bytes(32), "telco", "compute", one) for one in (chunk, stored)]
    assert codec.encode(envelopes[0]) == codec.encode(envelopes[1])
    assert stored.fingerprint == chunk.fingerprint


PEAK = """
import re, sys
from pathlib import Path
from fedvalue.deployment.parties.spooled_samples import Space
from fedvalue.deployment.parties.streamed_input import read_streamed
from tests.support.consortium import manifest
from tests.unit.deployment.test_streamed_input import config

source, rows, scratch = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
table = config(source, "telco")
samples, *_ = read_streamed(table, manifest(n_samples=rows), ("x",), Space(scratch, 8 << 20))
hashed = samples.hashed(bytes(16))
assert sum(len(part.hashes) for part in hashed.parts(bytes(16))) == rows
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_rows(tmp_path):
    """Four times the rows add less than 40 MiB; in memory they would add 900,000 x 150 bytes, 129 MiB."""
    peaks = []
    for n in (300_000, 1_200_000):
        path = tmp_path / f"{n}.parquet"
        ids = np.char.add("person ", np.arange(n).astype(str))
        pq.write_table(pa.table({"id": ids, "x": np.arange(n) % 7}), path, row_group_size=50_000)
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(path), str(n), str(tmp_path)],
            check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3],
        )  # fmt: skip
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 40
