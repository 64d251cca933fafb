"""The retraining game on tables whose information is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedvalue.benchmark.retraining import coalition_gain, mixture_weights, n_repeats, task_only
from tests.unit.benchmark.tables import small_problem


def information(error: float) -> float:
    """I(X; Y) of a fair label seen through a channel with this error, in nats."""
    return float(np.log(2) + error * np.log(error) + (1 - error) * np.log(1 - error))


@pytest.mark.parametrize("n_unseen", [0, 1500])
def test_a_good_column_brings_its_information_and_noise_brings_nothing(n_unseen: int) -> None:
    """`good` has 10% errors: 0.368 nats. The tested rows' log losses have a deviation below 1 nat, so 300
    or more of them leave an error below 4 / sqrt(300) = 0.23; learning costs little on 300 rows.
    """
    problem = small_problem(300, n_unseen)
    without = task_only(problem)
    good, noise = coalition_gain(problem, 0b001, without), coalition_gain(problem, 0b100, without)
    assert good.value == pytest.approx(information(0.1), abs=0.23)
    assert good.value > 0.2
    assert abs(noise.value) < 0.02
    n = n_unseen or 300
    assert good.value * n == pytest.approx(good.halves[0] * (n // 2) + good.halves[1] * (n - n // 2))


def test_the_task_partys_columns_are_not_paid_for() -> None:
    """A data party that repeats the task party's column brings nothing."""
    problem = small_problem(200, 800, task=True, seed=2)
    assert problem.unseen is not None
    repeated = replace(
        problem,
        noise=None,
        table=replace(problem.table, parties={"copy": problem.table.task}),
        unseen=replace(problem.unseen, parties={"copy": problem.unseen.task}),
    )
    without = task_only(repeated)
    assert without.unseen is not None
    assert without.unseen.std(axis=0).min() > 0.01  # the task party's column is used
    assert abs(coalition_gain(repeated, 1, without).value) < 0.02


def test_small_tables_are_cross_validated_more_often() -> None:
    assert [n_repeats(small_problem(n, 0)) for n in (100, 178, 267, 569, 1000)] == [4, 4, 3, 1, 1]
    assert n_repeats(small_problem(100, 50)) == 1


def test_the_same_problem_has_the_same_truth() -> None:
    problem = small_problem(80, 100)
    assert coalition_gain(problem, 3, task_only(problem)) == coalition_gain(problem, 3, task_only(problem))


def test_weights_solve_the_likelihood_equation() -> None:
    """One member says 0.9 of three rows in four, the other of the rest: the optimum is 0.8125 : 0.1875.

    d/dw of 3 ln(0.1 + 0.8 w) + ln(0.9 - 0.8 w) is zero at w = 0.8125; two imagined rows in 4,002 move it by
    less than 0.001.
    """
    rows = np.array([[0.9, 0.1]] * 3000 + [[0.1, 0.9]] * 1000)
    assert mixture_weights(rows) == pytest.approx([0.8125, 0.1875], abs=1e-3)


def test_learners_that_are_worse_than_ignoring_the_data_get_no_weight() -> None:
    rng = np.random.default_rng(0)
    worse = 0.5 * rng.uniform(0.5, 0.9, (200, 3))
    weights = mixture_weights(np.column_stack([worse, np.full(200, 0.5)]))
    assert weights[-1] > 0.99
    assert weights.sum() == pytest.approx(1)
