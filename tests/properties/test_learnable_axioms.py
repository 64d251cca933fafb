"""Additivity, missingness and consistency (the paper's properties) hold for learnable values too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.statistics.learnable import coalition_games, learnable_values


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
    found = learnable_values(JointCounts.from_columns(**table))
    assert found.values.sum() == pytest.approx(found.total, abs=1e-12)
    assert (found.values >= -1e-15).all()


@given(tables())
@settings(max_examples=60)
def test_missingness(table):
    """A party with a single code, or one that repeats X_t, adds nothing and gets nothing."""
    n = len(table["label"])
    without = learnable_values(JointCounts.from_columns(**table))
    table["parties"] |= {"constant": np.full(n, 7), "echo": table["task"]}
    found = learnable_values(JointCounts.from_columns(**table))
    assert found.values[-2:] == pytest.approx([0, 0], abs=1e-15)
    assert found.values[:-2] == pytest.approx(without.values, abs=1e-12)


@given(tables())
@settings(max_examples=60)
def test_consistency(table):
    """Two parties that tell the same in every coalition get the same: a copy under other names."""
    copied = table["parties"]["p0"]
    table["parties"]["copy"] = 9 - copied
    found = learnable_values(JointCounts.from_columns(**table))
    assert found.values[-1] == pytest.approx(found.values[0], abs=1e-12)


@given(tables())
@settings(max_examples=60)
def test_game_is_monotone(table):
    """Nobody teaches nothing, and more parties never hurt."""
    counts = JointCounts.from_columns(**table)
    _, game = coalition_games(counts)
    assert game[0] == 0
    for mask in range(len(game)):
        for k in range(counts.n_parties):
            assert game[mask] <= game[mask | 1 << k] + 1e-15


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_order_of_the_parties_does_not_matter(table, random):
    names = list(table["parties"])
    random.shuffle(names)
    found = learnable_values(JointCounts.from_columns(**table))
    other = dict(table, parties={name: table["parties"][name] for name in names})
    shuffled = learnable_values(JointCounts.from_columns(**other))
    for k, name in enumerate(names):
        assert shuffled.values[k] == pytest.approx(
            found.values[list(table["parties"]).index(name)], abs=1e-12
        )
