"""Properties 1 to 3 of the paper, for arbitrary tables."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvalue.information.cmi import conditional_entropy
from fedvalue.information.contingency import JointCounts
from tests.games.coalition import Coalition, members
from tests.games.exact import shapley
from tests.support.joint_tables import Table, exact_walk, tables


class CmiGame:
    """val(S) = I(X_S; Y | X_t), asked for coalition by coalition."""

    def __init__(self, counts: JointCounts) -> None:
        self.counts = counts
        self.n_players = counts.n_parties

    def value(self, coalition: Coalition) -> float:
        columns = [self.counts.parties[:, d] for d in members(coalition)]
        before = conditional_entropy(self.counts.label, [self.counts.task], self.counts.count)
        after = conditional_entropy(self.counts.label, [self.counts.task, *columns], self.counts.count)
        return before - after


@given(tables(most_parties=6, most_items=24))
@settings(max_examples=50)
def test_values_are_the_shapley_values_of_the_cmi_game(table: Table) -> None:
    """The walk, which never looks at coalitions, agrees with a solver that knows nothing but coalitions."""
    counts = table.counts()
    np.testing.assert_allclose(exact_walk(counts).values, shapley(CmiGame(counts)), rtol=0, atol=1e-12)


@given(tables())
@settings(max_examples=60)
def test_property_1_additivity(table: Table) -> None:
    """The values add up to the joint CMI of all parties, and none is negative."""
    counts = table.counts()
    values = exact_walk(counts).values
    game = CmiGame(counts)
    assert math.isclose(
        values.sum(), game.value(Coalition((1 << counts.n_parties) - 1)), rel_tol=0, abs_tol=1e-12
    )
    assert values.min() >= -1e-12


@given(tables(most_parties=5), st.integers(0, 5))
@settings(max_examples=60)
def test_property_2_missingness(table: Table, at: int) -> None:
    """A party without data (a constant column) gets exactly 0, and changes nobody else's value."""
    parties = list(table.parties)
    parties.insert(min(at, len(parties)), [7] * len(table.label))
    where = min(at, len(table.parties))
    values = exact_walk(Table(parties, table.label, table.task, table.weight).counts()).values
    assert values[where] == 0.0
    np.testing.assert_allclose(
        np.delete(values, where), exact_walk(table.counts()).values, rtol=0, atol=1e-12
    )


@given(tables(most_parties=5), st.integers(2, 4))
@settings(max_examples=60)
def test_property_3_consistency_of_finer_data(table: Table, factor: int) -> None:
    """A party whose marginals are nowhere smaller than another's gets no smaller a value.

    Party b sees what party a sees and more: (a, extra) refines a.
    """
    extra = [i % factor for i in range(len(table.label))]
    finer = [x * factor + e for x, e in zip(table.parties[0], extra, strict=True)]
    parties = [table.parties[0], finer, *table.parties[1:]]
    values = exact_walk(Table(parties, table.label, table.task, table.weight).counts()).values
    assert values[1] >= values[0] - 1e-12


@given(tables(most_parties=6), st.data())
@settings(max_examples=60)
def test_duplicates_get_equal_values(table: Table, data: st.DataObject) -> None:
    """Two parties with the same partition of the samples, whatever they call its parts."""
    k = data.draw(st.integers(0, len(table.parties) - 1))
    copy = [1000 - x for x in table.parties[k]]
    values = exact_walk(Table([*table.parties, copy], table.label, table.task, table.weight).counts()).values
    assert math.isclose(values[k], values[-1], rel_tol=0, abs_tol=1e-13)


def test_independent_task_blocks_average() -> None:
    """A table that repeats under each task code has the values of one of them."""
    a, b = np.array(list(product([0, 1], repeat=2))).T
    label = a & b
    once = exact_walk(JointCounts.from_columns(label=label, parties={"a": a, "b": b})).values
    thrice = exact_walk(
        JointCounts.from_columns(
            label=np.tile(label, 3),
            parties={"a": np.tile(a, 3), "b": np.tile(b, 3)},
            task=np.repeat([0, 1, 2], 4),
        )
    ).values
    np.testing.assert_allclose(thrice, once, rtol=1e-13)
