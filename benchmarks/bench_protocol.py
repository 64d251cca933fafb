"""The protocols: `paper` beside the published simulation, `mirror` beside a plain join, growth.

All roles run in this process on real messages; `bench_deployment` measures them over mTLS.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import Row, at_least, at_most, peak_memory_mib, seconds

from fedvalue.crypto.hashing import hash_ids
from fedvalue.crypto.ids import PackedIds, canonical_ids
from fedvalue.deployment.process import reuse_memory
from fedvalue.federated.cast import CodedTables, make_cast, make_terms
from fedvalue.federated.in_process import InProcessTransport
from fedvalue.federated.options import Paper
from fedvalue.federated.run import federated_value
from fedvalue.federated.valuers import make_valuer
from fedvalue.paper.experiments.published import random_codes, simulation_seconds
from fedvalue.protocol.samples import CodedColumn
from fedvalue.valuation.settings import ValuationSettings

PLAIN = ValuationSettings(method="exact", statistics=False)


def binary_columns(n: int, n_parties: int, seed: int = 0) -> dict[str, Any]:
    """Binary label, binary task feature, one binary feature per data party."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    parties = [
        CodedColumn(f"p{k}", np.where(rng.random(n) < 0.2 + 0.1 * k, y, rng.integers(0, 2, n)), 2)
        for k in range(n_parties)
    ]
    return {
        "label": CodedColumn("y", y, 2),
        "task": CodedColumn("t", rng.integers(0, 2, n), 2),
        "parties": parties,
    }


def rows() -> Iterator[Row]:
    _warm_up()
    yield _hashing()
    yield from _paper()
    yield from _paper_growth()
    yield from _mirror_against_join()
    yield from _mirror_growth()


def _warm_up() -> None:
    """Compile the kernels before anything is timed, in a process set up like that of `fedvalue value`."""
    reuse_memory()
    for protocol in ("mirror", "paper"):
        federated_value(**binary_columns(2000, 2), protocol=protocol, settings=PLAIN)


def _hashing() -> Row:
    n = 1_000_000
    data = np.random.default_rng(0).integers(0, 256, (n, 16)).astype(np.uint8)
    packed, key = PackedIds(data.ravel(), np.arange(len(data) + 1, dtype=np.int64) * data.shape[1]), bytes(16)
    fast = seconds(lambda: hash_ids(key, packed), repeat=5)
    listed = [row.tobytes() for row in data[:100_000]]
    slow = 10 * seconds(lambda: [hashlib.blake2b(i, key=key, digest_size=16).digest() for i in listed])
    rate = n / fast / 1e6
    return Row(
        f"keyed hashing of {n:,} ids of 16 bytes, one core", "BLAKE2b in a Python loop", slow / fast,
        "at least 5 million ids a second", rate >= 5, f"{rate:.1f} million ids a second",
    )  # fmt: skip


def _paper_seconds(n_real: int = 10_000, n_adversarial: int = 90_000, q: int = 3, **more: Any) -> float:
    columns = binary_columns(n_real, 5)
    share = n_adversarial / (n_adversarial + n_real)
    # Processor time of all roles together, as the published simulation is timed.
    return seconds(
        lambda: federated_value(**columns, protocol=Paper(q=q, n_r=float(share), **more), settings=PLAIN),
        repeat=2,
        clock=time.process_time,
    )


def _paper() -> Iterator[Row]:
    """The paper's defaults: 5 data parties, 100,000 samples of which 10% real, q = 3; all 120 orders."""
    codes = random_codes(100_000, 2, 5, 0)
    task = random_codes(100_000, 4, 1, 1)[0]
    published = simulation_seconds(task, list(codes), 3)
    what = "keys, encryption, both servers, verification, all 120 orders"
    against = "the published simulation: Python sets, no encryption, one order x 120"
    for name, options in (
        ("as published", {"harden": False}),
        ("hardened, grand coalition alone", {"by_coalition": False}),
    ):
        ours = _paper_seconds(**options)
        note = f"{ours:.2f} s against {published:.0f} s"
        yield at_least(f"`paper`, {name}: {what}", against, published / ours, 100, note)
    ours = _paper_seconds()
    yield Row(
        f"`paper`, hardened, coalition by coalition (the default): {what}", against, published / ours,
        note=f"{ours:.2f} s against {published:.0f} s; tables of all coalitions are compared",
    )  # fmt: skip


def _paper_growth() -> Iterator[Row]:
    """Fig. 5c and 6: linear in samples, q and adversarial samples. Ten-fold work, ratio of times.

    The grand coalition's cells alone: those of every coalition of the largest runs exceed the budget.
    """
    timed = partial(_paper_seconds, by_coalition=False)
    base = timed(n_real=5_000, n_adversarial=45_000)
    grown = {
        "samples 50,000 -> 500,000": (timed(n_real=50_000, n_adversarial=450_000), 10),
        "q 3 -> 12": (timed(n_real=5_000, n_adversarial=45_000, q=12), 4),
        "adversarial samples 45,000 -> 450,000": (timed(n_real=5_000, n_adversarial=450_000), 10),
    }
    for what, (time_grown, factor) in grown.items():
        yield at_most(
            f"`paper`, {what}", "linear growth", time_grown / base / factor, 1.2,
            f"{base:.2f} s -> {time_grown:.2f} s",
        )  # fmt: skip


def _mirror_seconds(columns: dict[str, Any], ids: PackedIds) -> tuple[float, float]:
    """Wall seconds of a whole run, and from the start of the uploads (the last confirmation) on."""
    best = (float("inf"), float("inf"))
    for _ in range(3):
        tables = CodedTables(**columns)
        terms = make_terms(tables)
        start = time.perf_counter()
        cast = make_cast(terms, tables, ids=ids, valuer=make_valuer(PLAIN))
        confirmed = [start]

        def watch(data: bytes, confirmed: list[float] = confirmed) -> None:
            if len(data) < 4096 and b"\xa7Confirm" in data:  # alone, or in the list of all
                confirmed[0] = time.perf_counter()

        InProcessTransport(threads=2, tap=watch).run(cast.everyone())
        end = time.perf_counter()
        best = min(best, (end - start, end - confirmed[0]))
    return best


def _mirror_against_join() -> Iterator[Row]:
    n, n_parties = 1_000_000, 5
    columns = binary_columns(n, n_parties)
    rng = np.random.default_rng(1)
    numbers = rng.permutation(10 * n)[:n] + 10**12
    for kind, ids in (("text", np.char.add("id-", numbers.astype(str))), ("integer", numbers)):
        join = _duckdb_seconds(columns, ids)
        packed = canonical_ids(ids)
        whole, upload = _mirror_seconds(columns, packed)
        for what, ours in (
            ("start of upload to values", upload),
            ("keys, hashing and upload to values", whole),
        ):
            note = f"{ours:.2f} s against {join:.2f} s"
            against = f"DuckDB joining and grouping the same plain tables by {kind} id"
            work = f"`mirror`, 6 parties x {n:,} rows, {what}"
            if kind == "text" and what.startswith("start"):
                yield at_most(work, against, ours / join, 3, note)
            else:
                yield Row(work, against, ours / join, note=note)


def _duckdb_seconds(columns: dict[str, Any], ids: np.ndarray) -> float:
    import duckdb
    import pyarrow as pa

    rng = np.random.default_rng(2)
    base = duckdb.connect()
    base.execute("set threads = 2")
    tables = {"t": {"x": columns["task"].codes, "y": columns["label"].codes}}
    tables |= {party.name: {"x": party.codes} for party in columns["parties"]}
    for name, codes in tables.items():
        order = rng.permutation(len(ids))
        table = pa.table({"id": pa.array(ids[order])} | {key: c[order] for key, c in codes.items()})
        base.register("arriving", table)
        base.execute(f"create table {name} as select * from arriving")
        base.unregister("arriving")
    names = [party.name for party in columns["parties"]]
    query = "select t.x, t.y, " + ", ".join(f"{n}.x" for n in names) + ", count(*) from t "
    query += " ".join(f"join {n} using (id)" for n in names) + " group by all"
    assert sum(row[-1] for row in base.execute(query).fetchall()) == len(ids)
    return seconds(lambda: base.execute(query).fetchall(), repeat=3)


def _mirror_growth() -> Iterator[Row]:
    """Rows 10^5 -> 10^6 in process; `bench_deployment` has 10^7 over the network."""
    times = {}
    for n in (100_000, 1_000_000):
        times[n] = _mirror_seconds(binary_columns(n, 5), PackedIds.of_rows(n))[0]
    growth = times[1_000_000] / times[100_000]
    yield at_most(
        "`mirror`, rows 100,000 -> 1,000,000", "linear growth", growth / 10, 1.2,
        f"{times[100_000]:.3f} s -> {times[1_000_000]:.3f} s; peak {peak_memory_mib():,.0f} MiB, all parties",
    )  # fmt: skip
