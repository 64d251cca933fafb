"""Populations whose values are known: the ground truth of the study.

A world is a joint distribution of X_t, the informative parties' codes and Y, small enough to write down.
Its Shapley values follow from the definition, by summing over the distribution and over all
coalitions; no code of the package is involved. Samples are drawn from it, with useless parties beside.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fedvalue.information.contingency import JointCounts


@dataclass(frozen=True)
class World:
    """p(x_t, x_1, ..., x_k, y) as an array; the first axis is X_t, the last one Y."""

    name: str
    joint: np.ndarray

    @property
    def n_informative(self) -> int:
        return self.joint.ndim - 2

    @property
    def n_cells(self) -> int:
        return self.joint.size

    def truth(self) -> np.ndarray:
        """The Shapley-CMI of each informative party in the population."""
        k = self.n_informative
        players = range(k)
        phi = np.zeros(k)
        for d in players:
            rest = [j for j in players if j != d]
            for size in range(k):
                weight = math.factorial(size) * math.factorial(k - size - 1) / math.factorial(k)
                for S in itertools.combinations(rest, size):
                    phi[d] += weight * (self._entropy(S) - self._entropy((*S, d)))
        return phi

    def _entropy(self, S) -> float:
        """H(Y | X_t, X_S)."""
        away = tuple(j + 1 for j in range(self.n_informative) if j not in S)
        table = self.joint.sum(axis=away).reshape(-1, self.joint.shape[-1])
        row = table.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(table > 0, table * np.log(table / row), 0.0)
        return -float(terms.sum())

    def draw(self, n: int, seed: int, useless=(), row_id: bool = False) -> JointCounts:
        """n samples; useless parties with the given numbers of codes, and one that sends row numbers."""
        rng = np.random.default_rng([n, seed])
        flat = rng.choice(self.joint.size, size=n, p=self.joint.ravel())
        columns = np.unravel_index(flat, self.joint.shape)
        parties = {f"informative {j}": columns[j + 1] for j in range(self.n_informative)}
        parties |= {f"noise {j} of {k}": rng.integers(0, k, n) for j, k in enumerate(useless)}
        if row_id:
            parties["row id"] = rng.permutation(n)
        return JointCounts.from_columns(label=columns[-1], task=columns[0], parties=parties)


def _logistic(name: str, seed: int, sizes, scales, n_task: int = 1, n_labels: int = 2) -> World:
    """Independent uniform codes; log odds of Y add up over the parties."""
    rng = np.random.default_rng(seed)
    shape = (n_task, *sizes, n_labels)
    logit = np.zeros(shape)
    for axis, (size, scale) in enumerate(zip((n_task, *sizes), (0.5, *scales), strict=True)):
        effect = rng.normal(size=(size, n_labels)) * scale
        logit = logit + effect.reshape([size if a == axis else 1 for a in range(len(sizes) + 1)] + [n_labels])
    p = np.exp(logit)
    p /= p.sum(axis=-1, keepdims=True) * math.prod(shape[:-1])
    return World(name, p)


def _noisy_xor() -> World:
    """Two parties that tell nothing alone and 0.37 nats together, and a third that tells some alone."""
    joint = np.zeros((1, 2, 2, 3, 2))
    for a, b, c, y in itertools.product(range(2), range(2), range(3), range(2)):
        odds = (2.2 if a ^ b else -2.2) + (c - 1) * 1.2
        joint[0, a, b, c, y] = (1 / (1 + math.exp(-odds)) if y else 1 / (1 + math.exp(odds))) / 12
    return World("synergy", joint)


def _noisy_copy() -> World:
    """The second party repeats the first in 85% of the samples; a third stands on its own."""
    joint = np.zeros((2, 3, 3, 2, 2))
    for t, a, b, c, y in itertools.product(range(2), range(3), range(3), range(2), range(2)):
        copy = 0.85 if a == b else 0.075
        odds = (a - 1) * 2.0 + (c - 0.5) * 1.5 + (t - 0.5) * 0.6
        joint[t, a, b, c, y] = copy * (1 / (1 + math.exp(-odds)) if y else 1 / (1 + math.exp(odds))) / 12
    return World("redundancy", joint)


def worlds() -> tuple[World, ...]:
    """Additive effects with and without X_t, synergy and redundancy."""
    return (
        _logistic("two labels", 3, (3, 4), (1.4, 1.0)),
        _logistic("three labels, task features", 11, (3, 4), (1.4, 0.9), n_task=2, n_labels=3),
        _noisy_xor(),
        _noisy_copy(),
    )
