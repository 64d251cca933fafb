"""What data parties get is rounded at random: to a public step, right on average, alike for equal numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedvalue.protocol.share_rounding import ShareRounding, share_step

GRID = Fraction(1, 10_000)
STEP = Fraction(15, 1000)


def rounding(k: int) -> ShareRounding:
    return ShareRounding(STEP, k.to_bytes(32))


@pytest.mark.parametrize(
    ("n", "step"),
    [(100, "0.3"), (500, "0.07"), (2000, "0.015"), (20_000, "0.0015"), (30_000, "0.001"), (10**7, "0.001")],
)
def test_the_step_is_thirty_nats_over_n_and_never_below_ten_steps_of_the_grid(n: int, step: str) -> None:
    assert share_step(GRID, n) == Fraction(step)
    assert share_step(Fraction(1, 10), n) == 1


@pytest.mark.parametrize("value", [0.0201, -0.0201, 0.0, 0.0299])
def test_a_number_becomes_one_of_two_steps_and_is_right_on_average(value: float) -> None:
    """The mean of 4,000 draws lies within 5 standard errors, each at most half a step / sqrt(4,000)."""
    drawn = np.array([rounding(k).rounded({"learnable": value})["learnable"] for k in range(4000)])
    below = np.floor(value / 0.015) * 0.015
    assert np.isclose(drawn[:, None], [below, below + 0.015]).any(axis=1).all()
    assert abs(drawn.mean() - value) < 5 * 0.0075 / np.sqrt(4000)


def test_a_small_change_shows_as_often_as_its_part_of_the_step() -> None:
    """0.0015 is a tenth of the step: about 10% of secrets tell the two numbers apart on average."""
    pairs = [
        [rounding(k).rounded({"learnable": value})["learnable"] for k in range(4000)]
        for value in (0.0201, 0.0216)
    ]
    difference = np.mean(pairs[1]) - np.mean(pairs[0])
    assert difference / 0.015 == pytest.approx(0.1, abs=5 * np.sqrt(0.5 / 4000))


def test_equal_numbers_are_rounded_alike_and_nothing_else_is_touched() -> None:
    tree = {
        "learnable": 0.0201,
        "learnable_total": 0.0201,
        "n_samples": 2000,
        "method": "exact",
        "seed": None,
    }
    for k in range(50):
        out = rounding(k).rounded(tree)
        assert out["learnable"] == out["learnable_total"]
        assert {key: out[key] for key in ("n_samples", "method", "seed")} == {
            "n_samples": 2000,
            "method": "exact",
            "seed": None,
        }


def test_an_error_covers_the_rounding_too() -> None:
    sizes = {rounding(k).rounded({"learnable_error": 0.012})["learnable_error"] for k in range(500)}
    assert sizes == {0.03, 0.04, 0.05}  # from 0.012 + 0.015 to 0.012 + 0.030, up the ladder
    assert rounding(0).rounded({"se_sampling": 0.0}) == {"se_sampling": 0.0}


def test_the_secret_is_printed_by_nobody() -> None:
    assert "secret" not in repr(rounding(1))
