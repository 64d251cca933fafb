"""The valuation that servers apply to their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.engines import HERE, Execution
from fedvalue.federated.valuation_parts import split
from fedvalue.information.pair_tables import PairTables
from fedvalue.protocol.outcome import Answer, Valuer
from fedvalue.valuation.settings import WORK_LIMIT

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.settings import RunTerms
    from fedvalue.valuation.settings import ValuationSettings


def make_valuer(
    settings: ValuationSettings, *, work_limit: int = WORK_LIMIT, execution: Execution = HERE
) -> Valuer:
    """The function that both servers apply to their counts, or to tables with noise.

    `work_limit` is the most samples times coalitions for which method "auto" computes exact values.
    """

    def valuer(counted: JointCounts | PairTables, run: RunTerms) -> Answer:
        if isinstance(counted, PairTables):
            from fedvalue.valuation.low_order.low_order_valuation import value_tables

            return split(value_tables(counted, settings, execution=execution), run)
        from fedvalue.valuation.engine import value_counts

        # Two servers of different size must choose the same method.
        valuation = value_counts(
            counted, settings, reproducible=True, work_limit=work_limit, execution=execution
        )
        return split(valuation, run)

    return valuer
