"""Synthetic rows with the evidence and the correlations of noisy tables: a Gaussian copula.

- Every label gets the same number of rows, with weights.
- Given the label, the codes of a column have exactly the frequencies p(x | y), so a column whose evidence is
  in a few rare codes is not mistaken for a normal one.
- Columns depend on each other through normal scores whose correlations are those of the pair tables given the
  label, each shrunk according to its noise. Three-way dependence is neither in the tables nor here.
- The rows reveal nothing about any person: they are drawn from a fixed stream of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.frozen_random import random_fractions
from fedvalue.valuation.low_order.noisy_evidence import (
    ColumnEvidence,
    column_posteriors,
    label_frequencies,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.pair_tables import PairTables
    from fedvalue.typing import Codes, Floats

ROWS = 2048
"""Rows per label; values move by about 1% of the total with another stream of numbers."""

ROUNDS = 2
"""Corrections of the normal scores' correlations for what coding takes from them."""

SPREADS = (1e-6, *(0.01 * 1.5**k for k in range(12)))
"""Grid of the standard deviation of correlations between columns."""

MAX_CORRELATION = 0.98
MIN_EIGENVALUE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class LatentTable:
    """Rows that stand for a population.

    Args:
        pi: Label frequencies.
        columns: Evidence of each column.
        codes: Code of each column per row, shape (n_rows, n_columns).
        label: Label per row.
        weight: Weight of each row; they add up to 1.
    """

    pi: Floats = field(repr=False)
    columns: tuple[ColumnEvidence, ...] = field(repr=False)
    codes: NDArray[np.int64] = field(repr=False)
    label: Codes = field(repr=False)
    weight: Floats = field(repr=False)


class LatentPopulation:
    """The posterior of the population given noisy tables: its most likely form, and draws.

    Args:
        tables: One-way and two-way tables, with or without noise.
    """

    def __init__(self, tables: PairTables) -> None:
        self._tables = tables
        self._pi = label_frequencies(tables)
        self._posteriors = column_posteriors(tables, self._pi)

    def luck(self) -> Floats:
        """Gain that each column could show or hide by noise and sampling alone, in nats."""
        return np.array([posterior.luck(self._tables.n_samples) for posterior in self._posteriors])

    def mean(self, n_rows: int = ROWS) -> LatentTable:
        """The population that fits the tables best."""
        return self._table([posterior.mean() for posterior in self._posteriors], n_rows, None)

    def drawn(self, number: int, n_rows: int) -> LatentTable:
        """Another population that fits the tables: draw `number` of a fixed stream."""
        cells = [posterior.residual.shape for posterior in self._posteriors]
        n_normal = sum(rows * columns for rows, columns in cells)
        n_pairs = len(cells) * (len(cells) - 1) // 2
        choices = random_fractions(len(cells), seed=number, stream=2)
        normal = _normals(n_normal + n_pairs, number)
        columns, at = [], 0
        for posterior, choice, (rows, n_labels) in zip(self._posteriors, choices, cells, strict=True):
            part = normal[at : at + rows * n_labels].reshape(rows, n_labels)
            columns.append(posterior.drawn(float(choice), part))
            at += rows * n_labels
        return self._table(columns, n_rows, normal[at:])

    def _table(self, columns: list[ColumnEvidence], n_rows: int, errors: Floats | None) -> LatentTable:
        pi = self._pi
        scores = [_score(column) for column in columns]
        wanted = _within_labels(self._tables, pi, columns, scores, errors)
        normal = _normal_scores(max(n_rows, 8 * len(columns)), len(columns))
        latent = wanted
        for _ in range(ROUNDS):
            codes = _codes(normal, latent, columns, scores)
            latent = _corrected(latent, wanted, _achieved(codes, scores, pi))
        codes = _codes(normal, latent, columns, scores)
        n_labels, per_label = len(pi), len(normal)
        return LatentTable(
            pi=pi,
            columns=tuple(columns),
            codes=codes.reshape(n_labels * per_label, len(columns)),
            label=np.repeat(np.arange(n_labels), per_label),
            weight=np.repeat(pi / per_label, per_label),
        )


def _normals(n: int, number: int) -> Floats:
    """Independent normal numbers by Box and Muller."""
    fractions = random_fractions(2 * n, seed=number, stream=3).reshape(2, n)
    return np.asarray(np.sqrt(-2.0 * np.log(1.0 - fractions[0])) * np.cos(2.0 * np.pi * fractions[1]))


def _score(column: ColumnEvidence) -> Floats:
    """A column's codes on one axis, the main direction of their evidence: mean 0, variance 1, or all 0."""
    frequency = column.frequency
    centred = column.evidence - frequency @ column.evidence
    values, vectors = np.linalg.eigh((centred * frequency[:, None]).T @ centred)
    direction = vectors[:, -1]
    # A sign that rounding cannot turn.
    first = np.flatnonzero(np.abs(direction) > np.abs(direction).max() - 1e-9)[0]
    spread = np.sqrt(max(float(values[-1]), 0.0))
    return np.asarray(
        centred @ direction * np.sign(direction[first]) / spread if spread > 1e-9 else 0.0 * frequency
    )


def _within_labels(
    tables: PairTables,
    pi: Floats,
    columns: list[ColumnEvidence],
    scores: list[Floats],
    errors: Floats | None,
) -> Floats:
    """Correlations of the scores within a label, shrunk by their noise, positive definite.

    Args:
        tables: Where they are read.
        pi: Label frequencies.
        columns: Evidence of each column.
        scores: Of each column's codes.
        errors: A normal number per pair of columns for a draw from what is known; None for the mean.
    """
    n, n_columns = tables.n_samples, len(columns)
    means = np.array(
        [
            (column.frequency * score) @ column.probability / pi
            for column, score in zip(columns, scores, strict=True)
        ]
    )
    between = (means * pi) @ means.T - np.outer(means @ pi, means @ pi)
    spread = np.sqrt(np.maximum(1.0 - np.diag(between), 1e-3))
    found, noise = np.zeros((n_columns, n_columns)), np.zeros((n_columns, n_columns))
    for (f, g), table in tables.pair_table().items():
        left, right = scores[f] - scores[f].mean(), scores[g] - scores[g].mean()
        if not left.any() or not right.any():
            continue
        product = left @ table @ right / n
        total = product - (columns[f].frequency @ left) * (columns[g].frequency @ right)
        unit = spread[f] * spread[g]
        found[f, g] = (total - between[f, g]) / unit
        noise[f, g] = (1.0 / n + tables.pair_variance * (left @ left) * (right @ right) / n**2) / unit**2
    return _correlations(_shrunk(found, noise, errors))


def _shrunk(found: Floats, noise: Floats, errors: Floats | None) -> Floats:
    """Correlations around 0 whose spread is read from all of them: posterior means, or a draw."""
    known = noise > 0
    if not known.any():
        return found
    r, v = found[known], noise[known]
    logs = np.array([-0.5 * np.sum(np.log(v + s * s) + r * r / (v + s * s)) for s in SPREADS])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    kept = weights @ np.array([s * s / (s * s + v) for s in SPREADS])
    shrunk = np.zeros_like(found)
    shrunk[known] = r * kept
    if errors is not None:
        upper = np.zeros_like(found)
        upper[np.triu_indices(len(found), 1)] = errors
        shrunk[known] += np.sqrt(kept * v) * upper[known]
    return shrunk


def _correlations(upper: Floats) -> Floats:
    """The correlation matrix closest to an upper triangle, with no eigenvalue near 0."""
    matrix = np.clip(np.triu(upper, 1), -MAX_CORRELATION, MAX_CORRELATION)
    matrix = matrix + matrix.T + np.eye(len(matrix))
    values, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
    spread = np.sqrt(np.diag(matrix))
    return np.asarray(matrix / np.outer(spread, spread))


@lru_cache(maxsize=4)
def _normal_scores(n_rows: int, n_columns: int) -> Floats:
    """Independent normal rows, each with its negative, of covariance exactly 1; shape (n_rows, n_columns)."""
    half = -(-n_rows // 2)
    fractions = random_fractions(half * n_columns, seed=0, stream=1)
    quantile = NormalDist().inv_cdf
    drawn = np.array([quantile(float(u) + 2.0**-54) for u in fractions]).reshape(half, n_columns)
    rows = np.concatenate([drawn, -drawn])
    return np.asarray(rows @ np.linalg.inv(np.linalg.cholesky(rows.T @ rows / len(rows))).T)


def _codes(
    normal: Floats, correlations: Floats, columns: list[ColumnEvidence], scores: list[Floats]
) -> NDArray[np.int64]:
    """Codes, shape (n_labels, n_rows, n_columns): ranks of normal scores cut by p(x | y)."""
    mixed = normal @ np.linalg.cholesky(correlations).T
    place = (np.argsort(np.argsort(mixed, axis=0, kind="stable"), axis=0, kind="stable") + 0.5) / len(mixed)
    n_labels = columns[0].probability.shape[1]
    codes = np.empty((n_labels, *mixed.shape), dtype=np.int64)
    for f, (column, score) in enumerate(zip(columns, scores, strict=True)):
        order = np.argsort(score, kind="stable")
        joint = column.frequency[:, None] * column.probability
        ends = np.cumsum(joint[order], axis=0) / joint.sum(axis=0)
        for y in range(n_labels):
            cell = np.searchsorted(ends[:, y], place[:, f])
            codes[y, :, f] = order[np.minimum(cell, len(order) - 1)]
    return codes


def _achieved(codes: NDArray[np.int64], scores: list[Floats], pi: Floats) -> Floats:
    """Correlations within labels that the coded rows have."""
    total = np.zeros((len(scores), len(scores)))
    for part, of_label in zip(pi, codes, strict=True):
        rows = np.column_stack([score[of_label[:, f]] for f, score in enumerate(scores)])
        rows = rows - rows.mean(axis=0)
        spread = rows.std(axis=0)
        rows /= np.where(spread > 0, spread, 1.0)
        total += part * (rows.T @ rows) / len(rows)
    return total


def _corrected(latent: Floats, wanted: Floats, achieved: Floats) -> Floats:
    """Normal scores' correlations, stretched by what coding took."""
    clear = np.abs(achieved) > 0.02
    ratio = np.where(clear, wanted / np.where(clear, achieved, 1.0), 1.0)
    return _correlations(latent * np.clip(ratio, 0.7, 1.4))
