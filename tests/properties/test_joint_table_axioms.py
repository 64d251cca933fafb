"""Additivity, missingness and consistency (the paper's properties) hold for the joint-table game too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table
from fedvalue.valuation.statistics.joint_table_game import coalition_games, joint_table_game
from tests.support.joint_games import shapley_values


def game_of(table):
    return joint_table_game(item_table(JointCounts.from_columns(**table)))


def values_of(table):
    return shapley_values(game_of(table))[0]


@st.composite
def tables(draw, parties=3):
    n = draw(st.integers(2, 40))
    column = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    return {
        "label": np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))),
        "task": np.array(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))),
        "parties": {f"p{k}": np.array(draw(column)) for k in range(draw(st.integers(1, parties)))},
    }


@given(tables(parties=4))
@settings(max_examples=60)
def test_additivity(table):
    """The values add up to v* of everybody."""
    values = values_of(table)
    assert values.sum() == pytest.approx(game_of(table).total, abs=1e-12)
    assert (values >= -1e-15).all()


@given(tables())
@settings(max_examples=60)
def test_missingness(table):
    """A party with a single code, or one that repeats X_t, adds nothing and gets nothing."""
    n = len(table["label"])
    without = values_of(table)
    table["parties"] |= {"constant": np.full(n, 7), "echo": table["task"]}
    values = values_of(table)
    assert values[-2:] == pytest.approx([0, 0], abs=1e-15)
    assert values[:-2] == pytest.approx(without, abs=1e-12)


@given(tables())
@settings(max_examples=60)
def test_consistency(table):
    """Two parties that tell the same in every coalition get the same: a copy under other names."""
    copied = table["parties"]["p0"]
    table["parties"]["copy"] = 9 - copied
    values = values_of(table)
    assert values[-1] == pytest.approx(values[0], abs=1e-12)


@given(tables())
@settings(max_examples=60)
def test_game_is_monotone(table):
    """Nobody teaches nothing, and more parties never hurt."""
    counts = JointCounts.from_columns(**table)
    _, game = coalition_games(item_table(counts))
    assert game[0] == 0
    for mask in range(len(game)):
        for k in range(counts.n_parties):
            assert game[mask] <= game[mask | 1 << k] + 1e-15


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_order_of_the_parties_does_not_matter(table, random):
    names = list(table["parties"])
    random.shuffle(names)
    values = values_of(table)
    other = dict(table, parties={name: table["parties"][name] for name in names})
    shuffled = values_of(other)
    for k, name in enumerate(names):
        assert shuffled[k] == pytest.approx(values[list(table["parties"]).index(name)], abs=1e-12)
