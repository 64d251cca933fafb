"""Search for pairs of columns that say more about the label together than apart.

A pair is judged like a column, on its joint cells, against the pool of its two columns; its prior log-odds
are -(2 + ln number of pairs), so that a search among many does not find luck. Columns without evidence of
their own are searched too: an exclusive or shows in the pair alone.

The rules depend on the rows alone:

- A pair with more than n/2 cells is left out.
- A pair stays when its leave-one-out gain passes ln number of pairs; of those the best 24.
- Gains that differ by rounding only are ties. Ties with the last of the best stay too, up to 48 pairs in all;
  a larger group of ties is cut in the order of the columns.
- Where judging every pair on every row would cost more than the budget, all pairs are first judged on a
  subset of the rows, chosen by content, and the most promising ones on all rows. The record says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.evidence.label_evidence import (
    STRENGTHS,
    LabelEvidence,
    base_log_odds,
    cell_gains,
    column_evidence,
    evidence_of,
    groups_of,
    log_odds_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.canonical_table import CanonicalTable

MAX_PAIRS = 24
"""Pairs that stay (docs/statistics.md)."""

PAIR_COST = 2.0
"""Prior log-odds against any one pair, before the number of pairs is counted."""

VISITS = 2_000_000_000
"""Items times pairs that the search may visit: several seconds on one core."""

MIN_SCREENED = 1000
"""Items on which a screening looks at least; an exclusive or of 0.05 nats shows there."""

COMPILE_ABOVE = 30_000_000
"""Visits from which compiled code pays for its compilation: about a second of NumPy."""

TASK_VISITS = 100_000_000
"""Visits of one unit of work."""

BATCH = 2**18
"""Visits that plain NumPy makes at a time: some 20 MB."""

ROOM = 2**22
"""Largest table of counts in which compiled code looks up a pair's cells."""

TIE = 1e-9
"""Relative difference of gains below which two pairs are tied."""


@dataclass(frozen=True, slots=True)
class PairSearch:
    """A record of the search.

    Args:
        n_pairs: Pairs of distinct columns with at least two codes.
        screened_on: Items on which all pairs were judged before the most promising were judged on all items;
            None when every pair was judged on all items.
        searched: Pairs of at most n/2 cells that were judged on all items.
        kept: The pairs that stay, as columns of the feature table, best first.
    """

    n_pairs: int = 0
    screened_on: int | None = None
    searched: int = 0
    kept: tuple[tuple[int, int], ...] = ()

    @property
    def remark(self) -> str | None:
        """Remark for the reader where only some pairs were judged on all rows."""
        if self.screened_on is None:
            return None
        return (
            f"{self.n_pairs:,} pairs of columns were judged on {self.screened_on:,} distinct rows, "
            f"and the {self.searched:,} most promising of them on all rows"
        )


def search_pairs(
    table: CanonicalTable,
    columns: list[LabelEvidence | None],
    base: Floats,
    *,
    visits: int = VISITS,
    execution: Execution = HERE,
) -> tuple[list[LabelEvidence], PairSearch]:
    """The evidence of the best pairs, and a record of the search.

    Args:
        table: The rows.
        columns: Evidence of each distinct column, None where it has none.
        base: Log-odds of label frequencies.
        visits: Items times pairs that may be visited.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    usable = [k for k in range(table.n_columns) if table.n_codes[k] > 1]
    narrow = np.array([k for k in usable if table.n_codes[k] <= table.n_samples / 2], dtype=np.int64)
    pairs = np.stack([narrow[side] for side in np.triu_indices(len(narrow), 1)], axis=1)
    prior = -(PAIR_COST + math.log(max(1, len(pairs))))
    screened_on = None
    if table.n_items * len(pairs) > visits:
        sample = table.first_items(max(MIN_SCREENED, visits // (2 * len(pairs))))
        if sample.n_items < table.n_items:
            screened_on = sample.n_items
            n_promising = max(4 * MAX_PAIRS, visits // (2 * table.n_items))
            pairs = _promising(sample, pairs, n_promising, execution)
    gains, n_cells = judge_pairs(table, columns, base, pairs, execution)
    wide = n_cells > table.n_samples / 2
    pairs, gains = pairs[~wide], gains[~wide]
    log_odds = log_odds_of(gains, prior)
    passed = np.flatnonzero(log_odds > -PAIR_COST)
    best = passed[_best(log_odds[passed])]
    found = []
    for at in best:
        pair = (int(pairs[at, 0]), int(pairs[at, 1]))
        groups = groups_of(table, pair)
        pool = pool_of(table, columns, base, groups.example, pair)
        fitted_pool = base_log_odds(table, left_out=0.0)[table.label[groups.example]]
        for k in pair:
            evidence = columns[k]
            if evidence is not None:
                fitted_pool = fitted_pool + evidence.fitted[evidence.groups_at(table, groups.example)]
        found.append(evidence_of(table, pair, groups, pool, fitted_pool, gains[at], prior))
    record = PairSearch(
        n_pairs=math.comb(len(usable), 2),
        screened_on=screened_on,
        searched=len(pairs),
        kept=tuple((table.members[f][0], table.members[g][0]) for f, g in pairs[best]),
    )
    return found, record


def pool_of(
    table: CanonicalTable,
    columns: list[LabelEvidence | None],
    base: Floats,
    example: NDArray[np.int64],
    pair: tuple[int, int],
) -> Floats:
    """Log-odds of the alternatives in the pool of two columns, per group (given by an item of each)."""
    pool: Floats = base[table.label[example]]
    for k in pair:
        evidence = columns[k]
        if evidence is not None:
            pool = pool + evidence.log_odds_at(table, example)
    return pool


def judge_pairs(
    table: CanonicalTable,
    columns: list[LabelEvidence | None],
    base: Floats,
    pairs: NDArray[np.int64],
    execution: Execution = HERE,
) -> tuple[Floats, NDArray[np.int64]]:
    """Gains of each strength, shape (n_pairs, 8), and the number of cells of each pair."""
    gains = np.zeros((len(pairs), len(STRENGTHS)))
    n_cells = np.zeros(len(pairs), dtype=np.int64)
    room = np.array(table.n_codes, dtype=np.int64)[pairs].prod(axis=1) * table.n_labels
    if table.n_items * len(pairs) > COMPILE_ABOVE:
        together = room <= ROOM
        gains[together], n_cells[together] = _compiled(table, columns, base, pairs[together], execution)
    else:
        together = room <= 4 * table.n_items + 1024
        size = max(1, BATCH // table.n_items)
        for batch in np.array_split(np.flatnonzero(together), -(-int(together.sum()) // size) or 1):
            gains[batch], n_cells[batch] = _batched(table, columns, base, pairs[batch])
    for k in np.flatnonzero(~together):
        pair = (int(pairs[k, 0]), int(pairs[k, 1]))
        groups = groups_of(table, pair)
        n_cells[k] = groups.n_cells
        gains[k] = cell_gains(groups, pool_of(table, columns, base, groups.example, pair))
    return gains, n_cells


def _batched(
    table: CanonicalTable,
    columns: list[LabelEvidence | None],
    base: Floats,
    pairs: NDArray[np.int64],
) -> tuple[Floats, NDArray[np.int64]]:
    """Gains and cells of pairs of few codes: their tables of counts side by side, in plain NumPy."""
    if len(pairs) == 0:
        return np.zeros((0, len(STRENGTHS))), np.zeros(0, dtype=np.int64)
    n_labels, n_codes = table.n_labels, np.array(table.n_codes, dtype=np.int64)
    sizes = n_codes[pairs].prod(axis=1)
    start = np.cumsum(sizes) - sizes
    left, right = (table.codes[side].astype(np.int64) for side in pairs.T)
    cell = start[:, None] + left * n_codes[pairs[:, 1:]] + right
    group = (cell * n_labels + table.label).ravel()
    count = np.bincount(
        group, weights=np.tile(table.count, len(pairs)), minlength=int(sizes.sum()) * n_labels
    )
    present = np.flatnonzero(count)
    example_of = np.zeros(len(count), dtype=np.int64)
    example_of[group] = np.tile(np.arange(table.n_items), len(pairs))
    example, cell_of, own = example_of[present], present // n_labels, count[present]
    total = count.reshape(-1, n_labels).sum(axis=1)
    pair_of = np.searchsorted(start, cell_of, side="right") - 1
    first = np.searchsorted(pair_of, np.arange(len(pairs)))
    pool = base[table.label[example]]
    for side in range(2):
        for k in np.unique(pairs[:, side]):
            evidence = columns[k]
            if evidence is not None:
                mine = np.flatnonzero(pairs[pair_of, side] == k)
                pool[mine] += evidence.log_odds_at(table, example[mine])
    rest = total[cell_of] - 1.0
    surplus = (own - 1.0) * (1.0 + np.exp(pool).sum(axis=1)) - rest
    each = own[:, None] * np.log1p(surplus[:, None] / (rest[:, None] + STRENGTHS))
    return np.add.reduceat(each, first), np.add.reduceat((total > 0).astype(np.int64), start)


def _compiled(
    table: CanonicalTable,
    columns: list[LabelEvidence | None],
    base: Floats,
    pairs: NDArray[np.int64],
    execution: Execution,
) -> tuple[Floats, NDArray[np.int64]]:
    from fedvalue.valuation.evidence.pair_kernel import judge

    first = np.full(table.n_columns, -1, dtype=np.int64)
    tables, size = [np.zeros((0, base.shape[1]))], 0
    for k, evidence in enumerate(columns):
        if evidence is not None:
            assert evidence.of_code is not None
            first[k] = size
            tables.append(evidence.log_odds[evidence.of_code])
            size += len(evidence.of_code)
    n_codes = np.array(table.n_codes, dtype=np.int64)
    room = int(n_codes[pairs].prod(axis=1).max(initial=1)) * table.n_labels
    size = max(1, TASK_VISITS // table.n_items)
    with engines.using(execution.executor) as pool:
        arguments = (
            *(table.codes, n_codes, table.label, table.count),
            *(first, np.concatenate(tables), base, STRENGTHS),
        )
        shared = [engines.share(pool, data) for data in arguments]
        tasks = ((pairs[at : at + size], *shared, room) for at in range(0, len(pairs), size))
        parts = []
        for part in engines.map_in_order(pool, judge, tasks):
            parts.append(part)
            execution.report(min(len(pairs), size * len(parts)), len(pairs), "pairs of columns")
    return np.concatenate([gains for gains, _ in parts]), np.concatenate([cells for _, cells in parts])


def _promising(
    sample: CanonicalTable,
    pairs: NDArray[np.int64],
    n_kept: int,
    execution: Execution,
) -> NDArray[np.int64]:
    """The pairs with the largest gains on a subset of the rows, in the order of the columns."""
    base = base_log_odds(sample)
    columns = [column_evidence(sample, k, base) for k in range(sample.n_columns)]
    gains, _ = judge_pairs(sample, columns, base, pairs, execution)
    # Rounded: a difference in the last digits must not choose.
    best = np.argsort(-np.round(log_odds_of(gains, 0.0), 9), kind="stable")[:n_kept]
    return pairs[np.sort(best)]


def _best(log_odds: Floats) -> NDArray[np.int64]:
    """Places of the best pairs, best first; ties by place."""
    order = np.argsort(-log_odds, kind="stable")
    ranked = log_odds[order]
    # Runs of values that differ by rounding only.
    run = np.cumsum(np.diff(ranked, prepend=ranked[:1]) < -TIE * np.maximum(1.0, np.abs(ranked)))
    order = order[np.lexsort((order, run))]
    if len(order) <= MAX_PAIRS:
        return order
    tied = int(np.searchsorted(run, run[MAX_PAIRS - 1], side="right"))
    return order[: min(tied, 2 * MAX_PAIRS) if tied <= 2 * MAX_PAIRS else MAX_PAIRS]
