"""The game of pooled evidence along random orders of the parties: Shapley values with a sampling error.

Each order is walked forwards and backwards: a party that comes late in one comes early in the other, so the
mean of the two varies less than two independent orders do. The standard error comes from the variance of
these means. Units of work and the place where sampling stops depend on the rows and the settings alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.valuation.evidence.coalition_walk import WalkedGame, fit_keys
from fedvalue.valuation.evidence.evidence_game import EvidenceGame, fit_evidences
from fedvalue.valuation.evidence.evidence_pool import PRIOR_WEIGHT
from fedvalue.valuation.frozen_random import random_orders

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.predictions import Predictions

FEWEST_PAIRS = 12
"""Pairs of orders before which no standard error is trusted."""

TASK_WORK = 5e9
"""Predicted work of one unit (see `EvidenceGame.work`): about half a second."""

KEPT_BYTES = 2**28
"""Room for the rows of coalitions that many orders share: nobody, everybody, all but one, one alone."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownFits:
    """Coalitions that are fitted once, before the orders are walked.

    Args:
        place: Row of each set of evidences.
        likelihood: ln p(y_i | i), shape (n_known, n_items).
    """

    place: dict[tuple[int, ...], int]
    likelihood: Floats = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class OrderWalk:
    """What a walk along some orders gives.

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
    """

    orders: tuple[tuple[int, ...], ...]
    values: Floats
    contributions: Floats = field(repr=False)
    corners: dict[int, float]
    predictions: dict[int, Predictions] = field(repr=False)


def sample_orders(
    game: EvidenceGame,
    adjust: Callable[[int, float], float],
    *,
    precision: float,
    max_orders: int,
    seed: int,
    execution: Execution = HERE,
) -> SampledGame:
    """Walk random orders until the values are precise enough.

    Args:
        game: The evidences.
        adjust: From a coalition's bit mask and value to the value that counts.
        precision: Stop when the largest standard error is at most this fraction of v(all).
        max_orders: The most orders to walk.
        seed: Of the orders.
        execution: Where the work runs, who watches it, and who may stop it.
    """
    p = game.n_parties
    fits, known = _fit_corners(game, execution)
    nobody = fits.likelihood[0]
    corners = {
        mask: adjust(mask, float(v)) for mask, v in zip(game.corners, fits.likelihood - nobody, strict=True)
    }
    goal = precision * abs(corners[(1 << p) - 1])
    orders: list[tuple[int, ...]] = []
    values: list[Floats] = []
    contributions = np.zeros((p, game.arrays.n_items))
    stop = execution.stop
    sizes = np.array([len(game.evidences_of(mask)) for mask in game.corners])
    compiled = game.compiles(sizes, FEWEST_PAIRS)
    pair_work = 2.0 * p * float(game.work(sizes).mean())
    parts = _parts(p, seed, max_orders // 2, max(1, min(4, int(TASK_WORK / pair_work))))
    with engines.using(execution.executor) as pool, stop.offered():
        shared = engines.share(pool, game), engines.share(pool, known), compiled
        walks = engines.map_in_order(pool, walk_orders, ((*shared, part) for part in parts))
        for part, walk in zip(parts, walks, strict=False):
            for order, row in zip(part, walk.likelihood - nobody, strict=True):
                masks = accumulate((1 << party for party in order), initial=0)
                values.append(np.array([adjust(mask, float(v)) for mask, v in zip(masks, row, strict=True)]))
            orders += part
            contributions += walk.contributions
            error = float(sampling_error(pair_means(orders, np.array(values))).max())
            expected = _expected(len(orders), error, goal, max_orders)
            execution.report(len(orders), expected, "orders of parties")
            if stop.asked or (len(orders) >= 2 * FEWEST_PAIRS and error <= goal):
                break
    return SampledGame(
        orders=tuple(orders),
        values=np.array(values),
        contributions=contributions / len(orders),
        corners=corners,
        predictions=fits.predictions,
    )


def walk_orders(
    game: EvidenceGame, known: KnownFits, compiled: bool, orders: tuple[tuple[int, ...], ...]
) -> OrderWalk:
    """Fit the pools along some orders; one unit of work for a worker."""
    arrays, n, p = game.arrays, game.n_samples, game.n_parties
    likelihood = np.zeros((len(orders), p + 1))
    contributions = np.zeros((p, arrays.n_items))
    start = np.full(arrays.n_evidences, PRIOR_WEIGHT)
    for k, order in enumerate(orders):
        key = game.evidences_of(0)
        rows = known.likelihood[known.place[key]]
        likelihood[k, 0] = float(np.sum(arrays.count * rows) / n)
        mask = 0
        for step, party in enumerate(order):
            mask |= 1 << party
            longer = game.evidences_of(mask)
            likelihood[k, step + 1] = likelihood[k, step]
            if longer == key:
                continue
            key, before = longer, rows
            if key in known.place:
                rows = known.likelihood[known.place[key]]
            else:
                rows = fit_evidences(game, key, start, compiled=compiled).log_likelihood
            likelihood[k, step + 1] = float(np.sum(arrays.count * rows) / n)
            contributions[party] += rows - before
    return OrderWalk(likelihood, contributions)


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


def _fit_corners(game: EvidenceGame, execution: Execution) -> tuple[WalkedGame, KnownFits]:
    """Fit nobody, everybody, each party alone and all but one.

    Returns:
        (their fits: likelihood in the order of `game.corners`, predictions by bit mask; the rows of as many
        as fit into memory, nobody's first, then the largest coalitions').
    """
    keys = tuple(dict.fromkeys(game.evidences_of(mask) for mask in game.corners))
    fits = fit_keys(game, keys, np.zeros((len(keys), 0)), set(range(len(keys))), execution=execution)
    place = {key: at for at, key in enumerate(keys)}
    places = [place[game.evidences_of(mask)] for mask in game.corners]
    by_size = sorted(range(len(keys)), key=lambda at: (at > 0, -len(keys[at])))
    kept = by_size[: max(2, KEPT_BYTES // (8 * game.arrays.n_items))]
    scores = fits.predictions
    rows = np.array([-(scores[at].influence[0] + scores[at].metrics[0]) for at in kept])
    return (
        WalkedGame(
            fits.likelihood[places],
            fits.contributions,
            {mask: scores[at] for mask, at in zip(game.corners, places, strict=True)},
        ),
        KnownFits({keys[at]: row for row, at in enumerate(kept)}, rows),
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
    return float(min(max_orders, max(done * (error / goal) ** 2, 2 * FEWEST_PAIRS, done)))
