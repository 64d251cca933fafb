"""Cheating servers under `mirror`.

They count truly and answer falsely: to the other server, or to parties after both have agreed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.information.contingency import JointCounts
from fedvalue.information.pair_tables import PairTables
from fedvalue.protocol import messages as m
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.mirror.counting import MirrorCounting
from fedvalue.protocol.outcome import Answer, Valuer
from fedvalue.protocol.settings import RunTerms
from fedvalue.simulation.drill.plot import Plot

Counts: TypeAlias = NDArray[np.int64]
Fiddle: TypeAlias = Callable[[Plot, Counts], Counts]
"""Makes false counts out of the true ones; the cells stand in rising order of their opaque codes."""


class FiddlingCounting(MirrorCounting):
    """Falsifies the counts of the cells: from the beginning, or only after both servers have agreed.

    Attributes:
        after_agreement: First agree with the other server on the truth.
        only: The party that then gets a false result; all of them when None.
    """

    plot: Plot
    fiddle: Fiddle
    after_agreement = False
    only: str | None = None
    _releasing = False

    def release(self, answer: Answer) -> list[m.Envelope]:
        """The false result for the victims, the true one for everybody else."""
        truth = super().release(answer)
        if not self.after_agreement:
            return truth
        self._releasing = True
        lies = super().release(self.answer())
        victims = self._terms.everybody if self.only is None else (self.only,)
        return [item for item in truth if item.recipient not in victims] + [
            item for item in lies if item.recipient in victims
        ]

    def _cells(self) -> tuple[NDArray[np.uint64], Counts]:
        words, counts = super()._cells()
        if self.after_agreement and not self._releasing:
            return words, counts
        changed = self.fiddle(self.plot, counts.copy())
        self.plot.fired = not np.array_equal(changed, counts)
        return words[changed > 0], changed[changed > 0]


def drop(plot: Plot, counts: Counts) -> Counts:
    """Some samples fewer in one cell that has more."""
    cell = plot.rng.choice(np.flatnonzero(counts > plot.n_samples))
    counts[cell] -= plot.n_samples
    return counts


def drop_only(plot: Plot, counts: Counts) -> Counts:
    """The only sample of a cell is gone."""
    counts[np.flatnonzero(counts == 1)[0]] = 0
    return counts


def zero(plot: Plot, counts: Counts) -> Counts:
    """One cell is empty."""
    counts[plot.rng.integers(len(counts))] = 0
    return counts


def more(plot: Plot, counts: Counts) -> Counts:
    """One cell has some more."""
    counts[plot.rng.integers(len(counts))] += plot.q
    return counts


def double(plot: Plot, counts: Counts) -> Counts:
    """One cell is counted twice."""
    counts[plot.rng.integers(len(counts))] *= 2
    return counts


def scatter(plot: Plot, counts: Counts) -> Counts:
    """The effect of ignoring a party's upload: the right number of rows, in random cells."""
    return plot.rng.multinomial(counts.sum(), np.full(len(counts), 1 / len(counts))).astype(np.int64)


def swap(plot: Plot, counts: Counts) -> Counts:
    """Two cells of different size change places."""
    a, b = plot.rng.choice(len(counts), size=2, replace=False)
    counts[[a, b]] = counts[[b, a]]
    return counts


def merge(plot: Plot, counts: Counts) -> Counts:
    """One cell is added to another."""
    a, b = plot.rng.choice(len(counts), size=2, replace=False)
    counts[a] += counts[b]
    counts[b] = 0
    return counts


def keep_marginals(plot: Plot, counts: Counts) -> Counts:
    """Four cells change by one so that every party's marginal stays (attack A7).

    The four opaque cells are all combinations of the label and the data party, in whatever order.
    """
    step = np.array([1, -1, -1, 1])
    if (counts[:4] + step).min() < 1:
        step = -step
    counts[:4] += step
    return counts


class ReplayingServer(ComputationServer):
    """Answers with the signed result of an earlier run."""

    plot: Plot

    def receive(self, envelope: m.Envelope, *, checked: bool = False) -> list[m.Envelope]:
        """Replace the results on their way out."""
        sent = super().receive(envelope, checked=checked)
        if not any(isinstance(item.message, m.ResultSeal) for item in sent):
            return sent
        self.plot.fired = True
        return [self._to(party, old) for party in self.terms.everybody for old in self.plot.stolen]


class RecordingServer(ComputationServer):
    """An honest server that remembers the result it sends to the task party."""

    plot: Plot

    def receive(self, envelope: m.Envelope, *, checked: bool = False) -> list[m.Envelope]:
        """Remember the results for the task party."""
        sent = super().receive(envelope, checked=checked)
        self.plot.memory += [
            item.message
            for item in sent
            if item.recipient == self.terms.task and isinstance(item.message, m.ResultChunk | m.ResultSeal)
        ]
        return sent


def agreed_lie(plot: Plot, valuer: Valuer) -> Valuer:
    """A valuer for two servers that share one lie: every value doubled."""

    def lie(counts: JointCounts | PairTables, terms: RunTerms) -> Answer:
        truth = valuer(counts, terms)
        plot.fired = True
        shares = tuple({**share, "value": 2 * share["value"]} for share in truth.shares)
        return Answer({**truth.public, "total": 2 * truth.public["total"]}, truth.task, shares)

    return lie
