"""The promises of docs/statistics.md, on fewer tables than `make study` draws."""

from __future__ import annotations

import math

import pytest

from fedvalue.valuation.statistics.joint_table_game import coalition_games
from tests.statistics import back_off, study
from tests.statistics.worlds import worlds

NAMES = [world.name for world in worlds()]
WORLDS = dict(zip(NAMES, worlds(), strict=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "tables"), [(150, 40), (1000, 10)])
def test_useless_parties_learn_nobody_anything(name, n, tables):
    """Their mean learnable value is at most 1% of the total, where the plug-in pays them 10% to 40%."""
    found = study.learned(WORLDS[name], n, tables)
    assert found.useless_share <= 0.01
    assert found.row_id_share <= 1e-9
    assert found.plug_in_useless_share > 0.1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "tables"), [(1000, 40), (10_000, 3)])
def test_informative_parties_come_within_15_percent_of_the_truth(name, n, tables):
    found = study.learned(WORLDS[name], n, tables)
    assert max(map(abs, found.errors)) <= 0.15
    assert max(map(abs, found.plug_in_errors)) > 0.3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("per_cell", [20, 100])
def test_intervals_cover_the_truth_as_often_as_they_say(name, per_cell):
    """92% to 97%, with 2.6 binomial standard errors on either side for having drawn 400 tables only."""
    found = study.covered(WORLDS[name], per_cell, 400)
    slack = 2.6 * math.sqrt(0.95 * 0.05 / 400)
    for rate in found.coverage:
        assert 0.92 - slack <= rate <= 0.97 + slack


def test_back_off_study_uses_the_game_of_the_package():
    """The variant that was chosen is the one that is shipped: same values, from another code."""
    import numpy as np

    from fedvalue.valuation.items import item_table
    from fedvalue.valuation.statistics.joint_table_game import CAP, NOISE
    from fedvalue.valuation.statistics.joint_table_search import ALPHA

    for world in worlds():
        cells = back_off.samples(world, 300, 1)
        loo = cells.leave_one_out(ALPHA, "direct")
        game = back_off.envelope(cells, loo, cells.plug_in(), CAP, NOISE / 300)
        _, shipped = coalition_games(item_table(world.draw(300, 1, back_off.USELESS, row_id=True)))
        assert np.abs(game - shipped).max() < 1e-12


def test_truth_of_a_world_is_the_large_sample_value():
    """A table of 2 million samples comes close to the population, to four standard errors."""
    from fedvalue.valuation.items import item_table
    from fedvalue.valuation.statistics.influence import exact_influence

    for world in worlds():
        found = exact_influence(item_table(world.draw(2_000_000, 0)))
        assert found is not None
        assert (abs(found.values - world.truth()) <= 4 * found.spread + found.bias).all()


def test_verdicts_can_fail():
    found = study.Learned("w", 1000, 1, 0.02, 0.0, (0.1, -0.2), 0.3, (0.5, 0.5))
    cover = study.Covered("w", 20, 480, 100, (0.95, 0.90))
    assert [holds for _, holds in study.verdicts([found], [cover])] == [False, False, False]
