"""The game of pooled evidence over every coalition: exact Shapley values."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.evidence.evidence_game import EvidenceGame, FitTask, fit_coalitions
from fedvalue.valuation.shapley_indices import shapley_coefficients

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.predictions import Predictions

MAX_TASKS = 32
"""Units of work. Fixed, so that sums do not depend on the number of workers."""

LEAST_WORK = 2e8
"""Cost below which tasks are joined, about 20 ms: a fit that starts at its neighbour's answer takes half of
the steps."""


@dataclass(frozen=True, slots=True, eq=False)
class WalkedGame:
    """Values of all coalitions.

    Args:
        likelihood: Mean over the samples of ln p(y_i | i), by bit mask.
        contributions: Contribution of each item's samples to each party's Shapley value, shape (p, n_items).
        predictions: Scores of the coalitions asked for, by bit mask.
    """

    likelihood: Floats
    contributions: Floats = field(repr=False)
    predictions: dict[int, Predictions] = field(repr=False)


def walk_coalitions(
    game: EvidenceGame,
    *,
    scored: Sequence[int] = (),
    execution: Execution = HERE,
) -> WalkedGame:
    """Fit the pool of every coalition.

    Coalitions with the same evidences are fitted once.

    Args:
        game: The evidences.
        scored: Bit masks of the coalitions whose predictions are scored.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    p = game.n_parties
    place: dict[tuple[int, ...], int] = {}
    place_of = np.zeros(1 << p, dtype=np.int64)
    # Gray code: neighbours differ by one party, so each fit starts close to its answer.
    for number in range(1 << p):
        mask = number ^ number >> 1
        place_of[mask] = place.setdefault(game.evidences_of(mask), len(place))
    keys = tuple(place)
    coefficients = np.zeros((len(keys), p))
    np.add.at(coefficients, place_of, shapley_coefficients(p))
    # What cancels must cancel exactly; true coefficients of 16 parties are above 1e-6.
    coefficients[np.abs(coefficients) < 1e-12] = 0.0
    fits = fit_keys(
        game,
        keys,
        coefficients,
        {int(place_of[mask]) for mask in scored},
        execution=execution,
    )
    likelihood = fits.likelihood[place_of]
    predictions = {mask: fits.predictions[int(place_of[mask])] for mask in scored}
    return WalkedGame(likelihood, fits.contributions, predictions)


def fit_keys(
    game: EvidenceGame,
    keys: Sequence[tuple[int, ...]],
    coefficients: Floats,
    scored: set[int],
    *,
    execution: Execution = HERE,
) -> WalkedGame:
    """Fit the pools of distinct sets of evidences, in a fixed number of tasks; results by place."""
    sizes = np.array([len(key) for key in keys])
    costs, compiled = game.work(sizes), game.compiles(sizes)
    tasks = []
    cuts = _cuts(costs)
    for low, high in pairwise(cuts):
        inside = frozenset(at - low for at in scored if low <= at < high)
        tasks.append(FitTask(tuple(keys[low:high]), coefficients[low:high], inside, compiled))
    sums: list[Floats] = []
    contributions = np.zeros((coefficients.shape[1], game.arrays.n_items))
    predictions: dict[int, Predictions] = {}
    with engines.using(execution.executor) as pool:
        shared = engines.share(pool, game)
        for part in engines.map_in_order(pool, fit_coalitions, ((shared, task) for task in tasks)):
            low = cuts[len(sums)]
            sums.append(part.sums)
            contributions += part.contributions
            predictions.update({low + at: scores for at, scores in part.predictions.items()})
            execution.report(costs[: cuts[len(sums)]].sum(), costs.sum(), "learnable values")
    return WalkedGame(np.concatenate(sums) / game.n_samples, contributions, predictions)


def _cuts(costs: Floats) -> list[int]:
    """Where to cut a list of costs into parts of about equal cost, by the costs alone."""
    ends = np.cumsum(costs)
    n_tasks = min(MAX_TASKS, max(1, int(ends[-1] / LEAST_WORK)))
    wanted = ends[-1] * np.arange(1, n_tasks) / n_tasks
    inner = np.searchsorted(ends, wanted) + 1
    return sorted({0, len(costs), *(int(at) for at in inner if at < len(costs))})
