"""Plots draw on the caller's axis and hold the result's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.reports.view import view
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.statistics.tables import informative_and_not
from tests.unit.decisions.results import result_of_game, result_of_values
from tests.unit.reports.worlds import four_parties, with_every_set


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


def test_waterfall_has_the_unit_of_the_report(ax):
    """Bars of 18, 15.4, 12.6 and -1 wrong decisions, one after the other."""
    result = with_every_set()
    result.plot.waterfall(ax=ax)
    assert ax.get_xlabel() == "wrong decisions avoided per 1,000 cases"
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert [pytest.approx(bar) for bar in bars] == [(0, 18), (18, 15.4), (33.4, 12.6), (46, -1)]


def test_uplift_bars_leave_out_the_other_sets(ax):
    with_every_set().plot.uplift(ax=ax)
    assert len(ax.patches) == 9


def test_uplift_curve_follows_the_order_of_joining(ax):
    result = with_every_set()
    assert result.plot.uplift_curve(ax=ax) is ax
    (line,) = ax.lines
    assert line.get_ydata().tolist() == pytest.approx([0, 18, 33.4, 46, 45])
    assert [tick.get_text() for tick in ax.get_xticklabels()][:2] == ["nobody", "+ insurer"]
    assert ax.get_ylabel() == "wrong decisions avoided per 1,000 cases"
    (band,) = ax.collections
    low, high = band.get_datalim(ax.transData).intervaly
    assert (low, high) == pytest.approx((0, 54))
    with pytest.raises(InputError, match="does not have auc for every step"):
        result.plot.uplift_curve(ax=ax, metric="auc")
    with pytest.raises(InputError, match="metric must be one of"):
        result.plot.uplift_curve(ax=ax, metric="f1")


def test_uplift_curve_of_log_loss_starts_at_nobody_and_ends_at_all(result, ax):
    result.plot.uplift_curve(ax=ax, metric="log_loss")
    ends = {row.role: row.log_loss for row in result.uplift}
    assert ax.lines[0].get_ydata()[[0, -1]].tolist() == [ends["nobody"], ends["all"]]


def test_values_against_sample_size(ax):
    few, many = (value_counts(informative_and_not(n)) for n in (100, 400))
    assert many.plot.sample_size([few], ax=ax) is ax
    assert ax.get_xlabel() == "rows"
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == set(many.learnable)
    assert lines["strong"].get_xdata().tolist() == [few.n_samples, many.n_samples]
    assert lines["strong"].get_ydata().tolist() == [few.learnable["strong"], many.learnable["strong"]]
    with pytest.raises(InputError, match="different numbers of rows"):
        many.plot.sample_size([many], ax=ax)
    with pytest.raises(InputError, match="same parties"):
        many.plot.sample_size([four_parties()], ax=ax)


def test_values_against_bins_come_from_the_sensitivity(ax):
    import fedvalue

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300))
    label = (x + 0.5 * y + rng.normal(size=300) > 0).astype(int)
    result = fedvalue.value(label=label, parties={"x": {"x": x}, "y": {"y": y}}, sensitivity=True)
    assert len(result.details["sensitivity"]["runs"]) == 6
    assert result.plot.bins(ax=ax) is ax
    drawn = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert drawn["x"].get_xdata().tolist() == [3, 5, 8]
    assert drawn["x"].get_ydata()[1] == result.learnable["x"]
    assert {"bins equally filled", "bins of equal width"} <= set(drawn)
    with pytest.raises(InputError, match="not valued with other bins"):
        four_parties().plot.bins(ax=ax)


def test_a_long_name_leaves_room_for_the_drawing(ax):
    """80 characters in one line are wider than a drawing; they take three or four lines."""
    name = "Donaudampfschifffahrtsgesellschaft für Kapitänsmützen und verwandte Waren mbH & Co KG"
    result_of_game([0, 1.0, 0.5, 1.1], names=[name, "b"]).plot.values(ax)
    drawn = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(len(text.splitlines()) for text in drawn) == [1, 4]
    assert {text.replace("\n", "").replace(" ", "") for text in drawn} == {name.replace(" ", ""), "b"}


def test_dollar_signs_in_names_are_drawn_as_they_are(ax):
    """Not as mathematics: a name with a formula that does not parse kept every plot from being drawn."""
    result = result_of_game([0, 1.0, 0.5, 1.1], names=["$$x_{", "a$b$c"])
    for draw in (result.plot.values, result.plot.redundancy, result.plot.shares, result.plot.waterfall):
        ax.clear()
        draw(ax=ax)
        ax.figure.canvas.draw()
        drawn = {label.get_text().replace(r"\$", "$") for label in ax.get_yticklabels()}
        assert drawn == {"$$x_{", "a$b$c"}
