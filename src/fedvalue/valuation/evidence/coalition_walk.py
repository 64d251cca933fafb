"""The game of pooled evidence over every coalition: exact Shapley values."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.information.contingency import pack
from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_pool import fit_pools
from fedvalue.valuation.evidence.predictions import Predictions, score_predictions
from fedvalue.valuation.items import dense_codes
from fedvalue.valuation.shapley_indices import shapley_coefficients

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats

MAX_TASKS = 32
"""Most units of work, whatever the number of workers, so that sums do not depend on it."""

MIN_TASK_WORK = 2e8
"""Cost below which tasks are joined, about 20 ms: a fit that starts at its neighbour's answer takes half of
the steps."""


@dataclass(frozen=True, slots=True, eq=False)
class WalkedGame:
    """Values of all coalitions.

    Args:
        likelihood: Mean over the samples of ln p(y_i | i), by bit mask.
        contributions: Contribution of each item's samples to each party's Shapley value, shape (p, n_items).
        predictions: Scores of the coalitions asked for, by bit mask.
        compiled: Whether compiled passes were used.
    """

    likelihood: Floats
    contributions: Floats = field(repr=False)
    predictions: dict[int, Predictions] = field(repr=False)
    compiled: bool


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
    # Gray code: neighbours differ by one party, so each fit starts close to its answer.
    masks = np.arange(1 << p)
    masks ^= masks >> 1
    keys, place = distinct_keys(game.keys_of(game.every_inside()[masks]))
    place_of = np.empty_like(place)
    place_of[masks] = place
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
    return WalkedGame(likelihood, fits.contributions, predictions, fits.compiled)


def distinct_keys(keys: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Distinct rows in the order of their first appearance, and the place of each row among them."""
    bytes_of = np.packbits(keys, axis=1).astype(np.int64).T
    place = dense_codes(pack([np.zeros(len(keys), dtype=np.int64), *bytes_of]))
    first = np.zeros(int(place.max()) + 1, dtype=np.int64)
    first[place[::-1]] = np.arange(len(keys) - 1, -1, -1)
    return keys[first], place


def fit_keys(
    game: EvidenceGame,
    keys: NDArray[np.bool_],
    coefficients: Floats,
    scored: set[int],
    *,
    compiled: bool | None = None,
    execution: Execution = HERE,
) -> WalkedGame:
    """Fit the pools of distinct sets of evidences, in a fixed number of tasks; results by place.

    Args:
        game: The evidences.
        keys: Which evidences each pool has; see `EvidenceGame.keys_of`.
        coefficients: How each pool counts in each party's contributions.
        scored: Places of the pools whose predictions are scored.
        compiled: Whether to use compiled passes; None to let the sizes of the pools decide.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    sizes = keys.sum(axis=1)
    costs = game.work(sizes)
    if compiled is None:
        compiled = game.compiles(sizes)
    cuts, places = _cuts(costs), sorted(scored)
    sums: list[Floats] = []
    contributions = np.zeros((coefficients.shape[1], game.arrays.n_items))
    scores: list[Predictions] = []
    with engines.using(execution.executor) as pool:
        shared = engines.share(pool, game)
        tasks = (
            (
                shared,
                keys[low:high],
                coefficients[low:high],
                [k - low for k in places if low <= k < high],
                compiled,
            )
            for low, high in pairwise(cuts)
        )
        for part_sums, part_contributions, part_scores in engines.map_in_order(pool, fit_coalitions, tasks):
            sums.append(part_sums)
            contributions += part_contributions
            scores += part_scores
            execution.report(costs[: cuts[len(sums)]].sum(), costs.sum(), "learnable values")
    predictions = dict(zip(places, scores, strict=True))
    return WalkedGame(np.concatenate(sums) / game.n_samples, contributions, predictions, compiled)


def fit_coalitions(
    game: EvidenceGame, keys: NDArray[np.bool_], coefficients: Floats, scored: list[int], compiled: bool
) -> tuple[Floats, Floats, list[Predictions]]:
    """Fit some pools and score the predictions of those at places `scored`; one unit of work for a worker.

    Returns:
        The sums and contributions of `fit_pools`, and the scores.
    """
    fits = fit_pools(game.arrays, keys, coefficients, scored, n_samples=game.n_samples, compiled=compiled)
    kept = zip(fits.weights, fits.likelihood, strict=True)
    return fits.sums, fits.contributions, [score_predictions(game.arrays, *fit) for fit in kept]


def _cuts(costs: Floats) -> list[int]:
    """Where to cut a list of costs into parts of about equal cost, by the costs alone."""
    ends = np.cumsum(costs)
    n_tasks = min(MAX_TASKS, max(1, int(ends[-1] / MIN_TASK_WORK)))
    wanted = ends[-1] * np.arange(1, n_tasks) / n_tasks
    inner = np.searchsorted(ends, wanted) + 1
    return sorted({0, len(costs), *(int(at) for at in inner if at < len(costs))})
