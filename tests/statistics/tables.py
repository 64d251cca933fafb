"""Small random tables, and the same table under other names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedvalue.information.contingency import JointCounts


def random_table(seed, *, p=3, n=40, codes=3, labels=2, task=2) -> JointCounts:
    """Correlated codes, so that parties overlap; some samples repeat."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, codes, n)
    columns = {f"p{d}": np.where(rng.random(n) < 0.5, hidden, rng.integers(0, codes, n)) for d in range(p)}
    label = np.where(rng.random(n) < 0.6, hidden % labels, rng.integers(0, labels, n))
    return JointCounts.from_columns(label=label, task=rng.integers(0, task, n), parties=columns)


def relabelled(counts: JointCounts, seed=0) -> JointCounts:
    """The same table with other code numbers, and its items in another order."""
    rng = np.random.default_rng(seed)

    def other(column):
        names = rng.permutation(int(column.max()) + 7)[: int(column.max()) + 1]
        return names[column]

    order = rng.permutation(counts.n_items)
    parties = np.column_stack([other(column) for column in counts.parties.T])
    return replace(
        counts,
        task=other(counts.task)[order],
        parties=parties[order],
        label=other(counts.label)[order],
        count=counts.count[order],
    )


def informative_and_not(n=400, seed=0, row_id=True) -> JointCounts:
    """Two informative parties, a useless one with 25 codes, and row numbers."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, n), rng.integers(0, 3, n)
    odds = (a - 1) * 1.8 + (b - 1) * 0.8
    label = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    columns = {"strong": a, "weak": b, "noise": rng.integers(0, 25, n)}
    if row_id:
        columns["rows"] = np.arange(n)
    return JointCounts.from_columns(label=label, parties=columns)
