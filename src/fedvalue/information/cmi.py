"""Plug-in entropies and conditional mutual information of counts, in nats (paper, Eq. 2-4)."""

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


def conditional_entropy(label: Codes, given: Sequence[Codes], count: Counts) -> float:
    """H(Y | columns) of weighted items: n·H = Σ_blocks ξ(N_B) − Σ_blocks,y ξ(N_{B,y}).

    Raises:
        InputError: There is no sample.
    """
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


def conditional_mutual_information(counts: Counts) -> float:
    """I(X; Y | Z) of a joint count table, in nats (Eq. 4).

    Args:
        counts: Non-negative integers of shape (n_x, n_y, n_z).

    Returns:
        The plug-in estimate. Empty cells add nothing (0 log 0 = 0).

    Raises:
        InputError: The table is not three-dimensional, has a negative cell or holds no sample.
    """
    counts = np.asarray(counts)
    if counts.ndim != 3:
        raise InputError(f"expected a table of shape (n_x, n_y, n_z), got {counts.ndim} dimension(s)")
    if counts.dtype.kind not in "biuf" or not (counts >= 0).all():
        raise InputError("counts must be numbers and must not be negative")
    n = counts.sum()
    if n == 0:
        raise InputError("a table without samples has no conditional mutual information")
    joint = counts.astype(np.float64)
    n_z = joint.sum(axis=(0, 1), keepdims=True)
    n_xz = joint.sum(axis=1, keepdims=True)
    n_yz = joint.sum(axis=0, keepdims=True)
    cells = joint > 0
    # log(a/b) as a difference of logs, for precision.
    log = np.zeros_like(joint)
    for sign, table in ((1, joint), (1, n_z), (-1, n_xz), (-1, n_yz)):
        log += sign * np.log(np.where(cells, table, 1.0))
    return float((joint * log).sum() / n)


def cmi(x: Codes, y: Codes, z: Codes | None = None, count: Counts | None = None) -> float:
    """I(X; Y | Z) of three code columns, in nats; I(X; Y) without `z`. `count` weighs the rows."""
    y = pack([y])
    weights = np.ones(len(y), dtype=np.int64) if count is None else np.asarray(count, dtype=np.int64)
    given = [] if z is None else [z]
    return conditional_entropy(y, given, weights) - conditional_entropy(y, [*given, x], weights)
