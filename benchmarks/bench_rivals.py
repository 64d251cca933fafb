"""Time and error of the alternatives to learnable values, on a table whose true values are known.

The table is LINEAR, scenario S1 (`fedvalue.datasets`), whose Shapley values are known. The error TV is the
share of the money that goes to the wrong party. `fedvalue benchmark` compares most of these methods on nine
data sets with retraining as the truth, for hours; `python benchmarks/drawings.py` draws its results.
infomeasure's conditional mutual information of one column stands for its cost of a coalition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from harness import Row, at_least, seconds

from fedvalue.benchmark.benchmark_problems import known_problem
from fedvalue.benchmark.methods.method import Estimate
from fedvalue.benchmark.methods.method_registry import METHODS, REFERENCE
from fedvalue.benchmark.problem import Problem
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

    def rival(about: str, theirs: float, error: float) -> Row:
        return Row(
            f"learnable: {problem.name}, {problem.table.n_parties} parties, {N_ROWS:,} rows",
            about,
            theirs / ours,
            "not both faster and closer",
            not (theirs < ours and error < our_error),
            f"{ours:.2f} against {theirs:.2f} s of CPU, TV {our_error:.1%} against {error:.1%}",
        )

    for name in RIVALS:
        yield rival(METHODS[name]().about, *measure(problem, name))
    yield rival("SHAP of one LightGBM model", *one_boosted_model(problem))
    yield one_pair(problem)
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
    estimated = np.array([values[party] for party in problem.table.names])
    return took, total_variation(shares_of(estimated), shares_of(shapley_of(problem.game)))


def one_boosted_model(problem: Problem) -> tuple[float, float]:
    """CPU seconds and TV of the usual approach: mean |SHAP| of one LightGBM model, by party."""
    from lightgbm import LGBMClassifier

    table = problem.table
    start = time.process_time()
    columns = np.column_stack(list(table.columns(table.everybody).values())).astype(np.float64)
    model = LGBMClassifier(n_jobs=1, verbose=-1).fit(columns, table.label)
    of_feature = np.abs(model.booster_.predict(columns, pred_contrib=True)[:, :-1]).mean(axis=0)
    owners = np.repeat(np.arange(table.n_parties), [len(held) for held in table.parties.values()])
    importance = np.bincount(owners, weights=of_feature[len(table.task) :])
    took = time.process_time() - start
    assert problem.game is not None
    return took, total_variation(shares_of(importance), shares_of(shapley_of(problem.game)))


def one_pair(problem: Problem) -> Row:
    """I(X; Y | Z) of two columns: ours from counts against infomeasure's, and that both agree."""
    from infomeasure import conditional_mutual_information as theirs_of

    from fedvalue.information.cmi import conditional_mutual_information

    x, z = (column.astype(np.int64) for column in list(problem.table.columns(1).values())[:2])
    y = problem.table.label

    def ours_of() -> float:
        counts = np.zeros((int(x.max()) + 1, int(y.max()) + 1, int(z.max()) + 1), dtype=np.int64)
        np.add.at(counts, (x, y, z), 1)
        return conditional_mutual_information(counts)

    def infomeasures() -> float:
        return float(theirs_of(x, y, cond=z, approach="discrete"))

    # A hundred times each: a single call is too short for the clock.
    ours, theirs = (
        seconds(lambda work=work: [work() for _ in range(100)], repeat=3, clock=time.process_time) / 100
        for work in (ours_of, infomeasures)
    )
    gap = abs(ours_of() - infomeasures())
    return at_least(
        f"one conditional mutual information, {N_ROWS:,} rows",
        "infomeasure",
        theirs / ours,
        1,
        f"{ours * 1e3:.2f} against {theirs * 1e3:.2f} ms of CPU; the two differ by {gap:.0e} nats",
    )


def retraining_seconds(problem: Problem) -> float:
    """CPU seconds of retraining for all coalitions, from the empty and the grand coalition."""
    start = time.process_time()
    without = task_only(problem)
    coalition_gain(problem, problem.table.everybody, without)
    return (time.process_time() - start) / 2 * 2**problem.table.n_parties
