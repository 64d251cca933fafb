"""Cheating servers of the paper's protocol. Each is the real work of a server with one step replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto.aes import Blocks
from fedvalue.crypto.sorting import intersect, sort_blocks
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.tokens.intersecting import AnswerLog, Query, TokenCounting, TokenSet
from fedvalue.protocol.tokens.validating import TokenChecking
from fedvalue.simulation.drill.plot import Plot

Intersection: TypeAlias = tuple[Blocks, NDArray[np.uint64]]
"""Tokens, and the sums of their authenticators (empty without H2)."""

Trick: TypeAlias = Callable[[Plot, Query, Intersection], Intersection]
"""Turns the true answer to one query into a false one."""


class TrickyCounting(TokenCounting):
    """Step 2 with a false intersection for one query."""

    plot: Plot
    trick: Trick

    def _intersection(self, query: Query) -> Intersection:
        truth = super()._intersection(query)
        plot, answer = self.plot, truth
        if not plot.fired and plot.target in (0, len(truth[0]) // plot.q):
            answer = self.trick(plot, query, truth)
            plot.fired = not np.array_equal(truth[0], answer[0])
        plot.memory.append(truth)
        return answer


def drop(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Leave out the tokens of some samples, guessing which belong together."""
    keep = np.sort(plot.rng.permutation(len(truth[0]))[plot.n_samples * plot.q :])
    return truth[0][keep], truth[1][keep] if len(truth[1]) else truth[1]


def zero(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Report an empty cell."""
    return truth[0][:0], truth[1][:0]


def inject(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Add random tokens, as many as one sample has."""
    return _added(plot, truth, plot.rng.integers(0, 2**64, size=(plot.q, 2), dtype=np.uint64))


def duplicate(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Send some tokens twice."""
    return _added(plot, truth, truth[0][: plot.q])


def return_upload(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Return the task party's whole upload as the intersection (attack A1)."""
    return query.sets[query.coalition[0]].joined()


def ignore_party(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Intersect all sets but the last party's (attack A1)."""
    left, sums = query.sets[query.coalition[0]].joined()
    for member in query.coalition[1:-1]:
        left, sums = intersect(left, sums, *query.sets[member].joined())
    return left, sums


def replay_query(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Answer with the intersection of an earlier query of this run."""
    earlier: list[Intersection] = plot.memory
    return earlier[-1] if earlier else truth


def replay_run(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Answer with an intersection of an earlier run, as large as the true one if there is one."""
    stolen: list[Intersection] = plot.stolen
    return next((old for old in stolen if len(old[0]) == len(truth[0])), stolen[0])


def merge(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Answer with this intersection and an earlier query's together."""
    if not plot.memory:
        return truth
    old = plot.memory[-1]
    return np.concatenate([truth[0], old[0]]), np.concatenate([truth[1], old[1]])


def _added(plot: Plot, truth: Intersection, more: Blocks) -> Intersection:
    ranked, order = sort_blocks(np.concatenate([truth[0], more]))
    if not len(truth[1]):
        return ranked, truth[1]
    guessed = plot.rng.integers(0, 2**64, size=len(more), dtype=np.uint64)
    return ranked, np.concatenate([truth[1], guessed])[order]


class ForgingCounting(TokenCounting):
    """Replaces the whole table: the task party's upload for the large cells, nothing for the others."""

    plot: Plot

    def _intersection(self, query: Query) -> Intersection:
        truth = super()._intersection(query)
        self.plot.fired = True
        if len(truth[0]) == self.plot.target * self.plot.q:
            return query.sets[query.coalition[0]].joined()
        return truth[0][:0], truth[1][:0]


class SwappingCounting(TokenCounting):
    """Holds one query back, and answers two with each other's intersection."""

    plot: Plot
    _held: tuple[bytes, Query] | None = None
    _swapped: Intersection | None = None

    def _intersection(self, query: Query) -> Intersection:
        return self._swapped if self._swapped is not None else super()._intersection(query)

    def _answer(self, query_id: bytes, query: Query) -> list[m.Envelope]:
        if self.plot.fired:
            return super()._answer(query_id, query)
        if self._held is None:
            self._held = (query_id, query)
            return []
        held_id, held = self._held
        first, second = self._intersection(held), self._intersection(query)
        self.plot.fired = True
        self._swapped = second
        out = super()._answer(held_id, held)
        self._swapped = first
        out += super()._answer(query_id, query)
        self._swapped = None
        return out


class MiscountingCounting(TokenCounting):
    """Sends the validation server the truth, and parties a larger n_c for one query.

    With `only`, just that party gets it: an equivocation.
    """

    plot: Plot
    only: str | None = None

    def __init__(self, settings: Settings, credentials: Credentials) -> None:
        super().__init__(settings, credentials)
        self._log = TwoFacedLog(settings, settings.compute, credentials.signing_key)
        self._log.plot, self._log.only = self.plot, self.only


class TwoFacedLog(AnswerLog):
    """Adds a sample to n_c of the first query, and signs the count that each party got."""

    plot: Plot
    only: str | None = None

    def _count_for(self, party: str, query_id: bytes) -> int:
        count = super()._count_for(party, query_id)
        if query_id != next(iter(self._answers)) or self.only not in (None, party):
            return count
        self.plot.fired = True
        return count + self.plot.q


class LyingChecking(TokenChecking):
    """Answers one query with a false n_v."""

    plot: Plot

    def _check(self, intersection: TokenSet, key: m.QueryKey) -> int:
        n_v = super()._check(intersection, key)
        if self.plot.fired:
            return n_v
        self.plot.fired = True
        return n_v + self.plot.q


class AcceptingChecking(TokenChecking):
    """Accepts everything from the computation server: the two collude."""

    def _check(self, intersection: TokenSet, key: m.QueryKey) -> int:
        return intersection.n_tokens
