"""The statistics of the figures, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import InputError
from fedvalue.paper.experiments.numbers import (
    growth_exponent,
    growth_factor,
    linear_fit,
    mape,
    mean_sd,
    pearson,
)

some = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=20)


def test_pearson_by_hand() -> None:
    # Deviations (-1, 0, 1) and (-1, 1, 0): 1 / sqrt(2 * 2).
    assert pearson([1, 2, 3], [1, 3, 2]) == pytest.approx(0.5)
    assert pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert pearson([1, 1, 1], [1, 2, 3]) is None
    assert pearson([1], [2]) is None
    with pytest.raises(InputError, match="equal length"):
        pearson([1, 2], [1, 2, 3])


@given(some, st.floats(0.1, 100), st.floats(-100, 100))
def test_pearson_does_not_see_scale_and_shift(x: list[float], scale: float, shift: float) -> None:
    a = np.array(x)
    correlation = pearson(a, scale * a + shift)
    if np.ptp(a) > 1e-3:
        assert correlation == pytest.approx(1, abs=1e-6)


def test_mape_by_hand() -> None:
    assert mape([1.1, 1.8], [1.0, 2.0]) == pytest.approx(10)
    assert mape([1.0, 2.0], [1.0, 2.0]) == 0
    with pytest.raises(InputError, match="value of 0"):
        mape([1.0], [0.0])
    with pytest.raises(InputError, match="equal length"):
        mape([1.0], [1.0, 2.0])


def test_mean_and_spread_skip_what_is_unknown() -> None:
    mean, sd, n = mean_sd([1.0, None, 3.0])
    assert (mean, n) == (2.0, 2)
    assert sd == pytest.approx(math.sqrt(2))
    assert mean_sd([None]) == (None, None, 0)
    assert mean_sd([0.5]) == (0.5, 0.0, 1)


def test_growth() -> None:
    assert growth_exponent([1, 10, 100], [2, 20, 200]) == pytest.approx(1)
    assert growth_exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert growth_factor([2, 3, 4], [5, 15, 45]) == pytest.approx(3)


def test_linear_fit() -> None:
    assert linear_fit([1, 2, 3], [3, 5, 7]) == pytest.approx((2, 1, 1))
    # Residuals of (0, 1, 0) around its mean: the line explains nothing.
    assert linear_fit([1, 2, 3], [0, 1, 0])[2] == pytest.approx(0)
