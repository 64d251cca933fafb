"""The mixture of learners."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.benchmark.stack import mixture_weights


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
