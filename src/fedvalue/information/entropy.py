"""Plug-in entropies of counts, in nats (the maximum likelihood estimates of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.contingency import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedvalue.typing import Codes, Counts


def xi(k: Counts) -> np.float64:
    """Σ k ln k, with 0 ln 0 = 0."""
    k = np.asarray(k, dtype=np.float64)
    k = k[k > 0]
    return np.float64(np.dot(k, np.log(k)))


def entropy(counts: Counts) -> float:
    """H of a table of counts, of any shape.

    Raises:
        InputError: The table holds no sample.
    """
    n = int(np.sum(counts))
    if n <= 0:
        raise InputError("the entropy of a table without samples is not defined")
    return float(np.log(n) - xi(counts) / n)


def conditional_entropy(label: Codes, given: Sequence[Codes], count: Counts) -> float:
    """H(Y | the given columns) of weighted items: n·H = Σ_blocks ξ(N_B) − Σ_blocks,y ξ(N_{B,y})."""
    n = int(np.sum(count))
    if n <= 0:
        raise InputError("the entropy of a table without samples is not defined")
    blocks = pack(given) if given else np.zeros(len(label), dtype=np.int64)
    joint = pack([blocks, label])
    return float((xi(_totals(blocks, count)) - xi(_totals(joint, count))) / n)


def _totals(key: Codes, count: Counts) -> Counts:
    totals = np.zeros(int(key.max()) + 1, dtype=np.int64)
    np.add.at(totals, key, count)
    return totals
