"""From pair tables to a result, as `valuation.engine` does from joint counts.

- Errors are the spread of the values of populations drawn from the posterior around those of the most likely
  one. They include the noise of the tables and the sampling of the rows.
- Two errors are added: of what a column can hide below its noise, and of what pairs of columns do not show.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from fedvalue.engines import HERE, Execution
from fedvalue.valuation.engine import share_of, uplift_rows
from fedvalue.valuation.evidence.coalition_walk import distinct_keys, fit_keys, walk_coalitions
from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays
from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, EvidenceValues, game_values
from fedvalue.valuation.evidence.label_evidence import LabelEvidence, alternatives
from fedvalue.valuation.evidence.order_sampling import along
from fedvalue.valuation.evidence.pair_search import PairSearch
from fedvalue.valuation.frozen_random import antithetic_orders
from fedvalue.valuation.low_order import ESTIMATOR, ESTIMATOR_VERSION
from fedvalue.valuation.low_order.latent_table import LatentPopulation, LatentTable
from fedvalue.valuation.result import PartyValue, UpliftRow, Valuation, interval_of
from fedvalue.valuation.settings import ValuationSettings
from fedvalue.valuation.shapley_indices import shapley_of

if TYPE_CHECKING:
    from fedvalue.information.pair_tables import PairLayout, PairTables
    from fedvalue.typing import Floats


DRAWS = 24
"""Populations drawn for the errors: they are known to about 15% of themselves."""

DRAW_ROWS = 512
"""Rows per label of a drawn population; it is compared with the most likely one on as many."""

MISFIT = 0.02
"""Standard error of each value, as a part of the total, from what pairs of columns do not say (measured on
populations whose label depends on columns that depend on each other in pairs)."""

ALL_COALITIONS = 6
"""Up to this many parties, errors come from all coalitions; beyond, from 8 orders and their reverses."""


def value_tables(
    tables: PairTables,
    settings: ValuationSettings | None = None,
    *,
    execution: Execution = HERE,
) -> Valuation:
    """Learnable values of all parties from one-way and two-way tables, with or without noise.

    There is no Shapley-CMI: it needs the joint table. Shares of parties whose value is below 0 are negative,
    as elsewhere. Uplift has no intervals: only the values' own errors include the noise.

    Args:
        tables: The tables.
        settings: What to compute: seed, method and whether to list coalitions.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    settings = settings or ValuationSettings()
    values = low_order_values(tables, EvidenceSettings(seed=settings.seed), execution=execution)
    parties = tuple(
        PartyValue(
            name=name,
            learnable=float(value),
            learnable_share=share_of(float(value), values.total),
            learnable_interval=interval_of(float(value), float(error)),
            se_learnable=float(sampling),
        )
        for name, value, error, sampling in zip(
            values.parties, values.values, values.se, values.se_sampling, strict=True
        )
    )
    listed = values.every_coalition if settings.coalitions else None
    return Valuation(
        parties=parties,
        n_samples=tables.n_samples,
        method=values.method,
        bins=settings.coding.bins,
        settings=settings,
        estimator=f"{ESTIMATOR}/{ESTIMATOR_VERSION}",
        learnable_total=values.total,
        learnable_total_interval=interval_of(values.total, values.se_total),
        interactions=tuple(tuple(row) for row in values.interactions.tolist()),
        coalitions=None if listed is None else {"learnable": tuple(listed.tolist())},
        uplift=tuple(_without_intervals(row) for row in uplift_rows(values.uplift)),
    )


def _without_intervals(row: UpliftRow) -> UpliftRow:
    return replace(
        row,
        log_loss_gain_interval=None,
        auc_gain_interval=None,
        ks_gain_interval=None,
        errors_avoided_interval=None,
    )


def low_order_values(
    tables: PairTables,
    settings: EvidenceSettings | None = None,
    *,
    execution: Execution = HERE,
) -> EvidenceValues:
    """Learnable values of all parties from pair tables; `se` and `se_total` include noise and sampling.

    Args:
        tables: One-way and two-way tables, with or without noise.
        settings: How the game is computed; the defaults when None.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    population = LatentPopulation(tables)
    game = _game(population.mean(), tables.layout, tables.n_samples)
    values = game_values(game, settings or EvidenceSettings(), execution=execution)
    base = _quick_values(population.mean(DRAW_ROWS), tables, execution.quiet)
    moved = np.empty((DRAWS, len(base)))
    for number in range(DRAWS):
        moved[number] = _quick_values(population.drawn(number, DRAW_ROWS), tables, execution.quiet) - base
        execution.report(number + 1, DRAWS, "errors of the learnable values")
    errors = np.sqrt((moved**2).mean(axis=0))
    total = float(np.sqrt((moved.sum(axis=1) ** 2).mean()))
    luck = np.zeros(len(base))
    for owner, own in zip(tables.layout.owner, population.luck(), strict=True):
        if owner >= 0:
            luck[owner] += own
    misfit = MISFIT * max(values.total, 0.0)
    return dataclasses.replace(
        values,
        se=np.sqrt(errors**2 + values.se_sampling**2 + luck**2 + misfit**2),
        se_total=float(np.sqrt(total**2 + np.sum(luck**2) + misfit**2)),
    )


def _game(table: LatentTable, layout: PairLayout, n_samples: int) -> EvidenceGame:
    """The game of pooled evidence on latent rows; columns without evidence take no part."""
    n_labels = len(table.pi)
    others = alternatives(n_labels)
    evidences, holders = [], []
    for k, column in enumerate(table.columns):
        if not np.abs(column.evidence).max() > 0:
            continue
        # One group per code and label: the evidence for each other label against the row's own.
        own = np.tile(np.arange(n_labels), len(column.evidence))
        each = np.repeat(column.evidence, n_labels, axis=0)
        log_odds = np.take_along_axis(each, others[own], axis=1) - np.take_along_axis(
            each, own[:, None], axis=1
        )
        groups = table.codes[:, k] * n_labels + table.label
        # Posterior means: no row of a table pulls on them.
        evidences.append(
            LabelEvidence((k,), groups, log_odds, log_odds, np.ones(len(own)), n_samples, decides=True)
        )
        owner = layout.owner[k]
        holders.append((-1 if owner < 0 else 1 << owner,))
    base = np.log(table.pi[others]) - np.log(table.pi)[:, None]
    return EvidenceGame(
        parties=layout.parties,
        arrays=EvidenceArrays.stack(evidences, base, base, table.label, table.weight * n_samples),
        holders=tuple(holders),
        pair_search=PairSearch(),
        synergies=(),
        n_samples=n_samples,
        n_labels=n_labels,
    )


def _quick_values(table: LatentTable, tables: PairTables, execution: Execution) -> Floats:
    """Shapley values, exact or along a few fixed orders: the same coalitions for every draw."""
    game = _game(table, tables.layout, tables.n_samples)
    p = game.n_parties
    if p <= ALL_COALITIONS:
        likelihood = walk_coalitions(game, execution=execution).likelihood
        return shapley_of(likelihood - likelihood[0])
    values = np.zeros(p)
    orders = antithetic_orders(8, p, seed=0)
    keys, place = distinct_keys(game.keys_of(along(orders)))
    likelihood = fit_keys(game, keys, np.zeros((len(keys), 0)), set(), execution=execution).likelihood
    for order, row in zip(orders, place.reshape(-1, p + 1), strict=True):
        values[order] += np.diff(likelihood[row]) / len(orders)
    return values
