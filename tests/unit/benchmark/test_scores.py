"""Scores by hand, and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.benchmark.methods.method import Estimate, Method
from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.benchmark.scores import (
    Scores,
    best_pair,
    lost_value,
    mean,
    paired_difference,
    score,
    shares_of,
    summarise,
    truth_against_itself,
)
from fedvalue.benchmark.truth import Truth
from fedvalue.errors import InputError

# Parties a, b, c by bits 0, 1, 2. a and b are copies; c adds 0.2 to whatever there is.
GAME = np.array([0.0, 0.6, 0.6, 0.6, 0.2, 0.8, 0.8, 0.8])
SHAPLEY = {"a": 0.3, "b": 0.3, "c": 0.2}


class Fixed(Method):
    name = "fixed"
    in_nats = True

    def value(self, table: VerticalTable) -> dict[str, float]:
        return {}


def problem() -> Problem:
    column = {"x": np.zeros(4)}
    table = VerticalTable(np.array([0, 1, 0, 1]), {}, {"a": column, "b": column, "c": column})
    return Problem("copies", "copies", table, noise="c", game=GAME)


def test_scores_by_hand() -> None:
    """Shares 0.5, 0, 0.5 against 0.375, 0.375, 0.25: TV = (0.125 + 0.375 + 0.25) / 2."""
    from scipy import stats

    scores = score(problem(), Truth(GAME), Fixed(), Estimate({"a": 0.4, "b": -0.1, "c": 0.4}), 1.5)
    assert scores.tv == pytest.approx(0.375)
    assert scores.noise == pytest.approx(0.5)
    assert scores.total == pytest.approx(0.7 / 0.8)
    assert scores.lost == 0  # a and c bring all there is
    assert scores.seconds == 1.5
    values, true = [0.4, -0.1, 0.4], [0.3, 0.3, 0.2]
    assert scores.pearson == pytest.approx(stats.pearsonr(values, true).statistic)
    assert scores.spearman == pytest.approx(stats.spearmanr(values, true).statistic)


def test_the_truth_has_perfect_scores() -> None:
    scores = score(problem(), Truth(GAME), Fixed(), Estimate(SHAPLEY, GAME), 0.0)
    assert (scores.tv, scores.lost) == (pytest.approx(0), 0)
    assert scores.total == pytest.approx(1)


def test_two_copies_are_a_bad_pair() -> None:
    """By values a and b look best, and lose a quarter of 0.8; by coalitions a and c do."""
    values = np.array([0.3, 0.3, 0.2])
    assert best_pair(values, None) == 0b011
    assert lost_value(GAME, 0b011) == pytest.approx(0.25)
    assert best_pair(values, GAME) in (0b101, 0b110)
    assert lost_value(GAME, best_pair(values, GAME)) == 0


def test_negative_values_get_no_share_and_nothing_is_split_evenly() -> None:
    assert shares_of(np.array([0.3, -0.2, 0.1])).tolist() == pytest.approx([0.75, 0, 0.25])
    assert shares_of(np.array([0.0, -1.0])).tolist() == [0.5, 0.5]


def test_a_constant_has_no_correlation() -> None:
    scores = score(problem(), Truth(GAME), Fixed(), Estimate({"a": 1.0, "b": 1.0, "c": 1.0}), 0.0)
    assert (scores.pearson, scores.spearman) == (None, None)


def test_truth_against_itself() -> None:
    """One half sees only a, the other only b: nothing in common."""
    only_a = np.array([0.0, 1, 0, 1, 0, 1, 0, 1])
    only_b = np.array([0.0, 0, 1, 1, 0, 0, 1, 1])
    assert truth_against_itself(Truth(GAME, np.array([only_a, only_b]))) == pytest.approx(1)
    assert truth_against_itself(Truth(GAME)) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [({"a": 1.0, "b": 1.0}, "fixed gave no value to c"), ({"a": 1.0, "b": np.nan, "c": 0.0}, "not finite")],
)
def test_incomplete_estimates_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(problem(), Truth(GAME), Fixed(), Estimate(values), 0.0)


def points(tv: float) -> Scores:
    return Scores(tv=tv, pearson=None, spearman=0.5, noise=0.0, lost=0.0, total=None, seconds=1.0)


def test_mean_and_standard_error() -> None:
    """2, 4, 6: mean 4, standard deviation 2, standard error 2 / sqrt 3."""
    average = mean([2.0, None, 4.0, 6.0])
    assert (average.value, average.n) == (4.0, 3)
    assert average.se == pytest.approx(2 / 3**0.5)
    assert mean([None]).value is None
    assert mean([1.0]).se is None


def test_the_bootstrap_draws_data_sets_not_settings() -> None:
    """Two data sets with differences of 0 and 1: a quarter of the draws is all 0, another all 1."""
    difference = paired_difference([0.0] * 50 + [1.0] * 50, ["a"] * 50 + ["b"] * 50)
    assert difference.value == 0.5
    assert (difference.low, difference.high) == (0.0, 1.0)


def test_methods_are_sorted_and_compared_on_the_settings_that_both_could_value() -> None:
    sources = {"p": "wine", "q": "wine", "r": "bank"}
    summaries = summarise(
        {
            "poor": {"p": points(0.3), "q": points(0.5)},
            "learnable": {"p": points(0.1), "q": points(0.1), "r": points(0.4)},
        },
        {"poor": {"r": "ValueError: no"}},
        sources,
        "learnable",
    )
    assert [row.name for row in summaries] == ["learnable", "poor"]
    best, poor = summaries
    assert best.difference is None
    assert best.by_source == {"wine": pytest.approx(0.1), "bank": pytest.approx(0.4)}
    assert poor.difference is not None
    assert poor.difference.value == pytest.approx(0.3)
    assert poor.failed == {"r": "ValueError: no"}
    assert poor.means["pearson"].value is None
