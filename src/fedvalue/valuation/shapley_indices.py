"""Shapley values and interactions of a game given by the values of all coalitions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats


MAX_TERMS = 1000
"""Players and pairs up to which a fit lists them: 44 players, a fraction of a second."""

TILE = 48
"""Rows of a tile: OpenBLAS multiplies tiles of this size on one thread."""

MAX_COALITIONS = 4000
"""Coalitions that a fit of more players looks at: seconds."""


def shapley_coefficients(p: int) -> Floats:
    """How v of each coalition counts in each player's Shapley value, shape (2^p, p)."""
    masks = np.arange(1 << p)
    sizes = coalition_sizes(p)
    inside = (masks[:, None] >> np.arange(p)) & 1 == 1
    joins = joining_weights(p)
    joined = np.concatenate([[0.0], joins[:-1]])
    return np.asarray(np.where(inside, joined[sizes][:, None], -joins[sizes][:, None]))


def shapley_of(game: Floats) -> Floats:
    """Shapley value of each player, shape (p,); exactly zero for a player that never adds anything."""
    p = len(game).bit_length() - 1
    sizes = coalition_sizes(p)
    weight = joining_weights(p)
    values = np.zeros(p)
    for k in range(p):
        without, joined = _with_and_without(game, k)
        values[k] = float(np.sum(weight[_with_and_without(sizes, k)[0]] * (joined - without)))
    return values


def coalition_sizes(p: int) -> NDArray[np.int64]:
    """Number of members of each coalition, by bit mask."""
    return np.bitwise_count(np.arange(1 << p, dtype=np.uint32)).astype(np.int64)


def joining_weights(p: int) -> Floats:
    """Weight s! (p - s - 1)! / p! of a coalition of size s = 0 .. p that a player joins; 0 for s = p."""
    return np.array([1.0 / (p * math.comb(p - 1, s)) if s < p else 0.0 for s in range(p + 1)])


def _with_and_without(by_mask: NDArray[Any], player: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Entries of the coalitions without a player, and of the same with the player."""
    halves = by_mask.reshape(-1, 2, 1 << player)
    return halves[:, 0], halves[:, 1]


def interactions_of(game: Floats) -> Floats:
    """Shapley interaction index of each pair of players, shape (p, p); zeros on the diagonal.

    The mean over the coalitions behind which the two may come of v(S + i + j) - v(S + i) - v(S + j) + v(S)
    (Grabisch and Roubens 1999): negative where the two say the same, positive where they need each other.
    """
    p = len(game).bit_length() - 1
    found = np.zeros((p, p))
    sizes = coalition_sizes(p)
    weight = np.array([1.0 / ((p - 1) * math.comb(p - 2, s)) if s <= p - 2 else 0.0 for s in range(p + 1)])
    masks = np.arange(1 << p)
    for j in range(p):
        for i in range(j):
            behind = masks[(masks >> i & 1 == 0) & (masks >> j & 1 == 0)]
            a, b = 1 << i, 1 << j
            second = game[behind | a | b] - game[behind | a] - game[behind | b] + game[behind]
            found[i, j] = found[j, i] = float(np.sum(weight[sizes[behind]] * second))
    return found


def fitted_interactions(orders: Sequence[Sequence[int]], values: Floats) -> Floats:
    """Interactions of pairs that fit the values along some orders best, shape (p, p).

    Least squares over the coalitions visited, each counted as often as it was, of the game
    v(S) = sum of a_i + sum of b_ij over the members and pairs of S; b is then the interaction index of every
    kind. A little ridge keeps pairs that were never separated at zero: with fewer coalitions than pairs, the
    interactions are shrunk.

    Args:
        orders: Orders of the p players.
        values: v of the first 0 .. p players of each order, shape (n_orders, p + 1).
    """
    place = np.argsort(np.array(orders), axis=1)
    p = place.shape[1]
    ridge = 1e-6 * len(place)
    if p * (p + 1) // 2 <= MAX_TERMS:
        return _fit_by_terms(place, values, ridge)
    few = max(2, MAX_COALITIONS // p)
    return _fit_by_coalitions(place[:few], values[:few], ridge)


def _fit_by_terms(place: NDArray[np.int64], values: Floats, ridge: float) -> Floats:
    """Normal equations: one unknown for each player and pair.

    A term is in the coalitions from the step at which its last member joins.
    """
    p = place.shape[1]
    first, second = np.triu_indices(p, 1)
    joined = np.concatenate([place, np.maximum(place[:, first], place[:, second])], axis=1) + 1
    joined = joined.astype(np.int32)
    latest = np.zeros((joined.shape[1], joined.shape[1]), dtype=np.int32)
    moment = np.zeros(joined.shape[1])
    for steps, row in zip(joined, values, strict=True):
        latest += np.maximum.outer(steps, steps)
        moment += np.cumsum(row[::-1])[::-1][steps]
    gram = len(joined) * (p + 1.0) - latest
    gram[np.diag_indices_from(gram)] += ridge
    found = np.zeros((p, p))
    found[first, second] = solve_by_tiles(gram, moment)[p:]
    return found + found.T


def solve_by_tiles(matrix: Floats, right: Floats) -> Floats:
    """Solve a system with a positive definite matrix by its Cholesky factor, tile by tile.

    A solver that takes the matrix as a whole spreads a few hundred rows over threads, which wait for each
    other: 32 to 80 ms of CPU time for 253 rows on two busy cores, where the tiles take 2.
    """
    lower, x = matrix.copy(), right.copy()
    tiles = [slice(at, at + TILE) for at in range(0, len(x), TILE)]
    roots = []
    for k, here in enumerate(tiles):
        root = np.linalg.inv(np.linalg.cholesky(lower[here, here]))
        roots.append(root)
        x[here] = root @ x[here]
        for i in range(k + 1, len(tiles)):
            lower[tiles[i], here] = lower[tiles[i], here] @ root.T
            x[tiles[i]] -= lower[tiles[i], here] @ x[here]
            for j in range(k + 1, i + 1):
                lower[tiles[i], tiles[j]] -= lower[tiles[i], here] @ lower[tiles[j], here].T
    for k in range(len(tiles) - 1, -1, -1):
        x[tiles[k]] = roots[k].T @ x[tiles[k]]
        for i in range(k):
            x[tiles[i]] -= lower[tiles[k], tiles[i]].T @ x[tiles[k]]
    return x


def _fit_by_coalitions(place: NDArray[np.int64], values: Floats, ridge: float) -> Floats:
    """The same fit by its dual: one unknown for each coalition, so the pairs are never listed.

    Two coalitions with c members in common have c + c (c - 1) / 2 terms in common.
    """
    p = place.shape[1]
    inside = np.concatenate([(place < step).astype(np.float64) for step in range(1, p + 1)])
    common = inside @ inside.T
    gram = common + 0.5 * common * (common - 1.0)
    gram[np.diag_indices_from(gram)] += ridge
    weight = np.linalg.solve(gram, values[:, 1:].T.ravel())
    found = (inside * weight[:, None]).T @ inside
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)
