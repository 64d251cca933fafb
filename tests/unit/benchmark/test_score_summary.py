"""Means, standard errors and paired differences by hand."""

from __future__ import annotations

import pytest

from fedvalue.benchmark.score_summary import mean, paired_difference, summarise
from fedvalue.benchmark.scores import Scores


def scores(tv: float) -> Scores:
    return Scores(tv=tv, pearson=None, spearman=0.5, noise=0.0, lost=0.0, total=None, seconds=1.0)


def test_mean_and_standard_error() -> None:
    """2, 4, 6: mean 4, standard deviation 2, standard error 2 / sqrt 3."""
    found = mean([2.0, None, 4.0, 6.0])
    assert (found.value, found.n) == (4.0, 3)
    assert found.se == pytest.approx(2 / 3**0.5)
    assert mean([None]).value is None
    assert mean([1.0]).se is None


def test_the_bootstrap_draws_data_sets_not_settings() -> None:
    """Two data sets with differences of 0 and 1: a quarter of the draws is all 0, another all 1."""
    found = paired_difference([0.0] * 50 + [1.0] * 50, ["a"] * 50 + ["b"] * 50)
    assert found.value == 0.5
    assert (found.low, found.high) == (0.0, 1.0)


def test_methods_are_sorted_and_compared_on_the_settings_that_both_could_value() -> None:
    sources = {"p": "wine", "q": "wine", "r": "bank"}
    summaries = summarise(
        {
            "poor": {"p": scores(0.3), "q": scores(0.5)},
            "learnable": {"p": scores(0.1), "q": scores(0.1), "r": scores(0.4)},
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
