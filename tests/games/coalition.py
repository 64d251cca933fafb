"""Coalitions as bit masks: player k belongs to the coalition when bit k is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Coalition = NewType("Coalition", int)
"""A set of players as the bits of a Python integer, so any number of players works."""

NOBODY = Coalition(0)


def coalition(members: Iterable[int]) -> Coalition:
    """The coalition of these players."""
    mask = 0
    for player in members:
        mask |= 1 << player
    return Coalition(mask)


def everybody(n_players: int) -> Coalition:
    """The coalition of all players, the grand coalition."""
    return Coalition((1 << n_players) - 1)


def members(mask: Coalition) -> Iterator[int]:
    """The players of a coalition, ascending."""
    rest = int(mask)
    while rest:
        low = rest & -rest
        yield low.bit_length() - 1
        rest ^= low


def with_player(mask: Coalition, player: int) -> Coalition:
    """The coalition after the player has joined."""
    return Coalition(mask | 1 << player)
