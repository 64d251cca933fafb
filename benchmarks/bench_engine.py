"""The valuation engine: sampled permutations and exact values against the paper's published procedure.

One feature per party in five equal-width bins on 80% of the rows, as in the paper's repeats; all features
are data parties'. The published procedure recounts every prefix of every permutation with Python
counters (`tests.algorithm1`); its time for 10,000 permutations is extrapolated from a few. Times
are CPU seconds of this process, so that a busy machine does not blur the ratios.

`python benchmarks/bench_engine.py exact NAME [N_PARTIES [N_ROWS]]` computes exact values alone and prints
the seconds and the peak memory as JSON (0 parties: all); the larger sizes are measured that way. `cubes` or
`walk` in place of `exact` takes that way instead of the cheaper one. Besides the data sets there are
`quantiles`, Credit in quantile bins (22,087 distinct rows), and `distinct`, Credit with a first party that
has another code for every sample, as a time stamp would: 24,000 distinct rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import numpy as np
import pandas as pd

import fedvalue
from fedvalue.engines import HERE, Execution, n_cores, thread_engine
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.cubes.cube_sum import CubeSum
from fedvalue.valuation.entropies import CmiValues
from fedvalue.valuation.items import ItemTable, item_table
from fedvalue.valuation.permutations.sampling import sampled_values
from fedvalue.valuation.settings import ValuationSettings
from fedvalue.valuation.shapley_cmi import shapley_cmi
from fedvalue.valuation.walk.block_table import block_table
from fedvalue.valuation.walk.exact import ExactWalk
from fedvalue.valuation.walk.prediction import sample_walk

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # the published procedure is among the tests
import harness
from harness import Row, at_least, peak_memory_mib, seconds
from tests.algorithm1 import published_procedure

BINS = 5
PUBLISHED = "the published procedure"
# Data set, least ratio to 10,000 permutations, orders of the published procedure to time.
EXACT = (("wine", 10_000, 40), ("parkinsons", 1_000, 15), ("spect", 250, 15), ("breast", 20, 6))

# CPU seconds that a call with all statistics should take.
CALL_LIMITS = {"wine": 0.3, "parkinsons": 0.3, "spect": 0.3}

# Other codings of Credit.
CREDIT = ("quantiles", "distinct")


def folder() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("FEDVALUE_DATA", beside))


def frame_of(name: str) -> pd.DataFrame | None:
    """80% of the rows of a data set, or None where it is missing."""
    path = folder() / f"{'credit' if name in CREDIT else name}.csv"
    if path.is_file():
        frame = pd.read_csv(path).drop(columns="id")
    elif name in ("wine", "breast"):
        from sklearn import datasets

        frame = getattr(datasets, f"load_{'breast_cancer' if name == 'breast' else name}")(
            as_frame=True
        ).frame
        frame = frame.rename(columns={"target": "label"})
    else:
        return None
    return frame.sample(frac=0.8, random_state=0)


def columns(name: str) -> tuple[dict[str, pd.DataFrame], pd.Series]:
    """One column per party and the label, as a user has them."""
    frame = frame_of(name)
    assert frame is not None, f"{name} is missing; set FEDVALUE_DATA"
    label = frame.pop("label")
    return {column: frame[[column]] for column in frame}, label


def load(name: str, n_parties: int | None = None, n_rows: int | None = None) -> JointCounts | None:
    """The codes of a data set, or of its first parties and rows, or None where it is missing."""
    frame = frame_of(name)
    if frame is None:
        return None
    frame = frame[:n_rows]
    label = pd.factorize(frame.pop("label"), sort=True)[0]
    columns = list(frame)[:n_parties]
    parties = {column: codes(frame[column], quantiles=name == "quantiles") for column in columns}
    if name == "distinct":
        parties[columns[0]] = np.arange(len(frame))
    return JointCounts.from_columns(label=label, parties=parties)


def codes(column: pd.Series, *, quantiles: bool = False) -> np.ndarray:
    if column.nunique() > BINS:
        if quantiles:
            column = pd.qcut(column, BINS, labels=False, duplicates="drop")
        else:
            column = pd.cut(column, BINS, labels=False)
    return pd.factorize(column, sort=True)[0]


def exact_values(items: ItemTable, execution: Execution = HERE) -> CmiValues:
    """Exact Shapley-CMI, the way that a valuation takes."""
    return shapley_cmi(items, ValuationSettings(method="exact"), execution=execution)[0]


def published_seconds(counts: JointCounts, n_orders: int) -> float:
    """CPU seconds per permutation of the published procedure."""
    return seconds(lambda: published_procedure(counts, n_orders), clock=time.process_time) / n_orders


def rows() -> Iterator[Row]:
    with thread_engine(1) as one:
        yield from sampled_rows(one)
        yield from exact_rows(one)
    yield from size_rows()


def sampled_rows(one: Executor) -> Iterator[Row]:
    for name, n_orders, n_permutations in (("wine", 40, 200_000), ("breast", 6, 50_000)):
        counts = load(name)
        assert counts is not None
        items = item_table(counts)
        sampled_values(items, n_permutations=2000, execution=Execution(one))
        published = published_seconds(counts, n_orders)
        for number in (5000, n_permutations):
            mine = seconds(
                lambda items=items, number=number: sampled_values(
                    items, n_permutations=number, execution=Execution(one)
                ),
                repeat=3,
                clock=time.process_time,
            )
            yield at_least(
                f"sampled: {name}, {counts.n_parties} parties, {number:,} permutations, one core",
                PUBLISHED,
                published * number / mine,
                2500,
                f"{mine / number * 1e6:.2f} µs against {published * 1e3:.1f} ms per permutation",
            )


def exact_rows(one: Executor) -> Iterator[Row]:
    for name, wanted, n_orders in EXACT:
        counts = load(name)
        if counts is None:
            continue
        items = item_table(counts)
        exact_values(items, Execution(one))
        mine = seconds(
            lambda items=items: exact_values(items, Execution(one)),
            repeat=1 if name == "breast" else 5,
            clock=time.process_time,
        )
        published = published_seconds(counts, n_orders) * 10_000
        yield at_least(
            f"exact values alone: {name}, {counts.n_parties} parties, one core",
            f"10,000 permutations of {PUBLISHED}",
            published / mine,
            wanted,
            f"{mine:.4g} s against {published:,.0f} s (extrapolated from {n_orders} permutations)",
        )
        yield from call_rows(name, published, mine)


def call_rows(name: str, published: float, alone: float) -> Iterator[Row]:
    """`fedvalue.value` as a user calls it, on as many cores as there are: CPU seconds of all of them."""
    parties, label = columns(name)
    for statistics, limit in ((False, 2 * alone + 0.005), (True, CALL_LIMITS.get(name, 2 * alone))):

        def call(statistics: bool = statistics) -> None:
            fedvalue.value(label=label, parties=parties, binning="width", statistics=statistics)

        call()
        mine = seconds(call, repeat=3, clock=time.process_time)
        what = "with its defaults" if statistics else "without statistics"
        yield Row(
            f"fedvalue.value {what}: {name}, {len(parties)} parties",
            f"10,000 permutations of {PUBLISHED}",
            published / mine,
            f"at most {limit:.3g} s of CPU",
            mine <= limit,
            f"{mine:.3g} s of CPU (exact values alone: {alone:.3g} s)",
            aim=statistics,
        )


def size_rows() -> Iterator[Row]:
    """The sizes of the scale page: seconds on all cores, and peak memory."""
    sizes = (
        ("breast", None, 60.0, None),
        ("credit", None, 300.0, None),
        ("quantiles", None, None, None),
        ("distinct", None, None, 2048.0),
        ("music", 24, None, None),
        *([("music", 40, None, None)] if harness.LONG else []),
    )
    for name, n_parties, limit, most_mib in sizes:
        if load(name, n_parties) is None:
            continue
        found = alone(name, n_parties)
        yield Row(
            f"exact: {name}, {found['n_parties']} parties, all cores",
            "the limit in seconds",
            (limit or found["seconds"]) / found["seconds"],
            f"at most {limit:g} s" if limit else f"at most {most_mib:g} MiB" if most_mib else "",
            found["seconds"] <= limit if limit else found["peak_mib"] <= most_mib if most_mib else None,
            f"{found['seconds']:.1f} s, {found['cpu']:.1f} s of CPU, peak {found['peak_mib']:,.0f} MiB",
        )
    counts = load("music")
    if counts is not None:
        predicted = sample_walk(
            block_table(item_table(counts))[0], n_workers=n_cores(), keep=4000, time_limit=60
        )
        yield Row(
            "exact: music, 57 parties (predicted, not run)",
            "a day",
            86400 / predicted.seconds,
            note=f"{predicted.n_blocks:.2g} blocks, about {predicted.seconds / 3600:.1f} h",
        )


def alone(name: str, n_parties: int | None) -> dict[str, float]:
    """Exact values in a process of their own, so that its peak memory is theirs."""
    command = [sys.executable, __file__, "exact", name, *([] if n_parties is None else [str(n_parties)])]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main(way: str, name: str, n_parties: int | None = None, n_rows: int | None = None) -> None:
    """Exact values by the cheaper way, or by the one that is named."""
    counts = load(name, n_parties, n_rows)
    assert counts is not None, f"{name} is missing; set FEDVALUE_DATA"
    wine = load("wine")
    assert wine is not None
    compute = {"exact": exact_values, "cubes": by_cubes, "walk": by_walk}[way]
    compute(item_table(wine))  # compiles
    before, start, cpu = peak_memory_mib(), time.perf_counter(), time.process_time()
    values = compute(item_table(counts))
    print(
        json.dumps(
            {
                "name": name,
                "n_parties": counts.n_parties,
                "n_rows": counts.n_samples,
                "n_items": counts.n_items,
                "seconds": time.perf_counter() - start,
                "cpu": time.process_time() - cpu,
                "blocks": values.n_blocks,
                "work": values.work,
                "peak_mib": peak_memory_mib(),
                "peak_before_mib": before,
                "total": values.total,
            }
        )
    )


def by_cubes(items: ItemTable, execution: Execution = HERE) -> CmiValues:
    """All coalitions."""
    cubes = CubeSum.of(items)
    values = cubes and cubes.run(execution)
    assert values is not None, "too many columns or samples"
    return values


def by_walk(items: ItemTable, execution: Execution = HERE) -> CmiValues:
    """All distinct blocks."""
    values = ExactWalk(items).run(execution)
    assert values is not None
    return values


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *(int(number) or None for number in sys.argv[3:5]))
