"""The grid of released numbers: what is rounded how, and which pairs of numbers count as the same."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import InputError
from fedvalue.protocol.release_grid import Grid, error_size, ladder, most_bits, n_levels, parse_grid

GRID = Grid.of("0.0001")
NATS = st.floats(-5.0, 5.0, allow_nan=False)


@pytest.mark.parametrize(("text", "digits"), [("0.1", 1), ("0.0001", 4), ("0.00000001", 8)])
def test_a_grid_is_a_power_of_ten(text: str, digits: int) -> None:
    assert parse_grid(text) == digits


@pytest.mark.parametrize("text", ["", "1", "0.0", "0.0002", "1e-4", "0.00010", "0.000000001", 0.0001, None])
def test_what_is_no_grid_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="grid must be"):
        parse_grid(text)


def test_every_kind_of_number_has_its_grid() -> None:
    exact = {
        "learnable": 0.123456,
        "total": -0.00001,
        "uplift": [{"auc": 0.87654, "errors_avoided_per_1000": 12.6, "log_loss": 0.55555}],
        "learnable_error": 0.00123,
        "auc_gain_error": 0.0011,
        "errors_avoided_error": 3.2,
        "se_sampling": 0.0,
        "n_samples": 300,
        "method": "exact",
        "seed": None,
    }
    assert GRID.rounded(exact) == {
        "learnable": 0.1235,
        "total": 0.0,
        "uplift": [{"auc": 0.877, "errors_avoided_per_1000": 13.0, "log_loss": 0.5556}],
        "learnable_error": 0.0015,
        "auc_gain_error": 0.002,
        "errors_avoided_error": 4.0,
        "se_sampling": 0.0,
        "n_samples": 300,
        "method": "exact",
        "seed": None,
    }
    assert math.copysign(1.0, GRID.rounded({"total": -0.00001})["total"]) == 1.0
    assert Grid().rounded(exact) == exact


@given(NATS, st.floats(-9e-10, 9e-10))
def test_two_honest_servers_accept_each_other_wherever_the_grid_cuts(value: float, difference: float) -> None:
    other = {"a": value + difference}
    assert GRID.accepts(GRID.rounded(other), {"a": value})


@given(NATS, st.floats(1.001e-4, 1.0))
def test_above_the_grid_every_difference_is_seen(value: float, difference: float) -> None:
    assert not GRID.accepts(GRID.rounded({"a": value + difference}), {"a": value})


@given(NATS, st.floats(1e-7, 4e-5))
def test_a_number_off_the_grid_is_refused(value: float, shift: float) -> None:
    """Digits below the grid would be a channel for a server that wants to tell a party something."""
    assert not GRID.accepts({"a": GRID.rounded({"a": value})["a"] + shift}, {"a": value})


@pytest.mark.parametrize(
    ("other", "own"),
    [
        ({"a": 300.0}, {"a": 300}),
        ({"a": 300}, {"a": 300.0}),
        ({"a": True}, {"a": 1}),
        ({"a": float("nan")}, {"a": float("nan")}),
        ({"a": float("inf")}, {"a": float("inf")}),
        ({"a": 1.0, "b": 1.0}, {"a": 1.0}),
        ({"a": 1.0}, {"a": float("nan")}),
        ({"a": 1.0}, {"a": float("inf")}),
        ({"a": float("inf")}, {"a": 1.0}),
        ({"a": [1.0]}, {"a": [1.0, 1.0]}),
        ({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]}),
        ({"a": [[1.0, "x"]]}, {"a": [[1.0, "y"]]}),
        ([{"a": 1.0}, {"b": 1.0}], [{"a": 1.0}, {"b": 2.0}]),
        ({"a": "exact"}, {"a": "sampled"}),
        ([1.0], {"a": 1.0}),
        ({"a": {"b": 1.0}}, {"a": 1.0}),
    ],
)
def test_whatever_is_not_the_same_kind_is_refused(other: object, own: object) -> None:
    assert not Grid().accepts(other, own)
    assert not GRID.accepts(other, own)


@given(st.floats(1e-8, 10.0))
def test_errors_are_rounded_up_by_less_than_half_again(error: float) -> None:
    size = error_size(error, 4)
    assert size >= error
    assert size <= 1.5 * (error + 0.5e-4) + 0.5e-4


def test_bits_that_one_run_gives_a_data_party() -> None:
    """Counted from outside: every number and every error that can be released."""
    values = {GRID.rounded({"a": float(x)})["a"] for x in np.linspace(-math.log(2), math.log(2), 500_000)}
    errors = {GRID.rounded({"a_error": float(x)})["a_error"] for x in np.geomspace(1e-8, math.log(2), 20_000)}
    step = Fraction(1, 10_000)
    n_values, n_errors = n_levels(step, math.log(2))
    assert len(values) <= n_values <= len(values) + 2
    assert len(errors | {0.0}) == n_errors
    assert most_bits(step) == math.ceil(2 * (math.log2(n_values) + math.log2(n_errors))) == 38


@pytest.mark.parametrize("digits", [0, 4, 8])
@pytest.mark.parametrize("error", [2e-9, 4.99e-5, 0.5, 0.95, 1.0, 6.99, 7.0, 3.2e11, 5e25])
def test_the_size_of_an_error_is_the_first_on_the_ladder_however_large(error, digits):
    """Beyond the sizes that are kept, too."""
    sizes = map(float, ladder(Fraction(1, 10**digits)))
    assert error_size(error, digits) == next(size for size in sizes if size >= error + 0.5 * 10.0**-digits)
