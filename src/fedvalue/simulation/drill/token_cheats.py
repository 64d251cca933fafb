"""Servers that cheat in the paper's protocol. Each is the real role with one step replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fedvalue.crypto.aes import Blocks
from fedvalue.crypto.sorting import intersect, sort_blocks
from fedvalue.protocol import messages as m
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.settings import RunTerms, Settings
from fedvalue.protocol.tokens.intersecting import AnswerLog, Query, TokenCounting
from fedvalue.protocol.tokens.validating import CheckedQuery, TokenChecking
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.simulation.drill.plot import Intersection, Plot

Trick: TypeAlias = Callable[[Plot, Query, Intersection], Intersection]
"""Makes the false answer of one query out of the true one."""


class CheatingCounting(TokenCounting):
    """Step 2 with a false intersection for one query."""

    def __init__(self, settings: Settings, credentials: Credentials, plot: Plot, trick: Trick) -> None:
        super().__init__(settings, credentials)
        self._plot = plot
        self._trick = trick

    def _intersection(self, query: Query) -> Intersection:
        truth = super()._intersection(query)
        plot, answer = self._plot, truth
        if not plot.fired and plot.target in (0, len(truth[0]) // plot.q):
            answer = self._trick(plot, query, truth)
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
    return plot.memory[-1] if plot.memory else truth


def replay_run(plot: Plot, query: Query, truth: Intersection) -> Intersection:
    """Answer with an intersection of an earlier run, as large as the true one if there is one."""
    return next((old for old in plot.stolen if len(old[0]) == len(truth[0])), plot.stolen[0])


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


class ForgingCounting(CheatingCounting):
    """Replaces the whole table: the task party's upload for the large cells, nothing for the others."""

    def _intersection(self, query: Query) -> Intersection:
        truth = TokenCounting._intersection(self, query)
        self._plot.fired = True
        if len(truth[0]) == self._plot.target * self._plot.q:
            return query.sets[query.coalition[0]].joined()
        return truth[0][:0], truth[1][:0]


class SwappingCounting(CheatingCounting):
    """Holds one query back, and answers two with each other's intersection."""

    _held: tuple[bytes, Query] | None = None
    _given: Intersection | None = None

    def _intersection(self, query: Query) -> Intersection:
        return self._given if self._given is not None else TokenCounting._intersection(self, query)

    def _answer(self, query_id: bytes, query: Query) -> list[m.Envelope]:
        if self._plot.fired:
            return super()._answer(query_id, query)
        if self._held is None:
            self._held = (query_id, query)
            return []
        held_id, held = self._held
        first, second = self._intersection(held), self._intersection(query)
        self._plot.fired = True
        self._given = second
        out = super()._answer(held_id, held)
        self._given = first
        out += super()._answer(query_id, query)
        self._given = None
        return out


class CheatingComputationServer(ComputationServer):
    """A computation server that counts in its own way."""

    def __init__(
        self,
        terms: RunTerms,
        *,
        plot: Plot,
        trick: Trick = zero,
        counting: type[CheatingCounting] = CheatingCounting,
        **named: Any,
    ) -> None:
        super().__init__(terms, **named)
        self._plot, self._trick, self._counting = plot, trick, counting

    def _make_tokens(self, settings: Settings) -> TokenCounting:
        return self._counting(settings, self._credentials, self._plot, self._trick)


class TwoFacedLog(AnswerLog):
    """Sends parties a larger n_c for the first query, and signs what it sent to each of them."""

    plot: Plot
    only: str | None = None

    def _count_for(self, party: str, query_id: bytes) -> int:
        count = super()._count_for(party, query_id)
        if query_id != next(iter(self._answers)) or self.only not in (None, party):
            return count
        self.plot.fired = True
        return count + self.plot.q


class MiscountingComputationServer(ComputationServer):
    """Sends the validation server the truth, and parties a larger n_c for one query.

    With `only`, just that party hears it: an equivocation.
    """

    def __init__(self, terms: RunTerms, *, plot: Plot, only: str | None = None, **named: Any) -> None:
        super().__init__(terms, **named)
        self._plot, self._only = plot, only

    def _make_tokens(self, settings: Settings) -> TokenCounting:
        counting = super()._make_tokens(settings)
        log = TwoFacedLog(settings, settings.compute, self._credentials.signing_key)
        log.plot, log.only = self._plot, self._only
        counting._log = log
        return counting


class LyingChecking(TokenChecking):
    """Gives a false n_v for one query."""

    plot: Plot

    def _check(self, query: CheckedQuery, key: m.QueryKey) -> int:
        n_v = super()._check(query, key)
        if self.plot.fired:
            return n_v
        self.plot.fired = True
        return n_v + self.plot.q


class AcceptingChecking(TokenChecking):
    """Accepts whatever the computation server sends: the two collude."""

    plot: Plot

    def _check(self, query: CheckedQuery, key: m.QueryKey) -> int:
        return sum(map(len, query.tokens)) // 16


class CheatingValidationServer(ValidationServer):
    """A validation server that checks in its own way."""

    def __init__(
        self,
        terms: RunTerms,
        *,
        plot: Plot,
        checking: type[LyingChecking] | type[AcceptingChecking],
        **named: Any,
    ) -> None:
        super().__init__(terms, **named)
        self._plot, self._checking = plot, checking

    def _make_tokens(self, settings: Settings) -> TokenChecking:
        lying = self._checking(settings, self._credentials.signing_key)
        lying.plot = self._plot
        return lying
