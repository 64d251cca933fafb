"""Valuations of the demonstration's population against its values in closed form."""

from __future__ import annotations

import pytest

from tests.statistics.demonstration import INFORMATIVE, PARTIES, population_values, redraws


def test_population_values_follow_from_the_generator(monkeypatch):
    """The useless party is worth nothing; the others' closed forms do not depend on the grid."""
    from tests.statistics import demonstration

    truth = population_values()
    assert truth["utility"] == pytest.approx(0.0, abs=1e-12)
    monkeypatch.setattr(demonstration, "GRID", 41)
    coarse = population_values.__wrapped__()  # not the cached values of the fine grid
    assert coarse == pytest.approx(truth, abs=1e-5)


def test_bins_cost_a_little():
    """Cutting a column into bins can only lose information about the label; 5 bins lose at most a tenth."""
    uncut, cut = population_values(None), population_values()
    assert sum(cut.values()) < sum(uncut.values())
    for name in INFORMATIVE:
        assert cut[name] == pytest.approx(uncut[name], rel=0.1)


def _check(found):
    truth = population_values()
    for name in INFORMATIVE:
        assert found.mean[name] == pytest.approx(truth[name], rel=0.15)
    assert abs(found.mean["utility"]) < 0.01 * sum(truth.values())


def test_a_few_redraws():
    """Mean error of each informative party within 15%: the mean of 8 values scatters by about 4%."""
    found = redraws(8)
    _check(found)
    assert found.invited >= 7 / 8


@pytest.mark.slow
def test_two_hundred_redraws():
    """Mean error at most 15%, 95% intervals cover in 90 to 98%, the advice is right in at least 95%."""
    found = redraws(200)
    _check(found)
    for name in PARTIES:
        assert found.covered[name] >= 0.90
    for name in INFORMATIVE:
        assert found.covered[name] <= 0.98
    assert found.invited >= 0.95
