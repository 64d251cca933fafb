"""Learnable values by pooled evidence: Shapley values, interactions, errors and uplift.

- Exact over all coalitions where that is affordable, else along random orders of the parties.
- The choice depends on sizes alone, not on the clock, so that every holder of the same rows makes the same
  one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.engines import HERE, Execution
from fedvalue.valuation.evidence.coalition_walk import distinct_keys, fit_keys, walk_coalitions
from fedvalue.valuation.evidence.evidence_game import MAX_ITEMS, EvidenceGame, fit_evidences
from fedvalue.valuation.evidence.evidence_pool import PRIOR_WEIGHT
from fedvalue.valuation.evidence.joining_order import joining_order
from fedvalue.valuation.evidence.order_sampling import (
    Larger,
    SampledGame,
    pair_means,
    sample_orders,
    sampling_error,
)
from fedvalue.valuation.evidence.pair_search import VISITS, PairSearch
from fedvalue.valuation.evidence.predictions import CALIBRATION, calibrated, row_covariance
from fedvalue.valuation.evidence.uplift import Uplift, uplift_of
from fedvalue.valuation.shapley_indices import (
    fitted_interactions,
    interactions_of,
    shapley_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.feature_table import FeatureTable
    from fedvalue.valuation.evidence.predictions import Predictions
    from fedvalue.valuation.statistics.joint_table_game import JointTableGame

MAX_PARTIES_EXACT = 16
"""Up to here every coalition may be fitted."""

MAX_PARTIES_LISTED = 12
"""Up to here a result carries the value of every coalition."""

AFFORDABLE = 1e12
"""Predicted work (see `EvidenceGame.work`) up to which every coalition is fitted: minutes on one core."""

SCORED_ROWS = 2_000_000
"""Sets of parties times items up to which the predictions of every set are scored: memory of 64 MB."""

MAX_PARTIES_SCORED = 6
"""Up to here they may be: 64 sets."""

ORDER_WORK = 3e11
"""Predicted work up to which an order of joining is sought for parties too many to list: half a minute."""

SETS_PER_PARTY = 3
"""Sets that this values for each party, for the prediction."""


@dataclass(frozen=True, slots=True)
class EvidenceSettings:
    """How the game of pooled evidence is computed.

    Args:
        method: "exact", "sampled", or "auto": exact when the predicted work is affordable.
        precision: Sampling stops when the largest standard error is at most this fraction of the total.
        max_orders: The most orders that sampling walks.
        seed: Of the sampled orders.
        pair_visits: Items times pairs of columns that the search for pairs may visit.
        max_items: Distinct rows that the pools of coalitions see at most.
        every_set: Whether to score the predictions of every set of parties, where there are few.
        order: Whether to seek an order of joining, where there are too many parties to list all coalitions.
            Among copies of one another it is arbitrary, so two servers could find different ones.
    """

    method: str = "auto"
    precision: float = 0.01
    max_orders: int = 2000
    seed: int = 0
    pair_visits: int = VISITS
    max_items: int = MAX_ITEMS
    every_set: bool = False
    order: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceValues:
    """Learnable values of all parties, in nats per row.

    Args:
        parties: Names, in the order of all arrays.
        values: Shapley value of each party.
        total: v(all); the values sum to it.
        se: Standard error of each value that comes from having these rows and no more, calibrated.
        se_total: The same of the total.
        covariance: Covariance of the values from row-wise contributions, shape (p, p), not calibrated: `se`
            is `calibrated` from its diagonal.
        se_sampling: Standard error of each value from sampled orders; zeros when exact.
        interactions: Shapley interaction index of each pair, shape (p, p). When sampled, of the game with
            interactions of pairs only that fits the sampled coalitions best.
        coalition_values: v by bit mask (party k is bit k): of every coalition up to 12 parties when exact;
            else of nobody, everybody, each party alone and all but one.
        joining: Places of the parties in a good order of joining, each with the value of all parties up to
            it; empty where all coalitions are listed or it was not sought.
        uplift: Gain of the parties in the buyer's metrics.
        method: "exact" or "sampled".
        n_orders: Orders walked; 0 when exact.
        pair_search: Record of the search for pairs of columns.
        synergies: Sets of parties whose joint codes say more than their columns and pairs.
        n_samples: Number of samples in the pools.
        row_sample: Remark for the reader where these are not all samples.
    """

    parties: tuple[str, ...]
    values: Floats
    total: float
    se: Floats
    se_total: float
    covariance: Floats = field(repr=False)
    se_sampling: Floats = field(repr=False)
    interactions: Floats = field(repr=False)
    coalition_values: Mapping[int, float] = field(repr=False)
    uplift: Uplift = field(repr=False)
    method: str
    n_orders: int
    pair_search: PairSearch
    synergies: tuple[tuple[str, ...], ...]
    n_samples: int
    joining: tuple[tuple[int, float], ...] = ()
    row_sample: str | None = None

    @property
    def every_coalition(self) -> Floats | None:
        """The values of all 2^p coalitions by bit mask, where the result has them."""
        size = 1 << len(self.parties)
        if len(self.coalition_values) < size:
            return None
        return np.array([self.coalition_values[mask] for mask in range(size)])


def evidence_values(
    table: FeatureTable,
    settings: EvidenceSettings | None = None,
    *,
    joint_game: JointTableGame | None = None,
    execution: Execution = HERE,
) -> EvidenceValues:
    """Learnable values of all parties by pooled evidence.

    Args:
        table: The rows.
        settings: How to compute; the defaults when None.
        joint_game: The joint-table game of the same parties. It is used twice: where it values a coalition
            above the sum of its members, their joint codes become evidence (see `synergy`); and each
            coalition counts with the larger of the two values. So the result is at least the other game; it
            is monotone wherever the other game is monotone and the larger one. Errors and uplift are those of
            pooled evidence, synergies included.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    settings = settings or EvidenceSettings()
    game = EvidenceGame.of(
        table,
        joint_game=joint_game,
        pair_visits=settings.pair_visits,
        max_items=settings.max_items,
        execution=execution,
    )
    del table  # the game has what it needs of it
    return game_values(game, settings, joint_game=joint_game, execution=execution)


def game_values(
    game: EvidenceGame,
    settings: EvidenceSettings,
    *,
    joint_game: JointTableGame | None = None,
    execution: Execution = HERE,
) -> EvidenceValues:
    """Learnable values of a game of pooled evidence, wherever its rows came from; see `evidence_values`."""

    def larger(inside: NDArray[np.bool_], values: Floats) -> Floats:
        if joint_game is None:
            return values
        return np.where(inside.any(axis=1), np.maximum(values, joint_game.of(inside)), values)

    if _is_exact(game, settings.method):
        return _exact(game, settings, larger, execution)
    return _sampled(game, settings, larger, execution)


def _is_exact(game: EvidenceGame, method: str) -> bool:
    if method != "auto":
        return method == "exact"
    if game.n_parties > MAX_PARTIES_EXACT:
        return False
    sizes = game.keys_of(game.every_inside()).sum(axis=1)
    return float(game.work(sizes).sum()) <= AFFORDABLE


def _exact(
    game: EvidenceGame,
    settings: EvidenceSettings,
    larger: Larger,
    execution: Execution,
) -> EvidenceValues:
    p = game.n_parties
    few = p <= MAX_PARTIES_SCORED and game.arrays.n_items << p <= SCORED_ROWS
    scored = range(1 << p) if settings.every_set and few else game.corners
    walk = walk_coalitions(game, scored=scored, execution=execution)
    values = larger(game.every_inside(), walk.likelihood - walk.likelihood[0])
    listed = range(1 << p) if p <= MAX_PARTIES_LISTED else game.corners
    joining: tuple[tuple[int, float], ...] = ()
    predictions = walk.predictions
    if settings.order and p > MAX_PARTIES_LISTED:
        joining = joining_order(p, lambda mask: float(values[mask]), {})
        predictions |= _scored_chain(game, joining, walk.compiled, execution.quiet)
    return _results(
        game,
        walk.contributions,
        predictions,
        values=shapley_of(values),
        total=float(values[-1]),
        se_sampling=np.zeros(p),
        interactions=interactions_of(values),
        coalition_values={mask: float(values[mask]) for mask in listed},
        joining=joining,
        method="exact",
        n_orders=0,
    )


def _sampled(
    game: EvidenceGame,
    settings: EvidenceSettings,
    larger: Larger,
    execution: Execution,
) -> EvidenceValues:
    sample = sample_orders(
        game,
        larger,
        precision=settings.precision,
        max_orders=settings.max_orders,
        seed=settings.seed,
        execution=execution,
    )
    marginals = pair_means(sample.orders, sample.values)
    joining = _joining(game, settings, larger, sample, execution)
    predictions = sample.predictions | _scored_chain(game, joining, sample.compiled, execution.quiet)
    return _results(
        game,
        sample.contributions,
        predictions,
        values=marginals.mean(axis=0),
        total=sample.corners[(1 << game.n_parties) - 1],
        se_sampling=sampling_error(marginals),
        interactions=fitted_interactions(sample.orders, sample.values),
        coalition_values=sample.corners,
        joining=joining,
        method="sampled",
        n_orders=len(sample.orders),
    )


def _results(
    game: EvidenceGame, contributions: Floats, predictions: dict[int, Predictions], **solved: Any
) -> EvidenceValues:
    """The values of a solved game, with what follows from the game and its rows."""
    covariance = row_covariance(contributions, game.arrays.count)
    return EvidenceValues(
        parties=game.parties,
        se=calibrated(np.diag(covariance), game.n_samples, game.n_columns),
        se_total=float(calibrated(covariance.sum(), game.n_samples, game.n_columns.sum())),
        covariance=covariance,
        uplift=uplift_of(game.parties, predictions, game.arrays.count, game.n_columns),
        pair_search=game.pair_search,
        synergies=game.names_of(game.synergies),
        n_samples=game.n_samples,
        row_sample=_row_sample(game, float(covariance.sum())),
        **solved,
    )


def _row_sample(game: EvidenceGame, variance: float) -> str | None:
    """Remark where pools see only some of the rows; `variance` is that of the total."""
    if game.n_rows is None:
        return None
    error = CALIBRATION * math.sqrt(variance * (1.0 - game.n_samples / game.n_rows))
    return (
        f"evidence of all {game.n_rows:,} rows, pooled and scored on {game.n_samples:,} of them, chosen by "
        f"content: a standard error of {error:.1g} nats of the total, which the intervals contain"
    )


def _joining(
    game: EvidenceGame,
    settings: EvidenceSettings,
    larger: Larger,
    sample: SampledGame,
    execution: Execution,
) -> tuple[tuple[int, float], ...]:
    """An order of joining by the game itself, where it is asked for and affordable."""
    p = game.n_parties
    size = np.array([len(game.evidences_of((1 << p) - 1))])
    if not settings.order or SETS_PER_PARTY * p * float(game.work(size)[0]) > ORDER_WORK:
        return ()
    start = np.full(game.arrays.n_evidences, PRIOR_WEIGHT)
    known: dict[tuple[int, ...], float] = {}

    def likelihood(mask: int) -> float:
        key = game.evidences_of(mask)
        if key not in known:
            fit = fit_evidences(game, key, start, compiled=sample.compiled)
            known[key] = float(np.sum(game.arrays.count * fit.log_likelihood) / game.n_samples)
        return known[key]

    nobody, done = likelihood(0), 0

    def value(mask: int) -> float:
        nonlocal done
        done += 1
        execution.report(min(done, 2 * p), SETS_PER_PARTY * p, "order of joining")
        return float(larger(game.inside([mask]), np.array([likelihood(mask) - nobody]))[0])

    return joining_order(p, value, sample.corners)


def _scored_chain(
    game: EvidenceGame, joining: tuple[tuple[int, float], ...], compiled: bool, execution: Execution
) -> dict[int, Predictions]:
    """Scores of the sets along an order of joining, by bit mask."""
    masks = list(accumulate((1 << k for k, _ in joining), initial=0))[2:-2]
    if not masks or len(masks) * game.arrays.n_items > 4 * SCORED_ROWS:
        return {}
    keys, place = distinct_keys(game.keys_of(game.inside(masks)))
    fits = fit_keys(
        game, keys, np.zeros((len(keys), 0)), set(range(len(keys))), compiled=compiled, execution=execution
    )
    return {mask: fits.predictions[at] for mask, at in zip(masks, place.tolist(), strict=True)}
