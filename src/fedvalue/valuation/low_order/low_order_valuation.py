"""From pair tables to a result, as `valuation.engine` does from joint counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.valuation.engine import uplift_rows
from fedvalue.valuation.evidence.evidence_values import EvidenceSettings
from fedvalue.valuation.low_order.low_order_values import low_order_values
from fedvalue.valuation.result import Z95, PartyValue, UpliftRow, Valuation
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fedvalue.information.pair_tables import PairTables
    from fedvalue.typing import Progress


def value_tables(
    tables: PairTables,
    settings: ValuationSettings | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Valuation:
    """Learnable values of all parties from one-way and two-way tables, with or without noise.

    There is no Shapley-CMI: it needs the joint table. Shares of parties whose value is below 0 are negative,
    as elsewhere. Uplift has no intervals: only the values' own errors include the noise.

    Args:
        tables: The tables.
        settings: What to compute: seed, method and whether to list coalitions.
        executor: Where the work runs; threads of this machine when None.
        progress: Called with progress updates.
    """
    settings = settings or ValuationSettings()
    found = low_order_values(
        tables, EvidenceSettings(seed=settings.seed), executor=executor, progress=progress
    )
    values = found.values
    parties = tuple(
        PartyValue(
            name=name,
            learnable=float(value),
            learnable_share=float(value) / values.total if values.total > 0 else 0.0,
            learnable_interval=_interval(float(value), float(error)),
            se_learnable=float(sampling),
        )
        for name, value, error, sampling in zip(
            tables.layout.parties, values.values, found.se, values.se_sampling, strict=True
        )
    )
    listed = values.every_coalition if settings.coalitions else None
    return Valuation(
        parties=parties,
        n_samples=tables.n_samples,
        method=values.method,
        bins=settings.coding.bins,
        settings=settings,
        estimator=found.estimator,
        learnable_total=values.total,
        learnable_total_interval=_interval(values.total, found.se_total),
        interactions=tuple(tuple(row) for row in values.interactions.tolist()),
        coalitions=None if listed is None else {"learnable": tuple(listed.tolist())},
        uplift=tuple(_without_intervals(row) for row in uplift_rows(values.uplift)),
    )


def _interval(value: float, error: float) -> tuple[float, float]:
    return value - Z95 * error, value + Z95 * error


def _without_intervals(row: UpliftRow) -> UpliftRow:
    return replace(row, log_loss_gain_interval=None, auc_gain_interval=None, errors_avoided_interval=None)
