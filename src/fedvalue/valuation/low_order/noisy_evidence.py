"""The evidence of each column about the label, from a noisy table N(x, y), by empirical Bayes.

For label frequencies pi, the residual r(x, y) = N(x, y) - pi(y) N(x) of a code is, in units of
sqrt(pi (1 - pi)), normal around N(x) d(x, y) with variance N(x) + noise. d is normal with variance tau^2,
less the mean of all codes (`_freedom`). tau runs over a grid, and over "this column says nothing".

Without noise the posterior mean of d gives the probabilities p(y | x). As posterior means they are neither
too sure nor in need of rows left out: the gain that they predict for themselves,
sum_x q(x) sum_y p ln(p / pi), is the gain to expect on new rows. With noise that would be the gain of
somebody who has the noisy table alone. A column is worth more to somebody who has its rows, so d is stretched
to the size that it is expected to have without noise (`ColumnPosterior.mean`).

Codes that drown in noise count as one. A column of many codes without signal gets hardly any evidence, since
"nothing" explains it best.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.pair_tables import PairTables
    from fedvalue.typing import Floats

STRENGTHS = tuple(0.02 * 2.0**k for k in range(8))
"""Grid of tau, from a fiftieth of a standard deviation of the label to two and a half."""

MIN_PART = 0.02
"""A label's probability given a code is at least this part of its frequency: noise must not produce
extremes."""

VISIBLE = 1.0
"""Standard deviations of its noise above which a code counts by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnEvidence:
    """One column.

    Args:
        frequency: q(x), shape (n_codes,), adding up to 1.
        probability: p(y | x), shape (n_codes, n_labels).
        evidence: ln p(y | x) - ln pi(y), same shape.
    """

    frequency: Floats = field(repr=False)
    probability: Floats = field(repr=False)
    evidence: Floats = field(repr=False)


def label_frequencies(tables: PairTables) -> Floats:
    """pi(y): the mean of all columns' margins, the less noisy ones counting more."""
    margins = np.array([table.sum(axis=0) for table in tables.label_tables()], dtype=np.float64)
    weight = 1.0 / np.array(tables.layout.sizes)
    mean = np.maximum((weight[:, None] * margins).sum(axis=0) / weight.sum(), 1.0)
    return np.asarray(mean / mean.sum())


def column_posteriors(tables: PairTables, pi: Floats) -> list[ColumnPosterior]:
    """The posterior of every column."""
    return [
        ColumnPosterior.of(table.astype(np.float64), pi, tables.n_samples, tables.label_variance)
        for table in tables.label_tables()
    ]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPosterior:
    """The posterior of one column given its noisy table.

    Args:
        pi: Label frequencies.
        group: The group of every code: its own, or that of all codes that drown in noise.
        size: N(x) of every group, at least half a standard deviation of its noise, shape (n_groups, 1).
        frequency: q(x), shape (n_groups,); 0 for a group that drowns in noise, unless all do.
        residual: r(x, y).
        spread: Variance of the residuals without signal, in units of pi (1 - pi).
        weights: Of each strength, "nothing" first.
    """

    pi: Floats = field(repr=False)
    group: NDArray[np.int64] = field(repr=False)
    size: Floats = field(repr=False)
    frequency: Floats = field(repr=False)
    residual: Floats = field(repr=False)
    spread: Floats = field(repr=False)
    weights: Floats = field(repr=False)

    @classmethod
    def of(cls, table: Floats, pi: Floats, n_samples: int, variance: float) -> ColumnPosterior:
        """The posterior of one table N(x, y) with noise of this variance in every cell."""
        n_codes, n_labels = table.shape
        table = (
            table + (n_samples * pi - table.sum(axis=0)) / n_codes
        )  # every column has the same label margin
        group = _groups(table.sum(axis=1), VISIBLE * float(np.sqrt(n_labels * variance)))
        members = np.bincount(group).astype(np.float64)
        table = np.array([table[group == k].sum(axis=0) for k in range(len(members))])
        noise = variance * members[:, None]
        rows = table.sum(axis=1, keepdims=True)
        size = np.maximum(rows, np.maximum(1.0, 0.5 * np.sqrt(noise)))
        visible = np.where(rows > VISIBLE * np.sqrt(n_labels * noise), rows, 0.0)
        counted = visible if visible.any() else size
        frequency = counted[:, 0] / counted.sum()
        residual = table - pi * rows
        unit = pi * (1.0 - pi)
        if n_labels < 2 or len(members) < 2:
            nothing = np.eye(1 + len(STRENGTHS))[0]
            return cls(pi, group, size, frequency, 0.0 * residual, 1.0 + 0.0 * residual, nothing)
        spread = size + noise * (1.0 - 2.0 * pi + n_labels * pi**2) / unit
        squares = residual**2 / unit
        logs = []
        freedom = _freedom(frequency)[:, None]
        for tau in (0.0, *STRENGTHS):
            total = spread + freedom * (size * tau) ** 2
            # Labels are not independent: n_labels - 1 of them are free.
            fit = float(np.sum(np.log(total) + squares / total)) * (n_labels - 1) / n_labels
            logs.append(-0.5 * fit - (np.log(len(STRENGTHS)) if tau else 0.0))
        weights = np.exp(np.array(logs) - max(logs))
        return cls(pi, group, size, frequency, residual, spread, weights / weights.sum())

    def luck(self, n_samples: int) -> float:
        """Standard deviation of the gain, in nats, that a column without signal shows by noise and sampling.

        Half a chi-square over n, with (codes - 1)(labels - 1) degrees of freedom, times what noise adds.
        """
        n_codes, n_labels = self.residual.shape
        added = float(self.frequency @ (self.spread / self.size).mean(axis=1))
        return added * float(np.sqrt(2.0 * (n_codes - 1) * (n_labels - 1))) / (2.0 * n_samples)

    def mean(self) -> ColumnEvidence:
        """Evidence with the signs of the posterior mean, as strong as exact rows are expected to show it.

        Exact rows would give d another posterior mean, m. Given the noisy table, m^2 is expected to be the
        square of the mean, plus what exact rows would add to what is known about d and tau.
        """
        taus, unit = (0.0, *STRENGTHS), self.pi * (1.0 - self.pi)
        kept, signal = (np.array([of(tau) for tau in taus]) for of in (self._kept, self._signal))
        found = kept * self.residual / self.size
        mean, square = (np.tensordot(self.weights, one, axes=1) for one in (found, found**2))
        about_d = kept * self.spread / self.size**2 - signal / (signal + self.size) / self.size
        about_tau = (1.0 - self.size / self.spread) * (square - mean**2) / unit
        more = np.tensordot(self.weights, about_d, axes=1) + about_tau
        present = (mean**2 / unit).sum(axis=1, keepdims=True)
        expected = present + np.maximum(more, 0.0).sum(axis=1, keepdims=True)
        return self._evidence(mean * np.sqrt(expected / np.where(present > 0, present, 1.0)))

    def drawn(self, choice: float, normal: Floats) -> ColumnEvidence:
        """One draw from the posterior.

        Args:
            choice: Chooses the strength: a number from [0, 1).
            normal: Independent normal numbers, of the table's shape.
        """
        place = min(int(np.searchsorted(np.cumsum(self.weights), choice, side="right")), len(STRENGTHS))
        kept = self._kept((0.0, *STRENGTHS)[place])
        unit, n_labels = self.pi * (1.0 - self.pi), len(self.pi)
        error = normal * np.sqrt(unit)
        error = (error - error.mean(axis=1, keepdims=True)) * np.sqrt(n_labels / max(n_labels - 1, 1))
        return self._evidence((kept * self.residual + np.sqrt(kept * self.spread) * error) / self.size)

    def _kept(self, tau: float) -> Floats:
        """Part of each residual that is signal, given its strength."""
        signal = self._signal(tau)
        return np.asarray(signal / (self.spread + signal))

    def _signal(self, tau: float) -> Floats:
        """Variance of each residual by its effect, given the strength."""
        return np.asarray(_freedom(self.frequency)[:, None] * (self.size * tau) ** 2)

    def _evidence(self, shift: Floats) -> ColumnEvidence:
        probability = np.maximum(self.pi + shift, MIN_PART * self.pi)
        probability /= probability.sum(axis=1, keepdims=True)
        of_code, members = probability[self.group], np.bincount(self.group)
        frequency = (self.frequency / members)[self.group]
        return ColumnEvidence(frequency, of_code, np.log(of_code / self.pi))


def _freedom(frequency: Floats) -> Floats:
    """Variance of a code's effect less the mean effect, for independent effects of variance 1 of all codes.

    A code that nearly everybody has cannot differ from the mean, however much the others do: it must not
    speak against effects of rare codes.
    """
    squares = frequency**2
    return np.asarray((1.0 - frequency) ** 2 + squares.sum() - squares)


def _groups(sizes: Floats, least: float) -> NDArray[np.int64]:
    """The group of every code: one each, but one for all codes that drown in noise."""
    drowned = (sizes <= least) & (least > 0)
    group = np.cumsum(~drowned) - 1
    return np.where(drowned, group[-1] + 1, group)
