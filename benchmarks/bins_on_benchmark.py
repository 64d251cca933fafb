"""Learnable values with more bins on the judged settings of the benchmark (decision 0609).

The true values are those of docs/benchmark/benchmark.json, so nothing is trained: half a minute of CPU.

Run: python benchmarks/bins_on_benchmark.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

import fedvalue
from fedvalue.benchmark.benchmark_problems import NOISE, Setting, problem
from fedvalue.benchmark.problem import Problem
from fedvalue.benchmark.scores import shares_of, total_variation

BINS = (5, 8, 12)
PUBLISHED = Path(__file__).resolve().parents[1] / "docs" / "benchmark" / "benchmark.json"


def values(judged: Problem, bins: int) -> dict[str, float]:
    """Learnable values by `fedvalue.value` with this number of bins."""
    table = judged.table
    label = np.char.add("class ", table.label.astype(np.str_))  # never an amount
    result = fedvalue.value(label=label, task=dict(table.task) or None, parties=table.parties, bins=bins)
    return {party.name: float(party.learnable or 0.0) for party in result.parties}


def main() -> None:
    """Print a row for every data set and one for all settings."""
    tv: dict[str, list[list[float]]] = defaultdict(list)
    totals, noise = [], []
    for setting in json.loads(PUBLISHED.read_text(encoding="utf-8"))["problems"]:
        if not setting["scored"]:
            continue
        source, features, split = setting["name"].split("/")
        judged = problem(Setting(source, int(features), int(split)))
        names = list(judged.table.names)
        true = np.array([setting["parties"][name] for name in names])
        found = [values(judged, bins) for bins in BINS]
        shares = [shares_of(np.array([one[name] for name in names])) for one in found]
        tv[source].append([total_variation(mine, shares_of(true)) for mine in shares])
        totals.append([sum(one.values()) / setting["total"] for one in found])
        noise.append([mine[names.index(NOISE)] for mine in shares])
    print(f"| settings | number | {' | '.join(f'TV, {bins} bins' for bins in BINS)} |")
    print(f"| --- | --- |{' --- |' * len(BINS)}")
    every = [scores for group in tv.values() for scores in group]
    for name, group in [*tv.items(), ("all", every)]:
        scores = np.array(group)
        change = scores - scores[:, :1]
        error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
        cells = [f"{scores[:, 0].mean():.1%}"] + [
            f"{scores[:, k].mean():.1%} ({100 * change[:, k].mean():+.1f} ± {100 * error[k]:.1f})"
            for k in range(1, len(BINS))
        ]
        print(f"| {name} | {len(scores)} | {' | '.join(cells)} |")
    print("median of total / truth:", *(f"{total:.2f}" for total in np.median(totals, axis=0)))
    print("noise share:", *(f"{share:.2%}" for share in np.mean(noise, axis=0)))


if __name__ == "__main__":
    main()
