"""Seconds until every value of a large game is precise: ours, shapiq's, and the published procedure.

The game is val(S) = I(X_S; Y | X_t) with one feature per party: Music (57 parties), Credit (23), and 200
parties of which 20 are informative. Ours stops by its standard error. shapiq has none, so the budget of each
of its approximators is doubled until its largest error is below the bound, judged by a far more precise
reference. The published procedure gets our number of permutations, at its measured cost for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from bench_engine import load, published_seconds
from harness import Row, at_least

from fedvalue.engines import Execution, thread_engine
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table
from fedvalue.valuation.permutations.sampling import sampled_values

BOUNDS = (0.01, 0.001)
"""Largest standard error, as a fraction of the total."""

MOST_SECONDS = 8.0
"""CPU seconds that one approximator may take."""

APPROXIMATORS = ("KernelSHAP", "PermutationSamplingSV", "SVARM")


def rows() -> Iterator[Row]:
    for name, counts in games():
        items = item_table(counts)
        with thread_engine(1) as engine:
            sampled_values(items, n_permutations=50, execution=Execution(engine))  # compiles
            reference = sampled_values(
                items, n_permutations=10**6, precision=0.0005, execution=Execution(engine)
            )
        for bound in BOUNDS:
            with thread_engine(1) as engine:  # a new engine, in which no earlier call is still running
                execution, start = Execution(engine), time.process_time()
                ours = sampled_values(items, n_permutations=10**6, precision=bound, execution=execution)
                mine = time.process_time() - start
            yield Row(
                f"every standard error at most {bound:.1%} of the total: {name} ({counts.n_parties})",
                "a second",
                1 / mine,
                note=f"{mine:.2f} s of CPU on one core, {ours.n_permutations:,} permutations",
            )
            if bound == BOUNDS[0]:
                published = published_seconds(counts, 3) * ours.n_permutations
                yield at_least(
                    f"the same: {name}",
                    "as many permutations of the published procedure",
                    published / mine,
                    100,
                    f"{mine:.2f} s against {published:,.0f} s (extrapolated from 3 permutations)",
                )
                best = best_of_shapiq(counts, reference.values, bound * reference.total)
                yield at_least(
                    f"the same: {name}",
                    f"shapiq's {best.name} on the same game",
                    best.seconds / mine,
                    1,
                    best.note,
                )


def games() -> Iterator[tuple[str, JointCounts]]:
    for name in ("music", "credit"):
        counts = load(name)
        if counts is not None:
            yield name, counts
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 4, (2000, 200))
    label = (codes[:, :20].sum(axis=1) + rng.normal(0, 4, 2000) > 30).astype(np.int64)
    yield (
        "200 parties × 1 feature",
        JointCounts.from_columns(label=label, parties={f"p{k}": codes[:, k] for k in range(200)}),
    )


@dataclass(frozen=True, slots=True)
class Reached:
    """Seconds until an approximator reached the bound, extrapolated if its time ran out."""

    name: str
    seconds: float
    note: str


def best_of_shapiq(counts: JointCounts, truth: np.ndarray, bound: float) -> Reached:
    """The approximator that reaches the bound first."""
    import shapiq

    game = value_of(counts)
    reached = [approximated(getattr(shapiq, name), name, game, truth, bound) for name in APPROXIMATORS]
    return min(reached, key=lambda best: best.seconds)


def approximated(
    kind: type, name: str, game: Callable[[np.ndarray], np.ndarray], truth: np.ndarray, bound: float
) -> Reached:
    p, budget = len(truth), 4 * len(truth)
    while True:
        start = time.process_time()
        result = kind(n=p, random_state=0).approximate(budget, game)
        took = time.process_time() - start
        values = np.array([result[(k,)] for k in range(p)])
        error = float(np.abs(values - truth).max())
        if error <= bound:
            return Reached(name, took, f"{took:.1f} s of CPU, {budget:,} coalitions")
        if took > MOST_SECONDS:
            note = f"error {error / bound:.1f} times the bound after {took:.0f} s, {budget:,} coalitions"
            # The error falls with the root of the budget at best.
            return Reached(name, took * (error / bound) ** 2, note + " (extrapolated)")
        budget *= 2


def value_of(counts: JointCounts) -> Callable[[np.ndarray], np.ndarray]:
    """val(S) of many coalitions; cells are identified by a 64-bit hash of their codes."""
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 2**63, counts.n_parties, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    codes = (counts.parties.astype(np.uint64) + np.uint64(1)) ** np.uint64(3) * weights
    label, count, n = counts.label, counts.count.astype(np.float64), counts.n_samples
    n_labels = int(label.max()) + 1

    def conditional_entropy(inside: np.ndarray) -> float:
        cell = (
            pd.factorize(codes[:, inside].sum(axis=1, dtype=np.uint64))[0]
            if inside.any()
            else np.zeros_like(label)
        )
        table = np.bincount(cell * n_labels + label, weights=count)
        table = np.pad(table, (0, -len(table) % n_labels)).reshape(-1, n_labels)
        row = table.sum(axis=1)
        terms = xlogx(row).sum() - xlogx(table).sum()
        return float(terms / n)

    def xlogx(x: np.ndarray) -> np.ndarray:
        return x * np.log(np.where(x > 0, x, 1.0))

    whole = conditional_entropy(np.zeros(counts.n_parties, dtype=bool))

    def game(coalitions: np.ndarray) -> np.ndarray:
        return np.array(
            [whole - conditional_entropy(inside) for inside in np.atleast_2d(coalitions).astype(bool)]
        )

    return game
