"""Plots draw on the caller's axis and hold the result's numbers."""

from __future__ import annotations

import pytest

from fedvalue.errors import InputError
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.statistics.tables import informative_and_not
from tests.unit.decisions.results import result_of_game, result_of_values


@pytest.fixture(scope="module")
def result():
    return value_counts(informative_and_not(200), ValuationSettings(coalitions=True))


@pytest.fixture(scope="module")
def plt():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


@pytest.fixture
def ax(plt):
    figure, axis = plt.subplots()
    yield axis
    plt.close(figure)


@pytest.mark.parametrize("name", ["values", "shares", "redundancy", "selection"])
def test_every_plot_draws_on_the_given_axis_and_returns_it(result, ax, name):
    assert getattr(result.plot, name)(ax=ax) is ax
    assert ax.has_data()


def test_values_are_bars_of_the_right_lengths(result, ax):
    result.plot(ax=ax)
    widths = {round(bar.get_width(), 12) for bar in ax.patches}
    for party in result.parties:
        assert round(party.value, 12) in widths
        assert round(party.learnable, 12) in widths


def test_plot_makes_its_own_axis(result, plt):
    axis = result.plot.values()
    assert axis.has_data()
    plt.close(axis.figure)


def test_selection_draws_budget_and_prices(ax):
    result_of_values([1.0, 2.0]).plot.selection(ax=ax, prices={"p0": 5, "p1": 7}, budget=6)
    assert ax.get_xlabel() == "cost"
    assert ax.lines[0].get_xdata().tolist() == [0, 5, 7, 12]
    assert ax.lines[1].get_xdata() == [6, 6]


def test_plots_without_statistics(ax):
    plain = value_counts(informative_and_not(60), ValuationSettings(statistics=False))
    plain.plot.values(ax=ax)
    plain.plot.shares(ax=ax)
    with pytest.raises(InputError, match="needs two parties"):
        result_of_game([0, 1.0]).plot.redundancy(ax=ax)
