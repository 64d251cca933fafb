"""Plots draw on the caller's axis and hold the result's numbers."""

from __future__ import annotations

import pytest

from fedvalue.errors import InputError
from fedvalue.reports.view import view
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.statistics.tables import informative_and_not
from tests.unit.decisions.results import result_of_game, result_of_values
from tests.unit.reports.worlds import four_parties


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


@pytest.mark.parametrize("name", ["values", "shares", "waterfall", "redundancy", "selection"])
def test_every_plot_draws_on_the_given_axis_and_returns_it(result, ax, name):
    assert getattr(result.plot, name)(ax=ax) is ax
    assert ax.has_data()
    assert ax.get_title()
    assert ax.get_xlabel()


def test_values_are_bars_of_the_right_lengths(result, ax):
    """The learnable values, with intervals that are not those of Shapley-CMI."""
    result.plot(ax=ax)
    widths = {round(bar.get_width(), 12) for bar in ax.patches}
    assert widths == {round(party.learnable, 12) for party in result.parties}
    (bars,) = (line.get_segments() for line in ax.collections)
    ends = sorted((segment[0][0], segment[1][0]) for segment in bars)
    assert ends == [
        pytest.approx(end) for end in sorted(party.learnable_interval for party in result.parties)
    ]


def test_redundancy_map_has_the_signs_of_the_report(ax):
    result = result_of_game([0, 1.0, 0.5, 1.1, 0.2, 1.3, 0.7, 1.5], names=["a", "b", "c"])
    result.plot.redundancy(ax=ax)
    drawn = [text.get_text() for text in ax.texts]
    assert drawn == [cell.text for _, cells in view(result).overlap.rows for cell in cells]
    assert "−80%" in drawn
    assert "+50%" in drawn


def test_waterfall_starts_each_bar_where_the_last_one_ended(ax):
    """0.08, 0.07, 0.06 and 0 of 0.61 nats, in percent."""
    four_parties().plot.waterfall(ax=ax)
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    expected = [(0.0, 0.08), (0.08, 0.07), (0.15, 0.06), (0.21, 0.0)]
    assert bars == [pytest.approx((100 * x / 0.61, 100 * w / 0.61)) for x, w in expected]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "invite", "adds nothing worth mentioning",
    ]  # fmt: skip


def test_uplift_draws_errors_avoided(ax):
    four_parties().plot.uplift(ax=ax)
    names = [text.get_text() for text in ax.get_yticklabels()]
    widths = dict(zip(names, (bar.get_width() for bar in ax.patches), strict=True))
    assert widths["all but utility"] == pytest.approx(46)
    assert widths["all parties"] == pytest.approx(45)
    assert "nobody" not in names


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
    with pytest.raises(InputError, match="a waterfall needs learnable values"):
        plain.plot.waterfall(ax=ax)
    with pytest.raises(InputError, match="no uplift"):
        plain.plot.uplift(ax=ax)
