"""Evidence about the label: from one column, or from one pair of columns (value of a cell against its pool).

Row i is predicted from the others. Its cell holds N(y) samples with label y, itself removed; the *pool* q is
what was known without the cell (label frequencies for a column; both columns' evidence for a
pair):

    p_a(y) = (N(y) - [y = y_i] + a q(y)) / (N - 1 + a),    a = 1/2, 1, 2, ..., 64,

averaged over the strengths a and over "ignore the cell" by their leave-one-out likelihoods. The
evidence is ln p(y) - ln q(y). Rows with the same cell and label have the same evidence, so it is kept per
*group* (cell, label), as log-odds of each alternative label against the row's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.information.contingency import pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.evidence.canonical_table import CanonicalTable

STRENGTHS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
"""Strengths of the pool, in samples: from half a sample to a cell that needs dozens to be believed."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelEvidence:
    """What one column or pair says about each row's label.

    Args:
        columns: The distinct columns it is read from, one or two.
        index: Group of each item that pools see, shape (n_pooled,).
        log_odds: Per group the evidence for each alternative label against the row's own, shape
            (n_groups, n_labels - 1), alternatives in the order of `alternatives`.
        fitted: As `log_odds`, but read from all rows, the row itself among them: what a new row of the cell
            gets (see `row_scores`).
        total: Samples of each group's cell.
        n_samples: Of all cells.
        decides: Whether the evidence ranks rows and decides about them: not if it is more likely luck.
        of_code: Group of each code and label, by code times n_labels plus label; of one column alone.
    """

    columns: tuple[int, ...]
    index: NDArray[np.integer]
    log_odds: Floats
    fitted: Floats
    total: Floats
    n_samples: int
    decides: bool
    of_code: Codes | None = None

    def groups_at(self, table: CanonicalTable, items: Codes) -> Codes:
        """Groups of one column at some items of its table."""
        assert self.of_code is not None
        code = table.codes[self.columns[0]][items].astype(np.int64)
        return np.asarray(self.of_code[code * table.n_labels + table.label[items]])

    def log_odds_at(self, table: CanonicalTable, items: Codes) -> Floats:
        """The evidence of one column at some items of its table, shape (len(items), n_labels - 1)."""
        return np.asarray(self.log_odds[self.groups_at(table, items)])


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Rows of one cell and label, and what stands beside them in the cell.

    Args:
        index: Group of each item that pools see.
        example: One item of each group, of all items.
        number: Group of each cell and label, by cell times n_labels plus label.
        own: Samples of the group.
        other: Samples of the cell with each alternative label, shape (n_groups, n_labels - 1).
        total: Samples of the cell.
        cell: Cell of each group.
        n_cells: Number of cells.
    """

    index: NDArray[np.integer]
    example: Codes
    number: Codes
    own: Floats
    other: Floats
    total: Floats
    cell: Codes
    n_cells: int


def alternatives(n_labels: int) -> NDArray[np.int64]:
    """The other labels of each label, shape (n_labels, n_labels - 1)."""
    every = np.arange(n_labels)
    return np.array([every[every != y] for y in every], dtype=np.int64).reshape(n_labels, n_labels - 1)


def base_log_odds(table: CanonicalTable, left_out: float = 1.0) -> Floats:
    """Log-odds of label frequencies, shape (n_labels, n_labels - 1).

    Args:
        table: The rows.
        left_out: 1 without the row itself, 0 with it.
    """
    frequency = np.bincount(table.label, weights=table.count)
    other = frequency[alternatives(table.n_labels)]
    return np.asarray(np.log(other + 0.5) - np.log(frequency + 0.5 - left_out)[:, None])


def groups_of(table: CanonicalTable, columns: tuple[int, ...]) -> Groups:
    """The groups (cell, label) of one or two columns."""
    cell, n_cells = cells_of(table, columns)
    key = cell * table.n_labels + table.label
    count = np.bincount(key, weights=table.count, minlength=n_cells * table.n_labels)
    present = np.flatnonzero(count)
    number = np.zeros(len(count), dtype=np.int64)
    number[present] = np.arange(len(present))
    narrow = np.uint16 if len(present) <= 2**16 else np.uint32
    index = number.astype(narrow)[key[: table.n_pooled]]
    example = np.empty(len(count), dtype=np.int64)
    example[key] = np.arange(table.n_items)
    cell_of, own_of = np.divmod(present, table.n_labels)
    by_cell = count.reshape(n_cells, table.n_labels)
    others = alternatives(table.n_labels)[own_of]
    return Groups(
        index=index,
        example=example[present],
        number=number,
        own=np.asarray(count[present], dtype=np.float64),
        other=np.asarray(by_cell[cell_of[:, None], others], dtype=np.float64),
        total=by_cell.sum(axis=1)[cell_of],
        cell=cell_of,
        n_cells=n_cells,
    )


def cells_of(table: CanonicalTable, columns: tuple[int, ...]) -> tuple[Codes, int]:
    """Cell of each item and the number of cells that occur."""
    chosen = [table.codes[k].astype(np.int64) for k in columns]
    if len(chosen) == 1:
        return chosen[0], table.n_codes[columns[0]]
    cell = pack(chosen)
    return cell, int(cell.max()) + 1


def cell_gains(groups: Groups, pool: Floats) -> Floats:
    """Leave-one-out log-likelihood gained by each strength, shape (8,).

    Args:
        groups: The cells.
        pool: Log-odds of each alternative against the group's own label without the cell.
    """
    left = groups.total - 1.0
    surplus = (groups.own - 1.0) * (1.0 + np.exp(pool).sum(axis=1)) - left
    return np.array([float(np.sum(groups.own * np.log1p(surplus / (left + a)))) for a in STRENGTHS])


def posterior(gains: Floats, prior_log_odds: float) -> tuple[Floats, float]:
    """Weights of the strengths, and the weight of "ignore the cell"."""
    scores = gains - math.log(len(STRENGTHS)) + prior_log_odds
    top = max(0.0, float(scores.max()))
    weights, ignore = np.exp(scores - top), math.exp(-top)
    total = float(weights.sum()) + ignore
    return weights / total, ignore / total


def log_odds_of(gains: Floats, prior_log_odds: float) -> Floats:
    """Log-odds against ignoring the cells, from gains of shape (..., 8)."""
    top = gains.max(axis=-1)
    mean = np.exp(gains - top[..., None]).mean(axis=-1)
    return np.asarray(prior_log_odds + top + np.log(mean))


def cell_log_odds(
    groups: Groups, pool: Floats, gains: Floats, prior_log_odds: float = 0.0, left_out: float = 1.0
) -> Floats:
    """The evidence of each group, shape (n_groups, n_labels - 1).

    Args:
        groups: The cells.
        pool: As in `cell_gains`, with or without the row itself as `left_out` says.
        gains: What `cell_gains` says.
        prior_log_odds: Of the evidence.
        left_out: 1 without the row itself (a cell with a single sample gives exactly none), 0 with it.
    """
    weights, ignore = posterior(gains, prior_log_odds)
    left = groups.total - left_out
    share = np.zeros_like(left)
    kept = np.full_like(left, ignore)
    for weight, a in zip(weights, STRENGTHS, strict=True):
        share += weight / (left + a)
        kept += weight * a / (left + a)
    z = 1.0 + np.exp(pool).sum(axis=1)
    # p / q = ignore + sum of weights (N / q + a) / (N - 1 + a): positive terms only, for precision.
    own = np.log((groups.own - left_out) * z * share + kept)
    other = np.log(groups.other * np.exp(-pool) * (z * share)[:, None] + kept[:, None])
    evidence = other - own[:, None]
    evidence[left == 0.0] = 0.0
    return np.asarray(evidence)


def column_evidence(table: CanonicalTable, column: int, base: Floats) -> LabelEvidence | None:
    """Evidence of one column; None where there is none at all.

    A column that is exactly independent of the label, by whole numbers, has none, and neither has one whose
    codes occur once each.
    """
    groups = groups_of(table, (column,))
    if _independent(groups, table):
        return None
    own = table.label[groups.example]
    pool, fitted_pool = base[own], base_log_odds(table, left_out=0.0)[own]
    gains = cell_gains(groups, pool)
    evidence = evidence_of(table, (column,), groups, pool, fitted_pool, gains, n_judged=table.n_columns)
    return evidence if evidence.log_odds.any() else None


def evidence_of(
    table: CanonicalTable,
    columns: tuple[int, ...],
    groups: Groups,
    pool: Floats,
    fitted_pool: Floats,
    gains: Floats,
    prior_log_odds: float = 0.0,
    n_judged: int = 1,
) -> LabelEvidence:
    """The evidence of judged cells.

    Args:
        table: The rows.
        columns: That the cells are of.
        groups: The cells.
        pool: As in `cell_gains`.
        fitted_pool: The same with the row itself.
        gains: What `cell_gains` says.
        prior_log_odds: Of the evidence.
        n_judged: Among how many the evidence must not be luck to rank rows.
    """
    log_odds = cell_log_odds(groups, pool, gains, prior_log_odds)
    fitted = cell_log_odds(groups, fitted_pool, gains, prior_log_odds, left_out=0.0)
    return LabelEvidence(
        columns,
        groups.index,
        log_odds,
        fitted,
        groups.total,
        table.n_samples,
        # Evidence that is more likely luck than not must not rank rows that are otherwise equal.
        decides=float(log_odds_of(gains, prior_log_odds)) > math.log(n_judged),
        of_code=groups.number if len(columns) == 1 else None,
    )


def _independent(groups: Groups, table: CanonicalTable) -> bool:
    """Whether N(x, y) n = N(x) N(y) in every cell, in whole numbers."""
    frequency = np.bincount(table.label, weights=table.count).astype(np.int64)
    if len(groups.own) != groups.n_cells * table.n_labels:
        return False
    joint = groups.own.astype(np.int64) * table.n_samples
    product = groups.total.astype(np.int64) * frequency[table.label[groups.example]]
    return bool(np.array_equal(joint, product))
