"""Evidence of several parties' joint codes, for synergy that columns and pairs do not see.

Pairs of columns do not see the exclusive or of three. The joint-table game does, but it gives values without
predictions. So each coalition whose joint value is more than the sum of its members' values is
judged like a pair: the cells of all its columns, against the pool of all its evidence. If it passes, it is
evidence like any other, with predictions, errors and uplift.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.evidence.label_evidence import (
    LabelEvidence,
    cell_gains,
    evidence_of,
    groups_of,
    log_odds_of,
)
from fedvalue.valuation.evidence.pair_search import PAIR_COST

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.canonical_table import CanonicalTable
    from fedvalue.valuation.statistics.joint_table_game import JointTableGame

MAX_SYNERGIES = 8
"""Coalitions that are judged and may stay."""

MAX_ENUMERATED = 2**16
"""Coalitions that are considered: all of 16 parties, triples of 70, pairs beyond."""

MARGIN = 1e-9
"""Nats by which a coalition must be worth more than its parts: beyond rounding."""


def synergistic_coalitions(joint_game: JointTableGame, n_parties: int) -> tuple[list[int], int]:
    """Coalitions that the joint-table game values above the sum of their members and above all their parts.

    Returns:
        (bit masks, the largest surplus first, at most MAX_SYNERGIES; number of coalitions considered).
    """
    largest, n_judged = _enumerated(n_parties)
    found = []
    for mask in joint_game.peaks(MARGIN):
        if mask.bit_count() > largest:
            continue
        alone = sum(joint_game(1 << k) for k in range(n_parties) if mask >> k & 1)
        surplus = joint_game(mask) - alone
        if surplus > MARGIN:
            # Rounded: a difference in the last digits must not choose.
            found.append((-round(surplus, 9), mask))
    return [mask for _, mask in sorted(found)[:MAX_SYNERGIES]], n_judged


def synergy_evidence(
    table: CanonicalTable, columns: tuple[int, ...], log_odds: Floats, fitted: Floats, n_judged: int
) -> LabelEvidence | None:
    """Evidence of the joint cells of some columns; None where it does not pass.

    Args:
        table: The rows.
        columns: All columns of a coalition.
        log_odds: What the coalition's pool predicts, shape (n_labels - 1, n_items).
        fitted: The same with each row itself among those that the evidence is read from.
        n_judged: Number of coalitions among which this one was found.
    """
    groups = groups_of(table, columns)
    if groups.n_cells > table.n_samples / 2:
        return None
    pool = np.ascontiguousarray(log_odds[:, groups.example].T)
    gains = cell_gains(groups, pool)
    prior = -(PAIR_COST + math.log(max(1, n_judged)))
    if float(log_odds_of(gains, prior)) <= -PAIR_COST:
        return None
    fitted_pool = np.ascontiguousarray(fitted[:, groups.example].T)
    return evidence_of(table, columns, groups, pool, fitted_pool, gains, prior)


def _enumerated(n_parties: int) -> tuple[int, int]:
    """Size of the largest coalitions considered, and the number of coalitions of two or more parties."""
    total, size = n_parties, 1
    while size < n_parties:
        more = math.comb(n_parties, size + 1)
        if size >= 2 and total + more > MAX_ENUMERATED:
            break
        total, size = total + more, size + 1
    return size, total - n_parties
