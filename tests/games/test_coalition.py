"""Coalitions are sets: what goes in comes out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.games.coalition import NOBODY, coalition, everybody, members, with_player


@given(st.sets(st.integers(0, 200)))
def test_members_of_a_coalition_are_those_that_made_it(players: set[int]) -> None:
    assert list(members(coalition(players))) == sorted(players)


def test_everybody_and_nobody() -> None:
    assert list(members(everybody(70))) == list(range(70))
    assert list(members(NOBODY)) == []


def test_joining_twice_changes_nothing() -> None:
    assert with_player(with_player(NOBODY, 3), 3) == coalition([3])
