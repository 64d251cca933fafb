"""The game of pooled evidence along random orders of the parties: Shapley values with a sampling error.

- Each order is walked forwards and backwards, as in `permutations.sampling`; the standard error comes from
  the variance of the means of the two.
- Units of work and the place where sampling stops depend on the rows and the settings alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.evidence.coalition_walk import WalkedGame, distinct_keys, fit_keys
from fedvalue.valuation.evidence.evidence_game import EvidenceGame
from fedvalue.valuation.evidence.evidence_pool import fit_pools
from fedvalue.valuation.frozen_random import random_orders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.predictions import Predictions

Larger = Callable[["NDArray[np.bool_]", "Floats"], "Floats"]
"""From coalitions, as whether each has each party, and their values to the values that count."""

MIN_PAIRS = 12
"""Fewest pairs of orders whose standard error is trusted."""

TASK_WORK = 5e9
"""Predicted work of one unit (see `EvidenceGame.work`): about half a second."""

KEPT_BYTES = 2**28
"""Memory for the rows of coalitions that many orders share: nobody, everybody, all but one, one alone."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownFits:
    """Coalitions that are fitted once, before the orders are walked.

    Args:
        keys: Their evidences, shape (n_known, n_evidences).
        likelihood: ln p(y_i | i), shape (n_known, n_items).
    """

    keys: NDArray[np.bool_] = field(repr=False)
    likelihood: Floats = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class OrderWalk:
    """The values along some orders.

    Args:
        likelihood: Mean of ln p(y_i | i) after each step, shape (n_orders, p + 1).
        contributions: Sum over the orders of each item's contribution to each party, shape (p, n_items).
    """

    likelihood: Floats
    contributions: Floats = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class SampledGame:
    """Values of sampled coalitions.

    Args:
        orders: The orders walked; the reverse of each follows it.
        values: v of the first 0 .. p parties of each order, shape (n_orders, p + 1).
        contributions: Mean contribution of each item's samples to each party, shape (p, n_items).
        corners: v of nobody, everybody, each party alone and all but one, by bit mask.
        predictions: Scores of the same, by bit mask.
        compiled: Whether compiled passes were used.
    """

    orders: tuple[tuple[int, ...], ...]
    values: Floats
    contributions: Floats = field(repr=False)
    corners: dict[int, float]
    predictions: dict[int, Predictions] = field(repr=False)
    compiled: bool


def sample_orders(
    game: EvidenceGame,
    adjust: Larger,
    *,
    precision: float,
    max_orders: int,
    seed: int,
    execution: Execution = HERE,
) -> SampledGame:
    """Walk random orders until the values are precise enough.

    Args:
        game: The evidences.
        adjust: From coalitions and their values to the values that count.
        precision: Stop when the largest standard error is at most this fraction of v(all).
        max_orders: The most orders to walk.
        seed: Of the orders.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    p = game.n_parties
    sizes = np.array([len(game.evidences_of(mask)) for mask in game.corners])
    compiled = game.compiles(sizes, MIN_PAIRS)
    fits, known = _fit_corners(game, compiled, execution)
    nobody = fits.likelihood[0]
    adjusted = adjust(game.inside(game.corners), fits.likelihood - nobody)
    corners = dict(zip(game.corners, adjusted.tolist(), strict=True))
    goal = precision * abs(corners[(1 << p) - 1])
    orders: list[tuple[int, ...]] = []
    values: list[Floats] = []
    contributions = np.zeros((p, game.arrays.n_items))
    stop = execution.stop
    pair_work = 2.0 * p * float(game.work(sizes).mean())
    parts = _parts(p, seed, max_orders // 2, max(1, min(4, int(TASK_WORK / pair_work))))
    with engines.using(execution.executor) as pool, stop.offered():
        shared = engines.share(pool, game), engines.share(pool, known), compiled
        walks = engines.map_in_order(pool, walk_orders, ((*shared, part) for part in parts))
        for part, walk in zip(parts, walks, strict=False):
            adjusted = adjust(along(part), (walk.likelihood - nobody).ravel())
            values.append(adjusted.reshape(len(part), p + 1))
            orders += part
            contributions += walk.contributions
            error = float(sampling_error(pair_means(orders, np.concatenate(values))).max())
            expected = _expected(len(orders), error, goal, max_orders)
            execution.report(len(orders), expected, "orders of parties")
            if stop.asked or (len(orders) >= 2 * MIN_PAIRS and error <= goal):
                break
    return SampledGame(
        orders=tuple(orders),
        values=np.concatenate(values),
        contributions=contributions / len(orders),
        corners=corners,
        predictions=fits.predictions,
        compiled=compiled,
    )


def walk_orders(
    game: EvidenceGame, known: KnownFits, compiled: bool, orders: tuple[tuple[int, ...], ...]
) -> OrderWalk:
    """Fit the pools along some orders; one unit of work for a worker."""
    arrays, n, p = game.arrays, game.n_samples, game.n_parties
    sequence = np.array(orders)
    keys, place = distinct_keys(np.concatenate([known.keys, game.keys_of(along(orders))]))
    n_known = len(known.keys)
    place = place[n_known:].reshape(len(orders), p + 1)
    # What a party adds is the value after it joined minus the value before.
    coefficients = np.zeros((len(keys), p))
    np.add.at(coefficients, (place[:, 1:], sequence), 1.0)
    np.subtract.at(coefficients, (place[:, :-1], sequence), 1.0)
    fits = fit_pools(arrays, keys[n_known:], coefficients[n_known:], n_samples=n, compiled=compiled)
    for at, party in np.argwhere(coefficients[:n_known]):
        fits.contributions[party] += coefficients[at, party] * known.likelihood[at]
    known_sums = (known.likelihood * arrays.count).sum(axis=1)
    return OrderWalk(np.concatenate([known_sums, fits.sums])[place] / n, fits.contributions)


def along(orders: Sequence[Sequence[int]] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each of p parties is among the first 0 .. p of each order, shape (n_orders * (p + 1), p)."""
    position = np.argsort(np.array(orders), axis=1)
    p = position.shape[1]
    return np.asarray(position[:, None, :] < np.arange(p + 1)[:, None]).reshape(-1, p)


def pair_means(orders: list[tuple[int, ...]] | tuple[tuple[int, ...], ...], values: Floats) -> Floats:
    """What each party adds, averaged over an order and the next, its reverse; shape (n_orders / 2, p)."""
    steps = np.diff(values, axis=1)
    added = np.zeros_like(steps)
    np.put_along_axis(added, np.array(orders), steps, axis=1)
    return np.asarray(0.5 * (added[::2] + added[1::2]))


def sampling_error(marginals: Floats) -> Floats:
    """Standard error of the mean over independent rows; infinite for fewer than two."""
    if len(marginals) < 2:
        return np.full(marginals.shape[1], np.inf)
    return np.asarray(marginals.std(axis=0, ddof=1) / np.sqrt(len(marginals)))


def _fit_corners(game: EvidenceGame, compiled: bool, execution: Execution) -> tuple[WalkedGame, KnownFits]:
    """Fit nobody, everybody, each party alone and all but one.

    Returns:
        (their fits: likelihood in the order of `game.corners`, predictions by bit mask; the rows of as many
        as fit into memory, nobody's first, then the largest coalitions').
    """
    keys, place = distinct_keys(game.keys_of(game.inside(game.corners)))
    fits = fit_keys(
        game, keys, np.zeros((len(keys), 0)), set(range(len(keys))), compiled=compiled, execution=execution
    )
    by_size = sorted(range(len(keys)), key=lambda at: (at > 0, -int(keys[at].sum())))
    kept = by_size[: max(2, KEPT_BYTES // (8 * game.arrays.n_items))]
    scores = fits.predictions
    rows = np.array([-(scores[at].influence[0] + scores[at].metrics[0]) for at in kept])
    predictions = {mask: scores[at] for mask, at in zip(game.corners, place.tolist(), strict=True)}
    return (
        WalkedGame(fits.likelihood[place], fits.contributions, predictions, compiled),
        KnownFits(keys[kept], rows),
    )


def _parts(p: int, seed: int, n_pairs: int, size: int) -> list[tuple[tuple[int, ...], ...]]:
    """Units of work: some orders, each followed by its reverse."""
    forward = [tuple(order) for order in random_orders(n_pairs, p, seed=seed).tolist()]
    return [
        tuple(order for one in forward[low : low + size] for order in (one, one[::-1]))
        for low in range(0, n_pairs, size)
    ]


def _expected(done: int, error: float, goal: float, max_orders: int) -> float:
    """How many orders will be walked, by the error so far."""
    if done < 4 or goal <= 0:
        return float(max_orders)
    return float(min(max_orders, max(done * (error / goal) ** 2, 2 * MIN_PAIRS, done)))
