"""What one would use instead of learnable values, on a table whose true values are known: time and error.

The table is LINEAR, scenario S1 (`fedvalue.datasets`), whose Shapley values are known. The error TV is
the part of the money that goes to the wrong party. `fedvalue benchmark` compares these methods on nine data
sets with retraining as the truth, which takes hours; `python benchmarks/drawings.py` draws its results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from harness import Row

from fedvalue.benchmark.methods.method import Estimate
from fedvalue.benchmark.methods.method_registry import METHODS, REFERENCE
from fedvalue.benchmark.problem import Problem
from fedvalue.benchmark.profiles import known_problem
from fedvalue.benchmark.retraining import coalition_gain, task_only
from fedvalue.benchmark.scores import shares_of, total_variation
from fedvalue.datasets import linear
from fedvalue.valuation.shapley_indices import shapley_of

N_ROWS = 2000
RIVALS = ("shapley-cmi", "information-value", "knn-information", "leave-one-party-out", "shap-ensemble")


def rows() -> Iterator[Row]:
    """One row per rival: its time over ours, missed where it is both faster and closer to the truth."""
    problem = known_problem(linear("S1"), N_ROWS)
    measure(problem, REFERENCE)  # loads and compiles
    ours, our_error = measure(problem, REFERENCE)
    for name in RIVALS:
        theirs, error = measure(problem, name)
        yield Row(
            f"learnable: {problem.name}, {problem.table.n_parties} parties, {N_ROWS:,} rows",
            METHODS[name]().about,
            theirs / ours,
            "not both faster and closer",
            not (theirs < ours and error < our_error),
            f"{ours:.2f} against {theirs:.2f} s of CPU, TV {our_error:.1%} against {error:.1%}",
        )
    theirs = retraining_seconds(problem)
    yield Row(
        f"learnable: {problem.name}",
        "retraining four learners for every coalition",
        theirs / ours,
        note=f"{ours:.2f} against {theirs:.0f} s of CPU (from two coalitions)",
    )


def measure(problem: Problem, name: str) -> tuple[float, float]:
    """CPU seconds and TV of one method."""
    start = time.process_time()
    estimate = METHODS[name]().value(problem.table)
    took = time.process_time() - start
    values = estimate.values if isinstance(estimate, Estimate) else estimate
    assert problem.game is not None
    found = np.array([values[party] for party in problem.table.names])
    return took, total_variation(shares_of(found), shares_of(shapley_of(problem.game)))


def retraining_seconds(problem: Problem) -> float:
    """CPU seconds of retraining for all coalitions, from nobody's and everybody's."""
    start = time.process_time()
    without = task_only(problem)
    coalition_gain(problem, 2**problem.table.n_parties - 1, without)
    return (time.process_time() - start) / 2 * 2**problem.table.n_parties
