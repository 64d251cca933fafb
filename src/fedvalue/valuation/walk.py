"""Exact Shapley-CMI of a joint table.

Theory. A block B is a set of items that some coalition cannot tell apart. Its own game is the one
in which a coalition T splits B: the cost c(B) falls to the sum of c over the parts. Blocks are
independent games and the Shapley value is linear, so the values of the table are the sum of the
values of its blocks. Parties on which B is constant are dummies of B's game; let R_B be the
others. Whoever of R_B comes first, all equally likely, splits B into parts, which again are
independent games. Hence, with q(B) the probability that a random order of the parties passes
through the block B,

    n · φ_d = Σ_B q(B) / |R_B| · [c(B) − Σ_{parts B' of B by d} c(B')],
    q(B')  += q(B) / |R_B|   for every d of R_B and every part B' of B by d.

Many coalitions share a block, and the game of a block depends on the block alone, so each block
is handled once, largest first. A block pure in Y costs nothing, nor do its parts: dropped.
Every term is non-negative: nothing cancels.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats, Progress


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How to walk. The values do not depend on it beyond rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactValues:
    """Exact values, in nats.

    Args:
        values: Shapley-CMI of each party.
        total: val(all) = I(X_all; Y | X_t).
        label_entropy: H(Y | X_t).
        n_nodes: Number of blocks handled.
    """

    values: Floats
    total: float
    label_entropy: float
    n_nodes: int


def exact_values(
    counts: JointCounts,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    options: WalkOptions | None = None,
) -> ExactValues:
    """Shapley-CMI of every data party, exact up to rounding."""
    del executor, options
    n, p = counts.n_samples, counts.n_parties
    label = np.unique(counts.label, return_inverse=True)[1]
    parties = counts.parties

    def cost(items: NDArray[np.int64]) -> float:
        w = counts.count[items]
        per_label = np.bincount(label[items], weights=w)
        per_label = per_label[per_label > 0]
        total = w.sum()
        return float(total * np.log(total) - (per_label * np.log(per_label)).sum()) if len(per_label) > 1 else 0.0

    def split(items: NDArray[np.int64], codes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return [items[codes == k] for k in np.unique(codes)]

    pending: dict[int, dict[bytes, float]] = defaultdict(dict)
    entropy = 0.0
    for block in split(np.arange(counts.n_items), counts.task):
        c = cost(block)
        entropy += c
        if c > 0:
            pending[len(block)][block.tobytes()] = 1.0
    gains = np.zeros(p)
    n_nodes = 0
    for size in range(counts.n_items, 1, -1):
        for key, mass in pending.pop(size, {}).items():
            n_nodes += 1
            block = np.frombuffer(key, dtype=np.int64)
            codes = parties[block]
            free = np.flatnonzero((codes != codes[0]).any(axis=0))
            if not len(free):
                continue
            share = mass / len(free)
            c_block = cost(block)
            for d in free:
                gain = c_block
                for part in split(block, codes[:, d]):
                    c = cost(part)
                    if c > 0:
                        gain -= c
                        table = pending[len(part)]
                        part_key = part.tobytes()
                        table[part_key] = table.get(part_key, 0.0) + share
                gains[d] += share * gain
        if progress is not None:
            progress(float(counts.n_items - size + 1), float(counts.n_items))
    values = gains / n
    return ExactValues(values=values, total=float(values.sum()), label_entropy=entropy / n, n_nodes=n_nodes)
