"""Learnable values: the public call at the sizes of a bank, and against the models one would train instead.

Every row times `fedvalue.value(...)` as a user calls it, warm, in a process of its own so that peak memory
is its own: `python benchmarks/bench_learnable.py N_PARTIES N_FEATURES N_ROWS` prints one such call as JSON.
The tables are drawn from a logistic model over normal columns, every third of which is noise.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Row, at_least, peak_memory_mib, seconds

import fedvalue


@dataclass(frozen=True, slots=True)
class Size:
    """A table, and the bounds of its valuation.

    Args:
        n_parties: Data parties.
        n_features: Columns of each.
        n_rows: Rows.
        limit: Seconds allowed.
        most_mib: Memory allowed.
        precision: Largest sampling error allowed, as a part of the total.
    """

    n_parties: int
    n_features: int
    n_rows: int
    limit: float
    most_mib: float | None = None
    precision: float = 0.01


SIZES = (
    Size(6, 3, 10_000, limit=5),
    Size(20, 1, 30_000, limit=120),
    Size(3, 100, 10_000, limit=60),
    Size(6, 3, 1_000_000, limit=120, most_mib=3072),
)


def table(n_parties: int, n_features: int, n_rows: int) -> dict[str, Any]:
    """Arguments of `fedvalue.value`: a label and the columns of each party."""
    rng = np.random.default_rng(17)
    score = np.zeros(n_rows)
    parties: dict[str, dict[str, np.ndarray]] = {}
    for party in range(n_parties):
        columns = {}
        for feature in range(n_features):
            column = rng.standard_normal(n_rows)
            if (party * n_features + feature) % 3 < 2:
                score += column / np.sqrt(n_parties * n_features)
            columns[f"x{feature}"] = column
        parties[f"party-{party}"] = columns
    label = (score + rng.logistic(scale=0.5, size=n_rows) > 0).astype(np.int64)
    return {"label": label, "parties": parties}


def rows() -> Iterator[Row]:
    for size in SIZES:
        yield sized(size)
    yield from against_models()


def sized(size: Size) -> Row:
    """One public call."""
    command = [sys.executable, __file__, *(str(n) for n in (size.n_parties, size.n_features, size.n_rows))]
    call = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    met = call["seconds"] <= size.limit and call["error"] <= size.precision
    target = f"at most {size.limit:g} s, sampling error at most {size.precision:.0%} of the total"
    if size.most_mib:
        met = met and call["peak_mib"] <= size.most_mib
        target += f", {size.most_mib:g} MiB"
    return Row(
        f"fedvalue.value: {size.n_parties} parties × {size.n_features} features, {size.n_rows:,} rows",
        "the limit in seconds",
        size.limit / call["seconds"],
        target,
        met,
        f"{call['seconds']:.1f} s, {call['cpu']:.1f} s of CPU, peak memory {call['peak_mib']:,.0f} MiB, "
        f"sampling error {call['error']:.2%} of the total",
    )


def against_models() -> Iterator[Row]:
    """The same table valued by us and by SHAP on five trained models, which the paper compares with."""
    from fedvalue.benchmark.benchmark_problems import problem, settings
    from fedvalue.benchmark.methods.information_methods import Learnable
    from fedvalue.benchmark.methods.model_methods import ShapEnsemble
    from fedvalue.datasets import locate
    from fedvalue.datasets.catalogue import CATALOGUE

    name = "credit" if locate.find(CATALOGUE["credit"]) is not None else "breast"
    one = problem(settings([name], (3,), (1,))[0]).table
    Learnable().value(one)  # compiles
    mine = seconds(lambda: Learnable().value(one), repeat=3, clock=time.process_time)
    models = seconds(lambda: ShapEnsemble().value(one), clock=time.process_time)
    yield at_least(
        f"learnable: {name}, {one.n_parties} parties × 3 features, {len(one.label):,} rows",
        "SHAP-ensemble: five trained models and their SHAP values",
        models / mine,
        20,
        f"{mine:.2f} s against {models:.1f} s of CPU",
    )


def main(n_parties: int, n_features: int, n_rows: int) -> None:
    """Time one public call, after a small one of the same shape that compiles and loads."""
    fedvalue.value(**table(n_parties, n_features, 600))
    arguments = table(n_parties, n_features, n_rows)
    start, cpu = time.perf_counter(), time.process_time()
    valuation = fedvalue.value(**arguments)
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    total = valuation.learnable_total or 0.0
    errors = [party.se_learnable or 0.0 for party in valuation.parties]
    result = {"seconds": wall, "cpu": used, "peak_mib": peak_memory_mib(), "error": max(errors) / total}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*(int(number) for number in sys.argv[1:4]))
