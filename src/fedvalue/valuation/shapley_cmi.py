"""Shapley-CMI of an item table, and the choice of its method.

- Every coalition of a small table, or of few parties, is counted.
- Otherwise exact values come from all coalitions (`cubes`) or from all distinct blocks (`walk`), whichever is
  cheaper, where that is affordable, and from sampled permutations where it is not.
- A reproducible valuation decides by the sizes of the table alone, so that another machine with the same
  table makes the same choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.entropies import CmiValues, coalition_entropies, conditional_label_entropy, is_small
from fedvalue.valuation.settings import WORK_LIMIT
from fedvalue.valuation.shapley_indices import shapley_of

if TYPE_CHECKING:
    from fedvalue.valuation.cubes.cube_sum import CubeSum
    from fedvalue.valuation.items import ItemTable
    from fedvalue.valuation.settings import ValuationSettings
    from fedvalue.valuation.walk.exact import ExactWalk

AFFORDABLE_SECONDS = 60.0
"""`method="auto"` computes exact values when they are predicted to take no longer than this."""

QUICK_SECONDS = 1.0
"""A sum over all coalitions that should be done by then is taken: predicting the walk takes as long."""

AUTO_PRECISION = 0.001
"""Where `method="auto"` samples, it stops when every standard error is at most this part of the total."""

COUNTED_PARTIES = 8
"""Up to here the items of every coalition may be counted one coalition after the other."""

COUNTED_VISITS = 2**30
"""Items times coalitions up to which that is done: a minute or so on one core. With few parties the walk has
little to share between coalitions: a million distinct rows of 6 parties took it ten times as long."""

_SMALL = "few parties and items: every coalition was counted"
_FEW = "few parties: every coalition was counted"


def shapley_cmi(
    items: ItemTable,
    settings: ValuationSettings,
    *,
    reproducible: bool = False,
    work_limit: int = WORK_LIMIT,
    execution: Execution = HERE,
) -> tuple[CmiValues, str]:
    """Shapley-CMI of every data party, and why it was computed by this method.

    Args:
        items: The items.
        settings: Method, permutations, precision, seed and time limit.
        reproducible: Decide by sizes alone, not by a prediction or a clock.
        work_limit: Most items times coalitions for which a reproducible "auto" computes exact values.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    if settings.method == "sampled":
        return _sampled(items, settings, "as asked for", execution)
    small = is_small(items)
    if small or _is_counted(items, settings, work_limit if reproducible else COUNTED_VISITS):
        reason = "as asked for" if settings.method == "exact" else _SMALL if small else _FEW
        return small_values(items) if small else _counted_values(items, execution), reason
    if reproducible and settings.method == "auto":
        visits = items.n_items * 2.0**items.n_parties
        if visits > work_limit:
            reason = f"up to {visits:.2g} visits of items, above the work limit of {work_limit:.2g}"
            return _sampled(items, settings, reason, execution)
        reason = f"at most {visits:.2g} visits of items, within the work limit of {work_limit:.2g}"
    elif settings.method == "exact":
        reason = "as asked for"
    else:
        reason = ""
    exact = _exact(items, settings.time_limit)
    if not reason:
        seconds = exact.predicted_seconds(engines.n_workers(execution.executor))
        reason = f"exact values are predicted to take {_about(seconds)}"
        if settings.time_limit is None and seconds > AFFORDABLE_SECONDS:
            reason += f", more than the {AFFORDABLE_SECONDS:.0f} s that auto allows"
            return _sampled(items, settings, reason, execution)
    values = exact.run(execution)
    if values is None:
        when = "by hand" if execution.stop.asked else f"after {settings.time_limit:g} s"
        reason = f"exact values were stopped {when}, so permutations were sampled"
        return _sampled(items, settings, reason, execution)
    return values, reason


def _exact(items: ItemTable, time_limit: float | None) -> CubeSum | ExactWalk:
    """The cheaper way to exact values on one core. No clock decides: the last bits depend on the way."""
    from fedvalue.valuation.cubes.cube_sum import CubeSum
    from fedvalue.valuation.walk.exact import ExactWalk

    cubes = CubeSum.of(items, time_limit=time_limit)
    if cubes is not None and cubes.predicted_seconds() <= QUICK_SECONDS:
        return cubes
    walk = ExactWalk(items, time_limit=time_limit)
    if cubes is not None and cubes.predicted_seconds() <= walk.rough_seconds():
        return cubes
    return walk


def small_values(items: ItemTable) -> CmiValues:
    """Exact values of a small table."""
    entropy = coalition_entropies(items)
    return CmiValues.of(items, shapley_of(entropy[0] - entropy))


def _is_counted(items: ItemTable, settings: ValuationSettings, most_visits: int) -> bool:
    """Whether every coalition is counted by compiled code: decided by sizes, the same on every machine.

    A time limit asks for work that can be stopped.
    """
    visits = items.n_items << min(items.n_parties, COUNTED_PARTIES)
    few = items.n_parties <= COUNTED_PARTIES and visits <= min(COUNTED_VISITS, most_visits)
    return few and settings.time_limit is None


def _counted_values(items: ItemTable, execution: Execution) -> CmiValues:
    """Exact values of a table of few parties."""
    from fedvalue.valuation.statistics.joint_table_game import plug_in_game

    game = plug_in_game(items, execution=execution)
    values = shapley_of(game)
    whole = conditional_label_entropy(items, items.codes[-1].astype(np.int64))
    return CmiValues(values, float(game[-1]), whole, np.zeros_like(values), game=game)


def _sampled(
    items: ItemTable,
    settings: ValuationSettings,
    reason: str,
    execution: Execution,
) -> tuple[CmiValues, str]:
    from fedvalue.valuation.permutations.sampling import sampled_values

    auto = settings.method == "auto" and settings.precision is None
    stopped_before = execution.stop.asked
    sampled = sampled_values(
        items,
        n_permutations=settings.n_permutations,
        seed=settings.seed,
        precision=AUTO_PRECISION if auto else settings.precision,
        execution=execution,
    )
    if execution.stop.asked and not stopped_before:
        reason += "; stopped by hand"
    return sampled, reason


def _about(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    for size, unit in ((86400 * 365.0, "years"), (86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"about {seconds / size:,.0f} {unit}"
    return f"about {seconds:.0f} s"
